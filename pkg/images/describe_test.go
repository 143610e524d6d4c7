package images_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/go-digest"

	"github.com/podtask/podtask/internal/testing/registrytest"
	"github.com/podtask/podtask/pkg/images"
)

func TestDescribe(t *testing.T) {
	t.Parallel()
	reg := registrytest.Start(t, tokenAuth())
	single, index := push(t, reg, "single:1"), pushIndex(t, reg, "multi:1")
	foreign, err := registrytest.PlatformImage(v1.Platform{OS: "linux", Architecture: "s390x"}, v1.Config{})
	if err != nil {
		t.Fatal(err)
	}
	foreignDigest, err := reg.Push("foreign:1", foreign)
	if err != nil {
		t.Fatal(err)
	}
	resolver := images.New(optionsFor(t, reg))
	for _, tc := range []struct {
		rule, ref, want string
		digest          string
		variants        string
		refused         []string
	}{
		{"an index and one of its platforms", "multi:1", "linux/arm64", index, "linux/amd64 linux/arm64", nil},
		{"an index without the platform", "multi:1", "linux/s390x", index, "linux/amd64 linux/arm64", []string{"linux/amd64, linux/arm64", "linux/s390x is required"}},
		{"a single image", "single:1", "linux/amd64", single, "linux/amd64", nil},
		{"a single image by digest", "single@" + single, "linux/amd64", single, "linux/amd64", nil},
		{"a tag beside the digest, which is not looked at", "single:gone@" + single, "linux/amd64", single, "linux/amd64", nil},
		{"a single image of another platform", "foreign:1", "linux/amd64", foreignDigest, "linux/s390x", []string{"linux/s390x", "linux/amd64 is required"}},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			t.Parallel()
			want, err := images.ParsePlatform(tc.want)
			if err != nil {
				t.Fatal(err)
			}
			d, err := resolver.Describe(t.Context(), reg.Ref(tc.ref), images.Login{}, want)
			if err != nil {
				t.Fatal(err)
			}
			var variants []string
			for _, v := range d.Variants {
				variants = append(variants, v.Platform.String())
			}
			if d.Digest != tc.digest || strings.Join(variants, " ") != tc.variants {
				t.Errorf("%s for %v, want %s for %s", d.Digest, variants, tc.digest, tc.variants)
			}
			err = d.Check(want)
			if tc.refused == nil {
				if err != nil || d.Chosen.Platform != want {
					t.Errorf("chosen %v, %v", d.Chosen, err)
				}
				return
			}
			e := failure(t, err, images.WrongPlatform, false)
			for _, text := range tc.refused {
				if !strings.Contains(e.Error(), text) {
					t.Errorf("%q does not say %q", e, text)
				}
			}
		})
	}
}

// The reason names what was asked for: here there is no tag.
func TestDescribeOfADigestThatIsNotThere(t *testing.T) {
	t.Parallel()
	reg := registrytest.Start(t, registrytest.Options{})
	push(t, reg, "app:1")
	ref := reg.Ref("app@sha256:" + strings.Repeat("a", 64))
	_, err := images.New(optionsFor(t, reg)).Describe(t.Context(), ref, images.Login{}, images.Here())
	if e := failure(t, err, images.NoSuchTag, false); !strings.Contains(e.Error(), "has no image with this digest") || !strings.Contains(e.Error(), ref) {
		t.Error(e)
	}
}

func TestDescribeRefusesARegistryThatLies(t *testing.T) {
	t.Parallel()
	reg := registrytest.Start(t, registrytest.Options{})
	asked, sent := push(t, reg, "app:1"), push(t, reg, "app:2")
	reg.Fault("GET", manifests+asked, 0, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		r.URL.Path = strings.Replace(r.URL.Path, asked, sent, 1)
		next.ServeHTTP(w, r)
	})
	_, err := images.New(optionsFor(t, reg)).Describe(t.Context(), reg.Ref("app@"+asked), images.Login{}, images.Here())
	e := failure(t, err, images.Other, false)
	if !strings.Contains(e.Error(), "does not match the requested digest") || !strings.Contains(e.Error(), sent) {
		t.Error(e)
	}
}

// disguised is a manifest in the form of a signed one of schema 1. What it says is signed is payload, which has
// nothing to do with the rest.
func disguised(t *testing.T, payload []byte) []byte {
	t.Helper()
	marshal := func(v any) []byte {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	encode := base64.RawURLEncoding.EncodeToString
	type object = map[string]any
	protected := marshal(object{"formatLength": 1, "formatTail": encode(payload[1:]), "time": "2026-01-01T00:00:00Z"})
	descriptor := object{"mediaType": "application/vnd.oci.image.config.v1+json", "size": 2, "digest": "sha256:" + strings.Repeat("b", 64)}
	return marshal(object{
		"schemaVersion": 1, "name": "app", "tag": "1", "architecture": "amd64", "fsLayers": []object{}, "history": []object{},
		"config": descriptor, "layers": []object{}, "manifests": []object{},
		"signatures": []object{{"header": object{"alg": "ES256", "jwk": object{"kty": "EC"}}, "signature": encode([]byte("s")), "protected": encode(protected)}},
	})
}

// The digest is that of the bytes, whatever the sender says is signed in them (CVE-2026-111361).
func TestDisguisedManifestHasTheDigestOfItsBytes(t *testing.T) {
	t.Parallel()
	for _, mediaType := range []string{
		"application/vnd.oci.image.manifest.v1+json", "application/vnd.oci.image.index.v1+json", schema2,
		"application/vnd.docker.distribution.manifest.list.v2+json", schema1, "application/vnd.docker.distribution.manifest.v1+prettyjws", "text/plain",
	} {
		t.Run(mediaType, func(t *testing.T) {
			t.Parallel()
			reg := registrytest.Start(t, registrytest.Options{})
			payload := []byte(`{"schemaVersion":2}`)
			body, asked := disguised(t, payload), digest.FromBytes(payload).String()
			reg.Fault("GET", manifests, 0, registrytest.Body(mediaType, body))
			reg.Fault("HEAD", manifests, 0, registrytest.NoDigest())
			resolver := images.New(optionsFor(t, reg))
			_, err := resolver.Describe(t.Context(), reg.Ref("app@"+asked), images.Login{}, images.Here())
			if !errors.Is(err, images.ErrWrongContent) || !strings.Contains(err.Error(), digest.FromBytes(body).String()) {
				t.Errorf("by digest: %v", err)
			}
			push(t, reg, "app:1")
			found, err := resolver.Resolve(t.Context(), reg.Ref("app:1"), images.Login{})
			if err == nil && !found.Skipped && found.Digest != digest.FromBytes(body).String() {
				t.Errorf("by tag: %+v", found)
			}
		})
	}
}

// A configuration counts only if its bytes have the digest in the manifest.
func TestDescribeRefusesAnotherConfiguration(t *testing.T) {
	t.Parallel()
	reg := registrytest.Start(t, registrytest.Options{})
	asked := push(t, reg, "app:1")
	reg.Fault("GET", "/v2/app/blobs/", 0, registrytest.Body("application/octet-stream", disguised(t, []byte(`{"os":"linux"}`))))
	d, err := images.New(optionsFor(t, reg)).Describe(t.Context(), reg.Ref("app@"+asked), images.Login{}, images.Here())
	if err == nil {
		t.Errorf("%+v", d)
	}
}

func TestParsePlatformRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "linux", "linux/", "/arm64", "a/b/c/d"} {
		if p, err := images.ParsePlatform(text); err == nil {
			t.Errorf("%q is %v", text, p)
		}
	}
}

func TestParseLogin(t *testing.T) {
	t.Parallel()
	ref, err := images.ParseRef("registry.example.com/team/app:1")
	if err != nil {
		t.Fatal(err)
	}
	const auth = `"YWxpY2U6Y29ycmVjdC1ob3JzZS03"` // alice:correct-horse-7
	alice := images.Login{Username: user, Password: password}
	for _, tc := range []struct {
		rule, secret string
		want         images.Login
	}{
		{"as ECS has it", `{"username":"alice","password":"correct-horse-7"}`, alice},
		{"user and password", "alice:correct-horse-7", alice},
		{"a colon in the password", "alice:a:b", images.Login{Username: user, Password: "a:b"}},
		{"dockerconfigjson", `{"auths":{"other.example.com":{"auth":"eDp5"},"registry.example.com":{"auth":` + auth + `}}}`, alice},
		{"a namespace before the registry", `{"auths":{"registry.example.com":{"auth":"eDp5"},"registry.example.com/team":{"auth":` + auth + `}}}`, alice},
		{"a URL", `{"auths":{"https://registry.example.com/v2/":{"username":"alice","password":"correct-horse-7"}}}`, alice},
		{"an identity token", `{"username":"00","identitytoken":"t"}`, images.Login{Username: "00", IdentityToken: "t"}},
		{"a bearer token", `{"registrytoken":"t"}`, images.Login{BearerToken: "t"}},
	} {
		if got, err := images.ParseLogin([]byte(tc.secret), ref); err != nil || got != tc.want {
			t.Errorf("%s: another login, or %v", tc.rule, err)
		}
	}
	for _, secret := range []string{
		"", "correct-horse-7", ":correct-horse-7", "alice:", "{", `{"username":"correct-horse-7"}`, `{"password":"correct-horse-7"}`,
		`{"auths":{}}`, `{"auths":{"registry.example.com.evil":{"auth":` + auth + `}}}`, `{"auths":{"registry.example.com":{"auth":"correct-horse-7"}}}`,
		"alice:correct\nhorse", `["correct-horse-7"]`, "alice:\xff",
	} {
		l, err := images.ParseLogin([]byte(secret), ref)
		if err == nil {
			t.Errorf("%q is a login", secret)
			continue
		}
		if strings.Contains(err.Error(), "correct") {
			t.Errorf("the secret is in the error: %v", err)
		}
		if l != (images.Login{}) {
			t.Error("there is a login beside the error")
		}
	}
}

func FuzzParseLogin(f *testing.F) {
	for _, s := range []string{"a:b", `{"username":"a","password":"b"}`, `{"auths":{"docker.io":{"auth":"YTpi"}}}`, "{", ""} {
		f.Add([]byte(s))
	}
	ref, err := images.ParseRef("app")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, secret []byte) {
		l, err := images.ParseLogin(secret, ref)
		if (err == nil) == (l == images.Login{}) {
			t.Errorf("%v beside %v", l == images.Login{}, err)
		}
	})
}

func TestLoginDoesNotShowItself(t *testing.T) {
	t.Parallel()
	l := images.Login{Username: user, Password: password, IdentityToken: password, BearerToken: password}
	asJSON, err := json.Marshal(struct{ L images.Login }{l})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprintf("%v %+v %#v %s %q", l, l, l, l, &l), string(asJSON)} {
		if strings.Contains(text, password) {
			t.Error(text)
		}
	}
}

// A login that a task brings is for the registry that its image names: a mirror
// does not see it.
func TestGivenLoginIsNotShownToMirrors(t *testing.T) {
	t.Parallel()
	origin := registrytest.Start(t, basicAuth())
	mirror := registrytest.Start(t, registrytest.Options{})
	want := push(t, origin, "app:1")
	mirror.Fault("", ".", 0, func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		if _, got, _ := r.BasicAuth(); got != "" {
			t.Error("the mirror was shown the login")
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="mirror"`)
		w.WriteHeader(http.StatusUnauthorized)
	})
	options := optionsFor(t, origin)
	options.AuthFile = file(t, "empty.json", []byte("{}"))
	options.RegistriesConf = file(t, "registries.conf", append(origin.RegistriesConf(),
		"[[registry.mirror]]\nlocation = \""+mirror.Addr()+"\"\ninsecure = true\n"...))
	resolver := images.New(options)
	login := images.Login{Username: user, Password: password}
	got, err := resolver.Resolve(t.Context(), origin.Ref("app:1"), login)
	if err != nil || got.Digest != want {
		t.Errorf("got %+v, %v", got, err)
	}
	if len(mirror.Log()) == 0 {
		t.Error("the mirror was not asked")
	}
}

func TestAccess(t *testing.T) {
	t.Parallel()
	reg := registrytest.Start(t, basicAuth())
	ref, err := images.ParseRef(reg.Ref("app:1"))
	if err != nil {
		t.Fatal(err)
	}
	options := optionsFor(t, reg)
	mirrored := options
	mirrored.RegistriesConf = file(t, "registries.conf", append(reg.RegistriesConf(), "[[registry.mirror]]\nlocation = \"mirror.example.com\"\n"...))
	byDigest := options // a mirror that is asked for digests only, as Podman may pull from it
	byDigest.RegistriesConf = file(t, "registries.conf", append(reg.RegistriesConf(),
		"[[registry.mirror]]\nlocation = \"mirror.example.com\"\npull-from-mirror = \"digest-only\"\n"...))
	pinned, err := images.ParseRef(ref.At("sha256:" + strings.Repeat("a", 64)))
	if err != nil {
		t.Fatal(err)
	}
	alice, given := images.Login{Username: user, Password: password}, images.Login{Username: "bob", Password: "b"}
	for _, tc := range []struct {
		rule    string
		ref     images.Ref
		options images.Options
		given   images.Login
		want    images.Login
		file    string
	}{
		{"a login of the task's own", ref, options, given, given, ""},
		{"what is configured for the registry", ref, options, images.Login{}, alice, options.AuthFile},
		{"mirrors may have others", ref, mirrored, images.Login{}, images.Login{}, options.AuthFile},
		{"a mirror of digests has no tags", ref, byDigest, images.Login{}, alice, options.AuthFile},
		{"a mirror of digests may have another", pinned, byDigest, images.Login{}, images.Login{}, options.AuthFile},
	} {
		login, authFile, err := images.New(tc.options).Access(tc.ref, tc.given)
		if err != nil || login != tc.want || authFile != tc.file {
			t.Errorf("%s: another login, or file %q, or %v", tc.rule, authFile, err)
		}
	}
	_, _, err = images.New(options).Access(ref, images.Login{BearerToken: "t"})
	if e := failure(t, err, images.Other, false); !strings.Contains(e.Message, "bearer") {
		t.Error(e)
	}
}

func TestGivenLoginCountsBeforeTheConfiguredOne(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]registrytest.Options{"basic": basicAuth(), "token": tokenAuth()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reg := registrytest.Start(t, options)
			want := push(t, reg, "app:1")
			o := optionsFor(t, reg)
			o.AuthFile = file(t, "auth.json", reg.AuthJSONFor(user, "wrong-horse"))
			resolver := images.New(o)
			got, err := resolver.Resolve(t.Context(), reg.Ref("app:1"), images.Login{Username: user, Password: password})
			if err != nil || got.Digest != want {
				t.Errorf("got %+v, %v", got, err)
			}
			_, err = resolver.Resolve(t.Context(), reg.Ref("app:1"), images.Login{Username: user, Password: "wrong-horse"})
			if e := failure(t, err, images.Unauthorized, false); !strings.Contains(e.Hint, "repositoryCredentials") {
				t.Error(e)
			}
		})
	}
}
