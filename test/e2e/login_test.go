//go:build e2e

//e2e:bed plain

package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// helper puts a credential helper of that name where installed ones are found, in PATH.
// It answers with a user and a secret, and its requests are in the file called asked.
func (b *box) helper(name, user, secret string) (asked string) {
	b.t.Helper()
	dir := filepath.Join(b.dir, "bin")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		b.t.Fatal(err)
	}
	asked = filepath.Join(dir, "asked")
	script := fmt.Sprintf("#!/bin/sh\nread -r server\necho \"$1 $server\" >>%s\necho '{\"ServerURL\":\"'\"$server\"'\",\"Username\":\"%s\",\"Secret\":\"%s\"}'\n", asked, user, secret)
	if secret == "" {
		script = "#!/bin/sh\necho the vault is sealed\nexit 1\n"
	}
	if err := os.WriteFile(filepath.Join(dir, "docker-credential-"+name), []byte(script), 0o700); err != nil {
		b.t.Fatal(err)
	}
	b.env = append(b.env, "PATH="+dir+":"+os.Getenv("PATH"))
	return asked
}

// inAuthFile makes an auth file of the test's own.
func (b *box) inAuthFile(content obj) {
	b.t.Helper()
	text, err := json.Marshal(content)
	if err != nil {
		b.t.Fatal(err)
	}
	b.env = append(b.env, "REGISTRY_AUTH_FILE="+b.file("own-auth.json", string(text)))
}

// A login comes from a credential helper, Amazon ECR's among them, as a password or as
// an identity token, wherever containers/image has it configured. It is fetched for the
// digest and for the pull, and nothing keeps it.
func TestCredentialHelpers(t *testing.T) {
	t.Parallel()
	inAuthFile := func(name string) func(b *box) {
		return func(b *box) { b.inAuthFile(obj{"credHelpers": obj{bed.reg.Addr(): name}}) }
	}
	for _, tc := range []struct {
		name, helper, user, secret string
		configure                  func(b *box)
		want                       string // in the reason; empty: it runs
	}{
		{"Amazon ECR's", "ecr-login", "tester", password, inAuthFile("ecr-login"), ""},
		{"an identity token", "vault", "<token>", identityToken, inAuthFile("vault"), ""},
		{"named in registries.conf", "vault", "tester", password, func(b *box) {
			b.anonymous()
			conf := "credential-helpers = [\"containers-auth.json\", \"vault\"]\n" + string(bed.reg.RegistriesConf())
			b.env = append(b.env, "CONTAINERS_REGISTRIES_CONF="+b.file("registries.conf", conf))
		}, ""},
		{"a helper that fails", "vault", "", "", inAuthFile("vault"), "the vault is sealed"},
		{"a helper that is not installed", "vault", "tester", password, inAuthFile("ecr-login"), "docker-credential-ecr-login"},
		{"a wrong password", "vault", "tester", "wrong-horse", inAuthFile("vault"), "rejected the stored credentials"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			ref, _ := b.push("app:1", b.freshImage("app"))
			asked := b.helper(tc.helper, tc.user, tc.secret)
			tc.configure(b)
			code := 0
			if tc.want != "" {
				code = 125
			}
			r := b.want(code, "run", "--name", b.family, "--pull", "always", b.hello(ref))
			if got := b.inspect(b.family).StoppedReason; !strings.Contains(got, tc.want) {
				t.Errorf("the reason is %s", got)
			}
			if strings.Contains(r.out+r.err, "horse") {
				t.Errorf("the secret is shown:\n%s%s", r.out, r.err)
			}
			if tc.want != "" {
				return
			}
			text, err := os.ReadFile(asked)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(text)) {
				if line != "get "+bed.reg.Addr()+"\n" {
					t.Errorf("the helper was asked to %s", line)
				}
			}
			if n := strings.Count(string(text), "\n"); n < 2 {
				t.Errorf("the helper was asked %d times, for the digest and for the pull", n)
			}
		})
	}
}

// An identity token stands in for a password: as podman login leaves it, and as a
// container's own.
func TestIdentityToken(t *testing.T) {
	t.Parallel()
	entry := obj{"auth": base64.StdEncoding.EncodeToString([]byte("tester:")), "identitytoken": identityToken}
	for _, tc := range []struct {
		name   string
		define func(b *box, ref string) (path string)
	}{
		{"in an auth file", func(b *box, ref string) string {
			b.inAuthFile(obj{"auths": obj{bed.reg.Addr(): entry}})
			return b.hello(ref)
		}},
		{"of a container", func(b *box, ref string) string {
			b.anonymous()
			return b.withLogin(ref, b.loginFile(0o600, `{"username":"tester","identitytoken":"`+identityToken+`"}`))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			ref, digest := b.push("app:1", b.freshImage("app"))
			b.want(0, "run", "--name", b.family, "--pull", "always", tc.define(b, ref))
			if got := b.inspect(b.family).Containers[0].ImageDigest; got != digest {
				t.Errorf("digest %s, want %s", got, digest)
			}
		})
	}
}

// Podman cannot be given a bearer token to pull with: the task says so.
func TestBearerTokenIsNotEnough(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.anonymous()
	ref, digest := b.push("app:1", b.freshImage("app"))
	path := b.withLogin(ref, b.loginFile(0o600, `{"registrytoken":"`+bed.reg.BearerToken(b.repository("app"))+`"}`))
	r := b.want(125, "run", "--name", b.family, "--pull", "always", path)
	if !strings.Contains(r.err, "identity token") {
		t.Errorf("it says %s", r.err)
	}
	if got := b.inspect(b.family).Containers[0].ImageDigest; got != digest {
		t.Errorf("digest %s, want %s: to ask for it the token is enough", got, digest)
	}
}

// A container gets no further than NONE before its credentials are there: the registry
// is asked for nothing, and why says what is waited for.
func TestManifestWaitsForCredentials(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.anonymous()
	ref, digest := b.push("app:1", b.freshImage("app"))
	helper := b.file("helper", "#!/bin/sh\nuntil [ -e "+filepath.Join(b.dir, "unsealed")+" ]; do sleep 0.1; done\necho '"+loginJSON+"'\n")
	if err := os.Chmod(helper, 0o700); err != nil {
		t.Fatal(err)
	}
	run := b.start("run", "--name", b.family, "--pull", "always", b.withLogin(ref, "command:"+helper))
	eventually(t, "a sentence about the credentials", func() bool {
		r := b.podtask("why", b.family)
		return strings.Contains(r.out, "podtask is reading the credentials of")
	})
	if c := b.inspect(b.family).Containers[0]; c.Status != "NONE" || c.ImageDigest != "" {
		t.Errorf("the container is %s with the digest %s", c.Status, c.ImageDigest)
	}
	if got := b.requests(""); len(got) > 0 {
		t.Errorf("the registry was asked: %v", got)
	}
	b.file("unsealed", "")
	run.want(0)
	if e := b.await("app MANIFEST_PULLED"); e.Digest != digest {
		t.Errorf("digest %s, want %s", e.Digest, digest)
	}
}

func TestMissingCredentialsAreNamed(t *testing.T) {
	t.Parallel()
	for _, pull := range []string{"always", "default"} {
		t.Run(pull, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			b.anonymous()
			ref, _ := b.push("app:1", b.freshImage("app"))
			b.want(125, "run", "--name", b.family, "--pull", pull, b.withLogin(ref, "file:/nowhere/login"))
			sentence := b.want(0, "why", b.family).out
			for _, want := range []string{"CannotPullContainerAuthError", "registry credentials", "file:/nowhere/login", "no such file"} {
				if !strings.Contains(sentence, want) {
					t.Errorf("why does not say %q: %s", want, sentence)
				}
			}
			if count(b.events(), "app MANIFEST_PULLED") > 0 {
				t.Error("MANIFEST_PULLED was reported")
			}
			if got := b.requests(""); len(got) > 0 {
				t.Errorf("the registry was asked: %v", got)
			}
		})
	}
}
