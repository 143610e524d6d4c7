package images_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/podtask/podtask/internal/testing/freeport"
	"github.com/podtask/podtask/internal/testing/registrytest"
	"github.com/podtask/podtask/pkg/images"
	"github.com/podtask/podtask/pkg/transient"
)

const (
	user     = "alice"
	password = "correct-horse-7"

	schema1  = "application/vnd.docker.distribution.manifest.v1+json"
	schema2  = "application/vnd.docker.distribution.manifest.v2+json"
	ociIndex = "application/vnd.oci.image.index.v1+json"

	manifests = "/manifests/"
)

func basicAuth() registrytest.Options {
	return registrytest.Options{Auth: registrytest.Basic, User: user, Password: password}
}

func tokenAuth() registrytest.Options {
	return registrytest.Options{Auth: registrytest.Token, User: user, Password: password}
}

// file writes contents into a fresh directory and returns its path.
func file(t *testing.T, name string, contents []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, contents, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// optionsFor are those of a user who is logged in to reg.
func optionsFor(t *testing.T, reg *registrytest.Registry) images.Options {
	t.Helper()
	return images.Options{
		AuthFile:          file(t, "auth.json", reg.AuthJSON()),
		RegistriesConf:    file(t, "registries.conf", reg.RegistriesConf()),
		RegistriesConfDir: t.TempDir(),
		CertsDir:          t.TempDir(),
	}
}

func push(t *testing.T, reg *registrytest.Registry, name string) string {
	t.Helper()
	img, err := registrytest.Image(v1.Config{Cmd: []string{"/app"}}, registrytest.File{Path: "/app", Data: []byte(name)})
	if err != nil {
		t.Fatal(err)
	}
	digest, err := reg.Push(name, img)
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

func pushIndex(t *testing.T, reg *registrytest.Registry, name string) string {
	t.Helper()
	var all []v1.Image
	for _, arch := range []string{"amd64", "arm64"} {
		img, err := registrytest.PlatformImage(v1.Platform{OS: "linux", Architecture: arch}, v1.Config{},
			registrytest.File{Path: "/app", Data: []byte(arch)})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, img)
	}
	index, err := registrytest.Index(all...)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := reg.PushIndex(name, index)
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// count is how many requests of that method for manifests reg has seen.
func count(reg *registrytest.Registry, method string) int {
	n := 0
	for _, r := range reg.Log() {
		if r.Method == method && strings.Contains(r.Path, manifests) {
			n++
		}
	}
	return n
}

// failure asserts that err is an *images.Error of that class, fit to be shown.
func failure(t *testing.T, err error, class images.Class, temporary bool) *images.Error {
	t.Helper()
	var e *images.Error
	if !errors.As(err, &e) {
		t.Fatalf("error %v, want an *images.Error", err)
	}
	if e.Class != class || transient.Is(e) != temporary {
		t.Errorf("class %q, temporary %v; want %q, %v: %v", e.Class, transient.Is(e), class, temporary, err)
	}
	for _, secret := range []string{password, "wrong-horse", "YWxpY2U6"} {
		if strings.Contains(e.Error()+e.Message+e.Hint, secret) {
			t.Errorf("secret %q in %q", secret, e)
		}
	}
	return e
}

func TestResolveFindsTheDigestByHeadAlone(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]registrytest.Options{"open": {}, "basic": basicAuth(), "token": tokenAuth()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reg := registrytest.Start(t, options)
			want := map[string]string{"team/app:1": push(t, reg, "team/app:1"), "multi:2": pushIndex(t, reg, "multi:2")}
			resolver := images.New(optionsFor(t, reg))
			for image, digest := range want {
				got, err := resolver.Resolve(t.Context(), reg.Ref(image), images.Login{})
				if err != nil {
					t.Fatal(err)
				}
				repository, _, _ := strings.Cut(image, ":")
				if w := (images.Resolution{
					Reference: reg.Ref(image),
					Canonical: reg.Ref(repository) + "@" + digest,
					Digest:    digest,
					MediaType: map[string]string{"team/app:1": schema2, "multi:2": ociIndex}[image],
				}); got != w {
					t.Errorf("got %+v, want %+v", got, w)
				}
			}
			if heads, gets := count(reg, "HEAD"), count(reg, "GET"); heads != 2 || gets != 0 {
				t.Errorf("%d HEAD and %d GET requests for manifests, want 2 and 0", heads, gets)
			}
		})
	}
}

func TestResolveGetsTheManifestWhenHeadIsNotEnough(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]registrytest.Action{
		"no digest header": registrytest.NoDigest(),
		"HEAD refused":     registrytest.Status(405, "UNSUPPORTED", "no HEAD here"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reg := registrytest.Start(t, tokenAuth())
			want := pushIndex(t, reg, "app:1")
			reg.Fault("HEAD", manifests, 0, fault)
			got, err := images.New(optionsFor(t, reg)).Resolve(t.Context(), reg.Ref("app:1"), images.Login{})
			if err != nil {
				t.Fatal(err)
			}
			if got.Digest != want || got.MediaType != ociIndex {
				t.Errorf("got %s %s, want %s %s", got.Digest, got.MediaType, want, ociIndex)
			}
			if n := count(reg, "GET"); n != 1 {
				t.Errorf("%d GET requests, want 1", n)
			}
		})
	}
}

func TestResolveDoesNotBelieveAWrongContentType(t *testing.T) {
	t.Parallel()
	reg := registrytest.Start(t, registrytest.Options{})
	want := push(t, reg, "app:1")
	reg.Fault("HEAD", manifests, 0, registrytest.NoDigest())
	reg.Fault("GET", manifests, 0, registrytest.ContentType("application/json; charset=utf-8"))
	got, err := images.New(optionsFor(t, reg)).Resolve(t.Context(), reg.Ref("app:1"), images.Login{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Digest != want || got.MediaType != schema2 || got.Skipped {
		t.Errorf("got %+v, want digest %s of type %s", got, want, schema2)
	}
}

func TestResolveSkipsSchema1(t *testing.T) {
	t.Parallel()
	reg := registrytest.Start(t, registrytest.Options{})
	push(t, reg, "old:1")
	reg.Fault("", manifests, 0, registrytest.Schema1())
	got, err := images.New(optionsFor(t, reg)).Resolve(t.Context(), reg.Ref("old:1"), images.Login{})
	if err != nil {
		t.Fatal(err)
	}
	if want := (images.Resolution{Reference: reg.Ref("old:1"), MediaType: schema1, Skipped: true}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestResolveAsksNobodyForAPinnedReference(t *testing.T) {
	t.Parallel()
	reg := registrytest.Start(t, registrytest.Options{})
	digest := push(t, reg, "app:1")
	got, err := images.New(optionsFor(t, reg)).Resolve(t.Context(), reg.Ref("app:9@"+digest), images.Login{})
	if err != nil {
		t.Fatal(err)
	}
	want := images.Resolution{
		Reference: reg.Ref("app:9@" + digest), Canonical: reg.Ref("app@" + digest), Digest: digest, Pinned: true,
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if log := reg.Log(); len(log) != 0 {
		t.Errorf("requests for a pinned reference: %+v", log)
	}
}

func TestResolveUsesMirrors(t *testing.T) {
	t.Parallel()
	origin := registrytest.Start(t, registrytest.Options{})
	mirror := registrytest.Start(t, registrytest.Options{})
	push(t, origin, "app:1")
	want := pushIndex(t, mirror, "cache/app:1")
	options := optionsFor(t, origin)
	options.RegistriesConf = file(t, "registries.conf", append(origin.RegistriesConf(),
		"[[registry.mirror]]\nlocation = \""+mirror.Ref("cache")+"\"\ninsecure = true\n"...))
	got, err := images.New(options).Resolve(t.Context(), origin.Ref("app:1"), images.Login{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Digest != want || got.Reference != origin.Ref("app:1") {
		t.Errorf("got %+v, want the mirror's digest %s under the origin's name", got, want)
	}
	if len(origin.Log()) != 0 {
		t.Errorf("the origin was asked: %+v", origin.Log())
	}
}

func TestResolveFollowsAnotherLocation(t *testing.T) {
	t.Parallel()
	reg := registrytest.Start(t, registrytest.Options{})
	want := push(t, reg, "cache/library/app:latest")
	options := optionsFor(t, reg)
	options.RegistriesConf = file(t, "registries.conf", []byte(
		"[[registry]]\nprefix = \"docker.io\"\nlocation = \""+reg.Ref("cache")+"\"\ninsecure = true\n"))
	got, err := images.New(options).Resolve(t.Context(), "app", images.Login{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Digest != want || !got.Short || got.Reference != "docker.io/library/app:latest" {
		t.Errorf("got %+v, want %s for a short docker.io name", got, want)
	}
}

func TestResolveClassifiesWhatTheRegistrySays(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		rule      string
		path      string // of the fault; empty: none
		fault     registrytest.Action
		image     string
		class     images.Class
		temporary bool
		says      string
	}{
		{"an unknown repository", "", nil, "nobody/nothing:1", images.NoSuchRepository, false, "nobody/nothing"},
		{"an unknown tag", "", nil, "app:nope", images.NoSuchTag, false, "nope"},
		{"404 without a code", manifests, registrytest.Status(404, "", ""), "app:1", images.NoSuchTag, false, "app"},
		{"404 with a code of its own", manifests, registrytest.Status(404, "NOT_FOUND", "artifact missing"), "app:1", images.NoSuchTag, false, "app"},
		{"404 from something else than a registry", "^/v2/$", registrytest.Status(404, "", ""), "app:1", images.Other, false, "404"},
		{"401 for the image", manifests, registrytest.Status(401, "", ""), "app:1", images.Unauthorized, false, "podman login"},
		{"403 for the image", manifests, registrytest.Status(403, "DENIED", "no"), "app:1", images.Denied, false, "denies"},
		{"403 without a body", manifests, registrytest.Status(403, "", ""), "app:1", images.Denied, false, "denies"},
		{"500", manifests, registrytest.Status(500, "", ""), "app:1", images.Server, true, "500"},
		{"503 at the first contact", "^/v2/$", registrytest.Status(503, "UNAVAILABLE", "later"), "app:1", images.Server, true, "503"},
		{"a login page instead of a manifest", manifests, registrytest.Body("text/html", []byte("<html>hello</html>")), "app:1", images.Other, false, "not an image manifest"},
		{"a connection cut in mid-body", manifests, cut(), "app:1", images.Unreachable, true, "check that it is running"},
		{"a connection cut at the first contact", "^/v2/$", registrytest.Drop(), "app:1", images.Unreachable, true, "cannot be reached"},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			t.Parallel()
			for name, options := range map[string]registrytest.Options{"basic": basicAuth(), "token": tokenAuth()} {
				reg := registrytest.Start(t, options)
				push(t, reg, "app:1")
				if tc.fault != nil {
					reg.Fault("", tc.path, 0, tc.fault)
				}
				_, err := images.New(optionsFor(t, reg)).Resolve(t.Context(), reg.Ref(tc.image), images.Login{})
				e := failure(t, err, tc.class, tc.temporary)
				if !strings.Contains(e.Error(), tc.says) {
					t.Errorf("%s: %q does not say %q", name, e, tc.says)
				}
				if e.Registry != reg.Addr() || e.Ref != reg.Ref(tc.image) {
					t.Errorf("%s: error is about %s on %s", name, e.Ref, e.Registry)
				}
			}
		})
	}
}

// cut leaves HEAD without a digest, so that there is a body to be cut.
func cut() registrytest.Action {
	noDigest, reset := registrytest.NoDigest(), registrytest.Reset()
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method == http.MethodHead {
			noDigest(w, r, next)
			return
		}
		reset(w, r, next)
	}
}

func TestResolveClassifiesCredentials(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		rule string
		auth func(*registrytest.Registry) []byte
		says string
	}{
		{"none", func(*registrytest.Registry) []byte { return []byte("{}") }, "none are configured"},
		{"wrong", func(r *registrytest.Registry) []byte { return r.AuthJSONFor(user, "wrong-horse") }, "rejected the stored credentials"},
		{"unreadable", func(*registrytest.Registry) []byte { return []byte(`{"auths": "` + password) }, "cannot be read"},
	} {
		for name, options := range map[string]registrytest.Options{"basic": basicAuth(), "token": tokenAuth()} {
			t.Run(tc.rule+" with "+name, func(t *testing.T) {
				t.Parallel()
				reg := registrytest.Start(t, options)
				push(t, reg, "app:1")
				o := optionsFor(t, reg)
				o.AuthFile = file(t, "auth.json", tc.auth(reg))
				_, err := images.New(o).Resolve(t.Context(), reg.Ref("app:1"), images.Login{})
				e := failure(t, err, images.Unauthorized, false)
				if !strings.Contains(e.Message, tc.says) || !strings.Contains(e.Hint, "podman login "+reg.Addr()) {
					t.Errorf("%q, want %q and how to log in", e, tc.says)
				}
			})
		}
	}
}

func TestResolveClassifiesTokenServers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		rule      string
		fault     registrytest.Action
		class     images.Class
		temporary bool
	}{
		{"403", registrytest.Status(403, "", ""), images.Denied, false},
		{"429", registrytest.TooManyRequests(-1), images.RateLimited, true},
		{"500", registrytest.Status(500, "", ""), images.Server, true},
		{"cut off", registrytest.Reset(), images.Unreachable, true},
		{"not JSON, but a secret", registrytest.Body("text/plain", []byte(password)), images.Other, false},
		{"broken JSON with a secret", registrytest.Body("application/json", []byte(`{"token":"`+password)), images.Other, false},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			t.Parallel()
			reg := registrytest.Start(t, tokenAuth())
			push(t, reg, "app:1")
			reg.Fault("", "^/token$", 0, tc.fault)
			_, err := images.New(optionsFor(t, reg)).Resolve(t.Context(), reg.Ref("app:1"), images.Login{})
			failure(t, err, tc.class, tc.temporary)
		})
	}
}

func TestResolveObeysRetryAfter(t *testing.T) {
	t.Parallel()
	limits := map[string]string{"RateLimit-Limit": "100;w=21600", "RateLimit-Remaining": "0;w=21600"}
	for _, tc := range []struct {
		rule, path string
		status     int
		header     map[string]string
		times      int
		class      images.Class // of the failure; Other: none
		temporary  bool
		hits       int
		says       []string
	}{
		{rule: "429, for as long as it says", path: manifests, status: 429, header: map[string]string{"Retry-After": "1"}, times: 1, hits: 1},
		{rule: "503, for as long as it says", path: manifests, status: 503, header: map[string]string{"Retry-After": "1"}, times: 1, hits: 1},
		{rule: "at the first contact", path: "^/v2/$", status: 503, header: map[string]string{"Retry-After": "0"}, times: 2, hits: 2},
		{rule: "at the token server", path: "^/token$", status: 429, header: map[string]string{"Retry-After": "0"}, times: 2, hits: 2},
		{rule: "not for ever", path: manifests, status: 429, header: map[string]string{"Retry-After": "0"}, class: images.RateLimited, temporary: true, hits: 5},
		{rule: "not longer than anybody waits", path: manifests, status: 429, header: map[string]string{"Retry-After": "3600"}, class: images.RateLimited, hits: 1, says: []string{"wait 1h)"}},
		{rule: "a date is fine too", path: manifests, status: 503, header: map[string]string{"Retry-After": "Fri, 31 Dec 2999 23:59:59 GMT"}, class: images.Server, hits: 1, says: []string{"asks clients to wait"}},
		{rule: "the numbers are shown", path: manifests, status: 429, header: limits, class: images.RateLimited, temporary: true, hits: 1, says: []string{"limit 100 in 6h,", "0 left", "log in to get a higher limit"}},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			t.Parallel()
			reg := registrytest.Start(t, tokenAuth())
			want := push(t, reg, "app:1")
			rule := reg.Fault("", tc.path, tc.times, registrytest.Answer(tc.status, tc.header))
			got, err := images.New(optionsFor(t, reg)).Resolve(t.Context(), reg.Ref("app:1"), images.Login{})
			if tc.class == images.Other {
				if err != nil || got.Digest != want {
					t.Errorf("got %+v, %v", got, err)
				}
			} else {
				e := failure(t, err, tc.class, tc.temporary)
				for _, text := range tc.says {
					if !strings.Contains(e.Error(), text) {
						t.Errorf("%q does not say %q", e, text)
					}
				}
			}
			if rule.Hits() != tc.hits {
				t.Errorf("%d requests met the fault, want %d", rule.Hits(), tc.hits)
			}
		})
	}
}

func TestResolveClassifiesTLS(t *testing.T) {
	t.Parallel()
	reg := registrytest.Start(t, registrytest.Options{TLS: true})
	want := push(t, reg, "app:1")
	options := optionsFor(t, reg)

	strict := options
	strict.RegistriesConf = file(t, "registries.conf", nil)
	_, err := images.New(strict).Resolve(t.Context(), reg.Ref("app:1"), images.Login{})
	if e := failure(t, err, images.TLS, false); !strings.Contains(e.Hint, "certs.d") {
		t.Errorf("hint %q does not name certs.d", e.Hint)
	}

	trusting := strict
	ca := filepath.Join(strict.CertsDir, reg.Addr(), "ca.crt")
	if err := os.MkdirAll(filepath.Dir(ca), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ca, reg.CertPEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]images.Options{"with its CA": trusting, "insecure": options} {
		got, err := images.New(o).Resolve(t.Context(), reg.Ref("app:1"), images.Login{})
		if err != nil || got.Digest != want {
			t.Errorf("%s: got %s, %v; want %s", name, got.Digest, err, want)
		}
	}

	plain := registrytest.Start(t, registrytest.Options{})
	_, err = images.New(strict).Resolve(t.Context(), plain.Ref("app:1"), images.Login{})
	if e := failure(t, err, images.TLS, false); !strings.Contains(e.Hint, `location = "`+plain.Addr()+`": images and credentials may then travel unencrypted`) {
		t.Errorf("hint %q for plain HTTP does not say how to allow it", e.Hint)
	}
	moved := strict
	moved.RegistriesConf = file(t, "registries.conf", []byte("[[registry]]\nprefix = \"shop.example\"\nlocation = \""+plain.Addr()+"/shop\"\n"))
	_, err = images.New(moved).Resolve(t.Context(), "shop.example/app:1", images.Login{})
	if e := failure(t, err, images.TLS, false); !strings.Contains(e.Hint, `location = "`+plain.Addr()+`/shop"`) {
		t.Errorf("hint %q for another location does not name it", e.Hint)
	}
}

func TestResolveClassifiesNetwork(t *testing.T) {
	t.Parallel()
	options := images.Options{RegistriesConf: file(t, "registries.conf", nil), RegistriesConfDir: t.TempDir()}
	closed := fmt.Sprintf("127.0.0.1:%d", freeport.For(t))
	_, err := images.New(options).Resolve(t.Context(), closed+"/app:1", images.Login{})
	if e := failure(t, err, images.Unreachable, true); !strings.Contains(e.Message, "refused") {
		t.Errorf("%q does not say that the connection was refused", e)
	}

	// A label of 64 letters is no host name, so no name server is asked.
	_, err = images.New(options).Resolve(t.Context(), strings.Repeat("a", 64)+".example/app:1", images.Login{})
	failure(t, err, images.DNS, false)
}

func TestResolveRefusesABlockedRegistry(t *testing.T) {
	t.Parallel()
	reg := registrytest.Start(t, registrytest.Options{})
	options := optionsFor(t, reg)
	options.RegistriesConf = file(t, "registries.conf", append(reg.RegistriesConf(), "blocked = true\n"...))
	_, err := images.New(options).Resolve(t.Context(), reg.Ref("app:1"), images.Login{})
	if e := failure(t, err, images.Denied, false); !strings.Contains(e.Message, "registries.conf") {
		t.Errorf("%q does not name registries.conf", e)
	}
	if len(reg.Log()) != 0 {
		t.Errorf("a blocked registry was asked: %+v", reg.Log())
	}
}

func TestResolveEndsWithItsContext(t *testing.T) {
	t.Parallel()
	reg := registrytest.Start(t, tokenAuth())
	push(t, reg, "app:1")
	rule := reg.Fault("", manifests, 0, registrytest.Hang(nil))
	resolver := images.New(optionsFor(t, reg))

	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-rule.Arrived()
		cancel()
	}()
	_, err := resolver.Resolve(ctx, reg.Ref("app:1"), images.Login{})
	failure(t, err, images.Canceled, false)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v is not context.Canceled", err)
	}

	rule.Remove()
	rule = reg.Fault("", manifests, 0, registrytest.Hang(nil))
	expiring := newExpiring(t.Context())
	go func() {
		<-rule.Arrived()
		expiring.expire()
	}()
	_, err = resolver.Resolve(expiring, reg.Ref("app:1"), images.Login{})
	failure(t, err, images.Timeout, true)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v is not context.DeadlineExceeded", err)
	}

	before := len(reg.Log())
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	_, err = resolver.Resolve(ctx, reg.Ref("other:1"), images.Login{})
	failure(t, err, images.Canceled, false)
	if len(reg.Log()) != before {
		t.Error("a context that had ended caused requests")
	}
}

// expiring is a context whose deadline passes when the test says so.
type expiring struct {
	context.Context
	done chan struct{}
}

func newExpiring(parent context.Context) *expiring {
	return &expiring{parent, make(chan struct{})}
}

func (e *expiring) expire()               { close(e.done) }
func (e *expiring) Done() <-chan struct{} { return e.done }

func (e *expiring) Err() error {
	select {
	case <-e.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

type answer struct {
	res images.Resolution
	err error
}

// resolveAll calls Resolve for each context at once, in goroutines of its own.
func resolveAll(resolver *images.Resolver, ref string, contexts ...context.Context) []chan answer {
	var out []chan answer
	for _, ctx := range contexts {
		ch := make(chan answer, 1)
		out = append(out, ch)
		go func() {
			res, err := resolver.Resolve(ctx, ref, images.Login{})
			ch <- answer{res, err}
		}()
	}
	return out
}

func TestResolveSharesOneRequest(t *testing.T) {
	t.Parallel()
	reg := registrytest.Start(t, basicAuth())
	want := push(t, reg, "app:1")
	release := make(chan struct{})
	rule := reg.Fault("HEAD", manifests, 0, registrytest.Hang(release))
	resolver := images.New(optionsFor(t, reg))

	// The one who began it leaves; a second one who joined gets the answer.
	first, leave := context.WithCancel(t.Context())
	starter := resolveAll(resolver, reg.Ref("app:1"), first)[0]
	<-rule.Arrived()
	joiner := resolveAll(resolver, reg.Ref("app:1"), t.Context())[0]
	images.AwaitWaiters(resolver, reg.Ref("app:1"), 2)
	leave()
	failure(t, (<-starter).err, images.Canceled, false)
	close(release)
	if got := <-joiner; got.err != nil || got.res.Digest != want {
		t.Errorf("got %+v, %v; want %s", got.res, got.err, want)
	}
	if n := count(reg, "HEAD"); n != 1 {
		t.Errorf("%d HEAD requests, want 1", n)
	}

	// Nothing is remembered: the tag may have moved.
	moved := pushIndex(t, reg, "app:1")
	if got, err := resolver.Resolve(t.Context(), reg.Ref("app:1"), images.Login{}); err != nil || got.Digest != moved {
		t.Errorf("got %+v, %v; want the new digest %s", got, err, moved)
	}
}

func TestResolveEndsTheRequestWithItsLastCaller(t *testing.T) {
	t.Parallel()
	reg := registrytest.Start(t, basicAuth())
	want := push(t, reg, "app:1")
	hung, ended := make(chan struct{}), make(chan struct{})
	reg.Fault("HEAD", manifests, 1, func(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
		close(hung)
		<-r.Context().Done()
		close(ended)
		panic(http.ErrAbortHandler)
	})
	resolver := images.New(optionsFor(t, reg))
	ctx, cancel := context.WithCancel(t.Context())
	all := resolveAll(resolver, reg.Ref("app:1"), ctx, ctx, ctx)
	<-hung
	images.AwaitWaiters(resolver, reg.Ref("app:1"), 3)
	cancel()
	for _, ch := range all {
		failure(t, (<-ch).err, images.Canceled, false)
	}
	<-ended // the registry saw the request end
	if got, err := resolver.Resolve(t.Context(), reg.Ref("app:1"), images.Login{}); err != nil || got.Digest != want {
		t.Errorf("afterwards: got %+v, %v; want %s", got, err, want)
	}
}

func TestResolveAsksForDifferentImagesInParallel(t *testing.T) {
	t.Parallel()
	reg := registrytest.Start(t, tokenAuth())
	resolver := images.New(optionsFor(t, reg))
	names := []string{"a:1", "b:1", "c:1"}
	for _, name := range names {
		push(t, reg, name)
	}
	reg.Fault("HEAD", manifests, 0, registrytest.Gather(len(names)))
	var wg sync.WaitGroup
	for _, name := range names {
		wg.Go(func() {
			if _, err := resolver.Resolve(t.Context(), reg.Ref(name), images.Login{}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, r := range reg.Log() {
		if r.Method == "HEAD" && r.Overlaps < len(names)-1 {
			t.Errorf("%s overlapped %d others, want %d", r.Path, r.Overlaps, len(names)-1)
		}
	}
}

func TestOptionsFromEnv(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		rule string
		env  map[string]string
		want images.Options
	}{
		{"nothing", nil, images.Options{}},
		{"Podman's variables", map[string]string{"REGISTRY_AUTH_FILE": "/a", "CONTAINERS_REGISTRIES_CONF": "/r"},
			images.Options{AuthFile: "/a", RegistriesConf: "/r"}},
		{"Docker's directory", map[string]string{"DOCKER_CONFIG": "/d"}, images.Options{AuthFile: "/d/config.json"}},
		{"Podman's before Docker's", map[string]string{"REGISTRY_AUTH_FILE": "/a", "DOCKER_CONFIG": "/d"}, images.Options{AuthFile: "/a"}},
		{"the old name", map[string]string{"REGISTRIES_CONFIG_PATH": "/o"}, images.Options{RegistriesConf: "/o"}},
		{"the new name before the old", map[string]string{"CONTAINERS_REGISTRIES_CONF": "/r", "REGISTRIES_CONFIG_PATH": "/o"},
			images.Options{RegistriesConf: "/r"}},
	} {
		if got := images.OptionsFromEnv(func(k string) string { return tc.env[k] }); got != tc.want {
			t.Errorf("%s: got %+v, want %+v", tc.rule, got, tc.want)
		}
	}
}

func TestClassesHaveNames(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for c := images.Class(0); c < images.NumClasses; c++ {
		if name := c.String(); name == "" || seen[name] {
			t.Errorf("class %d has the name %q", c, name)
		}
		seen[c.String()] = true
	}
	if got := images.NumClasses.String(); got != "unknown class" {
		t.Errorf("an unknown class is called %q", got)
	}
}

// A resolver lives as long as an agent: what is written to registries.conf, or into its directory, counts
// from the next image on.
func TestRegistriesConfIsReadAgain(t *testing.T) {
	t.Parallel()
	reg := registrytest.Start(t, registrytest.Options{})
	push(t, reg, "app:1")
	options := optionsFor(t, reg)
	allowed := reg.RegistriesConf()
	conf := func(path string, content []byte) {
		t.Helper()
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	conf(options.RegistriesConf, []byte("# nothing yet\n"))
	r := images.New(options)
	resolves := func() bool {
		_, err := r.Resolve(t.Context(), reg.Ref("app:1"), images.Login{})
		return err == nil
	}
	if resolves() {
		t.Fatal("plain HTTP is used before registries.conf allows it")
	}
	conf(options.RegistriesConf, allowed)
	if !resolves() {
		t.Error("the change of registries.conf has no effect")
	}
	conf(options.RegistriesConf, []byte("# nothing\n"))
	if resolves() {
		t.Error("what was taken out of registries.conf has its effect")
	}
	conf(filepath.Join(options.RegistriesConfDir, "local.conf"), allowed)
	if !resolves() {
		t.Error("a file in registries.conf.d has no effect")
	}
}
