package images_test

import (
	"strings"
	"testing"

	"github.com/podtask/podtask/pkg/images"
)

const trustPolicy = `{
 "default": [{"type": "reject"}],
 "transports": {
  "docker": {
   "ghcr.io/team/web:1": [{"type": "signedBy", "keyType": "GPGKeys", "keyPath": "/keys/one.gpg"}],
   "ghcr.io/team": [{"type": "signedBy", "keyType": "GPGKeys", "keyPaths": ["/keys/a.gpg", "/keys/b.gpg"]}],
   "quay.io": [{"type": "sigstoreSigned", "keyPath": "/keys/cosign.pub"}, {"type": "sigstoreSigned", "fulcio": {"caPath": "/ca", "oidcIssuer": "https://id.example", "subjectEmail": "me@example.com"}}],
   "*.example.com": [{"type": "insecureAcceptAnything"}],
   "data.example": [{"type": "signedBy", "keyType": "GPGKeys", "keyData": "c2VjcmV0"}],
   "odd.example": [{"type": "mirrored"}]
  },
  "docker-daemon": {"": [{"type": "insecureAcceptAnything"}]}
 }
}`

// What Podman demands of an image is that of the narrowest scope, as containers-policy.json(5) has it.
func TestTrustIsThatOfTheNarrowestScope(t *testing.T) {
	t.Parallel()
	for ref, want := range map[string]string{
		"ghcr.io/team/web:1":          "the image is signed by /keys/one.gpg",
		"ghcr.io/team/web:2":          "the image is signed by /keys/a.gpg or /keys/b.gpg",
		"ghcr.io/team/deep/er:1":      "the image is signed by /keys/a.gpg or /keys/b.gpg",
		"ghcr.io/teams/web:1":         "no image is accepted",
		"quay.io/a/b":                 "the image is signed by /keys/cosign.pub, and the image is signed by me@example.com (https://id.example)",
		"reg.sub.example.com:5000/a":  "no image is accepted",
		"reg.sub.example.com/a":       "any image is accepted",
		"data.example/a":              "the image is signed by a key that is in the policy itself",
		"odd.example/a":               `the signature policy has an unknown requirement "mirrored"`,
		"docker.io/library/busybox:1": "no image is accepted",
	} {
		parsed, err := images.ParseRef(ref)
		if err != nil {
			t.Fatal(err)
		}
		got, err := images.Trust([]byte(trustPolicy), parsed)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %s; want %s", ref, got, want)
		}
	}
}

func FuzzTrust(f *testing.F) {
	f.Add(trustPolicy, "ghcr.io/team/web:1")
	f.Add(`{}`, "web")
	f.Add(`{"default": [{"type": "signedBy", "keyPath": "\u001b[31m"}]}`, "web")
	f.Fuzz(func(t *testing.T, policy, ref string) {
		parsed, err := images.ParseRef(ref)
		if err != nil {
			return
		}
		text, err := images.Trust([]byte(policy), parsed)
		if (text == "") == (err == nil) || strings.ContainsAny(text, "\x1b\n") {
			t.Errorf("%q, %v", text, err)
		}
	})
}
