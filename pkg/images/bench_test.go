package images_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/testing/registrytest"
	"github.com/podtask/podtask/pkg/images"
)

// The requests that docs/images.md promises, for each kind of registry and question.
func TestRequestsPerImage(t *testing.T) {
	t.Parallel()
	digestOf := func(r *images.Resolver, ref string) error {
		_, err := r.Resolve(context.Background(), ref, images.Login{})
		return err
	}
	describe := func(r *images.Resolver, ref string) error {
		_, err := r.Describe(context.Background(), ref, images.Login{}, images.Here())
		return err
	}
	for _, tc := range []struct {
		name    string
		options registrytest.Options
		conf    string // more of registries.conf
		ask     func(r *images.Resolver, ref string) error
		image   string
		want    string
	}{
		{"digest, open", registrytest.Options{}, "", digestOf, "app:1", "GET /v2/, HEAD manifest"},
		{"digest, basic", basicAuth(), "", digestOf, "app:1", "GET /v2/, HEAD manifest"},
		{"digest, token", tokenAuth(), "", digestOf, "app:1", "GET /v2/, GET /token, HEAD manifest"},
		{"digest, of a name that does not exist", registrytest.Options{}, "", digestOf, "app:2", "GET /v2/, HEAD manifest, GET /v2/, GET manifest"},
		{"digest, with a mirror of digests only", registrytest.Options{},
			"[[registry.mirror]]\nlocation = \"mirror.invalid\"\npull-from-mirror = \"digest-only\"\n", digestOf, "app:1", "GET /v2/, HEAD manifest"},
		{"digest, at another location", registrytest.Options{}, "", digestOf, "elsewhere.example.com/app:1", "GET /v2/, GET manifest"},
		{"platforms of an index", registrytest.Options{}, "", describe, "multi:1", "GET /v2/, GET manifest"},
		{"platforms of an image", registrytest.Options{}, "", describe, "app:1", "GET /v2/, GET manifest, GET blob"},
		{"platforms, token", tokenAuth(), "", describe, "multi:1", "GET /v2/, GET /token, GET manifest"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			reg := registrytest.Start(t, tc.options)
			push(t, reg, "app:1")
			pushIndex(t, reg, "multi:1")
			o := optionsFor(t, reg)
			conf := string(reg.RegistriesConf()) + tc.conf + "[[registry]]\nprefix = \"elsewhere.example.com\"\nlocation = \"" + reg.Addr() + "\"\ninsecure = true\n"
			o.RegistriesConf = file(t, "registries.conf", []byte(conf))
			ref := tc.image
			if !strings.Contains(ref, "/") {
				ref = reg.Ref(ref)
			}
			if err := tc.ask(images.New(o), ref); err != nil && tc.image != "app:2" {
				t.Fatal(err)
			}
			reg.Settle()
			if s := requests(reg); s != tc.want {
				t.Errorf("requests: %s; want %s", s, tc.want)
			}
		})
	}
}

// requests lists what a registry was asked for, in short.
func requests(reg *registrytest.Registry) string {
	var out []string
	for _, r := range reg.Log() {
		path := r.Path
		switch {
		case strings.Contains(path, manifests):
			path = "manifest"
		case strings.Contains(path, "/blobs/"):
			path = "blob"
		}
		out = append(out, r.Method+" "+path)
	}
	return strings.Join(out, ", ")
}

// Ten images cost no more time than one: at each step, first contact, token and digest,
// the requests for all of them are under way together. Who asks one by one waits for ever.
func TestTenImagesTakeTheStepsOfOne(t *testing.T) {
	t.Parallel()
	const all = 10
	reg := registrytest.Start(t, tokenAuth())
	resolver := images.New(optionsFor(t, reg))
	for _, step := range []string{"^/v2/$", "^/token$", manifests} {
		reg.Fault("", step, all, registrytest.Gather(all))
	}
	var wg sync.WaitGroup
	for i := range all {
		name := fmt.Sprintf("app%d:1", i)
		want := push(t, reg, name)
		wg.Go(func() {
			if got, err := resolver.Resolve(t.Context(), reg.Ref(name), images.Login{}); err != nil || got.Digest != want {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
	wg.Wait()
	reg.Settle()
	if n := len(reg.Log()); n != 3*all {
		t.Errorf("%d requests, want %d", n, 3*all)
	}
}

// maxRatio is how much longer than one image ten may take to be resolved.
const maxRatio = 1.3

// BenchmarkResolve resolves one image and then ten, each request 100 ms away, and
// reports the ratio of the shortest times: 1 is as good as can be, and more than
// maxRatio a failure.
func BenchmarkResolve(b *testing.B) {
	reg := registrytest.Start(b, tokenAuth())
	var refs []string
	for i := range 10 {
		name := fmt.Sprintf("app%d:1", i)
		img, err := registrytest.ProgramImage("app", []byte(name))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := reg.Push(name, img); err != nil {
			b.Fatal(err)
		}
		refs = append(refs, reg.Ref(name))
	}
	reg.Fault("", ".", 0, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		<-time.After(100 * time.Millisecond)
		next.ServeHTTP(w, r)
	})
	dir := b.TempDir()
	auth, conf := filepath.Join(dir, "auth.json"), filepath.Join(dir, "registries.conf")
	if err := os.WriteFile(auth, reg.AuthJSON(), 0o600); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(conf, reg.RegistriesConf(), 0o600); err != nil {
		b.Fatal(err)
	}
	resolver := images.New(images.Options{AuthFile: auth, RegistriesConf: conf, RegistriesConfDir: dir, CertsDir: dir})
	resolve := func(refs []string) time.Duration {
		begin := time.Now()
		var wg sync.WaitGroup
		for _, ref := range refs {
			wg.Go(func() {
				if _, err := resolver.Resolve(b.Context(), ref, images.Login{}); err != nil {
					b.Error(err)
				}
			})
		}
		wg.Wait()
		return time.Since(begin)
	}
	one, ten := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	for b.Loop() {
		one, ten = min(one, resolve(refs[:1])), min(ten, resolve(refs))
	}
	ratio := ten.Seconds() / one.Seconds()
	b.ReportMetric(ratio, "ten/one")
	if ratio > maxRatio {
		b.Errorf("ten images take %v and one takes %v: more than %v times as long", ten, one, maxRatio)
	}
}
