package images_test

import (
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/registrytest"
	"github.com/podtask/podtask/pkg/images"
)

// The requests that docs/images.md promises, for each kind of registry.
func TestRequestsPerImage(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		options registrytest.Options
		want    string
	}{
		{"open", registrytest.Options{}, "GET /v2/, HEAD manifest"},
		{"basic", basicAuth(), "GET /v2/, HEAD manifest"},
		{"token", tokenAuth(), "GET /v2/, GET /token, HEAD manifest"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			reg := registrytest.Start(t, tc.options)
			push(t, reg, "app:1")
			if _, err := images.New(optionsFor(t, reg)).Resolve(t.Context(), reg.Ref("app:1"), images.Login{}); err != nil {
				t.Fatal(err)
			}
			reg.Settle()
			var got []string
			for _, r := range reg.Log() {
				path := r.Path
				if strings.Contains(path, manifests) {
					path = "manifest"
				}
				got = append(got, r.Method+" "+path)
			}
			if s := strings.Join(got, ", "); s != tc.want {
				t.Errorf("requests: %s; want %s", s, tc.want)
			}
		})
	}
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
