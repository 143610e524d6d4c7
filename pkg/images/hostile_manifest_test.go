package images_test

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/testing/registrytest"
	"github.com/podtask/podtask/pkg/images"
)

const (
	ociManifest = "application/vnd.oci.image.manifest.v1+json"
	zeros       = "sha256:0000000000000000000000000000000000000000000000000000000000000000"
)

// entries is a JSON list of the same entry.
func entries(n int, one string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(one+",", n), ",") + "]"
}

// Manifests that nest, lie about what they are or have entries without number end soon, without a trace and in little memory:
// as an error, or as a description of what they say.
func TestHostileManifests(t *testing.T) {
	platform := fmt.Sprintf(`"platform":{"os":%q,"architecture":%q}`, images.Here().OS, images.Here().Architecture)
	entry := func(mediaType, size string) string {
		return fmt.Sprintf(`{"mediaType":%q,"digest":%q,"size":%s,%s}`, mediaType, zeros, size, platform)
	}
	image := func(layers string) string {
		return `{"schemaVersion":2,"mediaType":"` + ociManifest + `","config":` + entry("application/vnd.oci.image.config.v1+json", "2") + `,"layers":` + layers + `}`
	}
	index := func(list string) string {
		return `{"schemaVersion":2,"mediaType":"` + ociIndex + `","manifests":` + list + `}`
	}
	for name, tt := range map[string]struct{ mediaType, body string }{
		"an index of indexes":              {ociIndex, index(entries(3, entry(ociIndex, "10")))},
		"an index of 20,000 images":        {ociIndex, index(entries(20_000, entry(ociManifest, "10")))},
		"an index of nothing":              {ociIndex, index("[]")},
		"an index of null":                 {ociIndex, index("[null, {}]")},
		"sizes below zero and above 2^63":  {ociIndex, index(entries(1, entry(ociManifest, "-1")) + `,"x":1`)},
		"20,000 layers of 2^62":            {ociManifest, image(entries(20_000, entry("application/vnd.oci.image.layer.v1.tar+gzip", "4611686018427387904")))},
		"a size that is no number":         {ociManifest, image(entries(1, entry("a", `"x"`)))},
		"an image that is called an index": {ociIndex, image("[]")},
		"an index that is called an image": {ociManifest, index("[]")},
		"a type of another thing":          {"text/html; charset=x", index("[]")},
		"a type with lines":                {"application/json;\ta=\"\x1b\"", image("[]")},
		"schema 1 that is called OCI":      {ociManifest, `{"schemaVersion":1,"name":"a","tag":"b","architecture":"amd64","fsLayers":[],"history":[]}`},
		"schema 1 without layers":          {"application/vnd.docker.distribution.manifest.v1+json", `{"schemaVersion":1,"fsLayers":[],"history":[]}`},
		"deep":                             {ociIndex, strings.Repeat(`{"a":`, 100_000)},
		"deep in a list":                   {ociManifest, image(strings.Repeat("[", 100_000))},
		"nothing":                          {ociManifest, ""},
		"no object":                        {ociIndex, "null"},
	} {
		t.Run(name, func(t *testing.T) { // one at a time: they measure memory
			reg := registrytest.Start(t, registrytest.Options{})
			push(t, reg, "app:1")
			reg.Fault("HEAD", manifests, 0, func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { w.WriteHeader(http.StatusOK) })
			reg.Fault("GET", manifests, 0, registrytest.Body(tt.mediaType, []byte(tt.body)))
			hostile(t, reg)
		})
	}
}

// hostile asks a registry about app:1 and checks what an answer may cost and say.
func hostile(t *testing.T, reg *registrytest.Registry) (errs [2]error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	resolver := images.New(optionsFor(t, reg))
	_, errs[0] = resolver.Resolve(ctx, reg.Ref("app:1"), images.Login{})
	var d images.Description
	d, errs[1] = resolver.Describe(ctx, reg.Ref("app:1"), images.Login{}, images.Here())
	runtime.ReadMemStats(&after)
	for _, err := range errs {
		if err == nil {
			continue
		}
		if text := err.Error(); len(text) > 2048 || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' }) || strings.Contains(text, password) {
			t.Errorf("a long or unprintable error: %.3000q", err)
		}
	}
	if ctx.Err() != nil {
		t.Error("it took a minute")
	}
	if grown := int64(after.HeapInuse) - int64(before.HeapInuse); grown > 200<<20 {
		t.Errorf("the heap has grown by %d MiB", grown>>20)
	}
	t.Logf("%d variants; %v; %v", len(d.Variants), errs[0], errs[1])
	return errs
}

// A registry that names an odd place for its tokens gets an error, at once.
func TestOddTokenServers(t *testing.T) {
	t.Parallel()
	for _, realm := range []string{
		"", "/", "token", "file:///etc/passwd", "unix:///run/user/0/podman.sock", "http://", "http://[::1", "http://127.0.0.1:0/", "http://127.0.0.1:99999/", "javascript:x",
		"http://u:p@127.0.0.1:1/", "http://127.0.0.1:1/%zz", "http://127.0.0.1:1/\x1b[2J", "http://" + strings.Repeat("a", 5000) + "/", "gopher://127.0.0.1:1/", `http://127.0.0.1:1/" x="`,
	} {
		t.Run(realm[:min(len(realm), 30)], func(t *testing.T) {
			t.Parallel()
			reg := registrytest.Start(t, tokenAuth())
			push(t, reg, "app:1")
			reg.Fault("", "^/v2/", 0, func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
				w.Header().Set("WWW-Authenticate", `Bearer realm="`+realm+`",service="x"`)
				w.WriteHeader(http.StatusUnauthorized)
			})
			for _, err := range hostile(t, reg) {
				if err == nil {
					t.Error("it is no error")
				}
			}
		})
	}
}
