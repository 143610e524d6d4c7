//go:build e2e && (bed_plain || bed_systemd)

// Podman pulls what a registry sends, so these run with the Podman of each bed.

package e2e

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/podtask/podtask/internal/testing/registrytest"
)

// A registry whose layers are not what they should be makes the task fail in time, with a
// short error, a bounded number of requests, and without filling the disk.
func TestHostileRegistryEndsInAnError(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]registrytest.Action{
		"wrong content": registrytest.Body("application/octet-stream", bytes.Repeat([]byte("x"), 1<<16)),
		"redirect loop": func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
			http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
		},
		"endless layer": func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
			piece := registrytest.Random(1<<20, 7)
			for r.Context().Err() == nil {
				if _, err := w.Write(piece); err != nil {
					return
				}
			}
		},
		"shorter layer": func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			body := bodyOf(r, next)
			_, _ = w.Write(body[:len(body)/2])
		},
		"longer layer": func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			_, _ = w.Write(append(bodyOf(r, next), registrytest.Random(1<<16, 8)...))
		},
		"length that lies": func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			w.Header().Set("Content-Length", strconv.Itoa(1<<40))
			_, _ = w.Write(bodyOf(r, next))
		},
		"redirect to a place that is none": registrytest.Answer(http.StatusTemporaryRedirect, map[string]string{"Location": "http://127.0.0.1:1/%zz"}),
		"redirect to a file":               registrytest.Answer(http.StatusTemporaryRedirect, map[string]string{"Location": "file:///etc/passwd"}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := smallDisk(t, "96", false)
			b := newBox(t)
			b.env = append(b.env, "CONTAINER_HOST="+d.uri, "PODTASK_IMAGE_MIN_FREE=1", "PODTASK_PULL_TIMEOUT=20s", "PODTASK_PULL_IDLE=5s", "PODTASK_PULL_FIRST_BYTE=5s")
			image := b.freshImage(name)
			ref, _ := b.push("app:1", image)
			layers, err := image.Layers()
			if err != nil {
				t.Fatal(err)
			}
			layer, err := layers[0].Digest()
			if err != nil {
				t.Fatal(err)
			}
			b.fault("GET", "app", "blobs/"+layer.String(), 0, answer)
			r := b.want(125, "run", "--quiet", "--rm", b.hello(ref))
			if len(r.err) > 4096 || strings.Contains(r.err, password) || strings.Contains(r.err, "\x1b[2J") {
				t.Errorf("it printed %.5000q", r.err)
			}
			if n := len(b.requests("blobs/")); n > 150 {
				t.Errorf("%d requests", n)
			}
			t.Logf("%d requests; %s", len(b.requests("blobs/")), r.err)
			b.want(0, "run", "--rm", b.hello(b.testbox()))
		})
	}
}

// bodyOf returns the body of the true answer.
func bodyOf(r *http.Request, next http.Handler) []byte {
	answer := httptest.NewRecorder()
	next.ServeHTTP(answer, r)
	return answer.Body.Bytes()
}

// An image that unpacks to more than the disk has, and manifests that lie or have layers without number, end in a short
// error, and what was on the disk before still runs.
func TestHostileImagesEndInAnError(t *testing.T) {
	t.Parallel()
	bomb, err := registrytest.Image(v1.Config{Entrypoint: []string{"/testbox"}}, registrytest.File{Path: "/testbox", Data: bed.testbox}, registrytest.File{Path: "/zeros", Data: make([]byte, 256<<20)})
	if err != nil {
		t.Fatal(err)
	}
	const zeros = `"digest":"sha256:0000000000000000000000000000000000000000000000000000000000000000","size":4611686018427387904`
	layers := strings.TrimSuffix(strings.Repeat(`{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip",`+zeros+`},`, 20_000), ",")
	manifest := func(mediaType, body string) func(*box) string {
		return func(b *box) string {
			ref, digest := b.push("app:1", b.freshImage("hostile"))
			sum := "sha256:" + fmt.Sprintf("%x", sha256.Sum256([]byte(body)))
			lie := func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
				w.Header().Set("Docker-Content-Digest", sum)
				w.Header().Set("Content-Type", mediaType)
				w.Header().Set("Content-Length", strconv.Itoa(len(body)))
				_, _ = io.WriteString(w, body)
			}
			b.fault("", "app", "manifests/(1|"+digest+"|"+sum+")$", 0, lie)
			return ref
		}
	}
	const index, image = "application/vnd.oci.image.index.v1+json", "application/vnd.oci.image.manifest.v1+json"
	platform := `,"platform":{"os":"linux","architecture":"` + runtime.GOARCH + `"}`
	for name, push := range map[string]func(*box) string{
		"bomb":                             func(b *box) string { ref, _ := b.push("app:1", bomb); return ref },
		"20,000 layers":                    manifest(image, `{"schemaVersion":2,"mediaType":"`+image+`","config":{"mediaType":"application/vnd.oci.image.config.v1+json",`+zeros+`},"layers":[`+layers+`]}`),
		"an image that is called an index": manifest(index, `{"schemaVersion":2,"config":{"mediaType":"a",`+zeros+`},"layers":[]}`),
		"an index of nothing that is here": manifest(index, `{"schemaVersion":2,"manifests":[{"mediaType":"`+image+`",`+zeros+platform+`}]}`),
		"schema 1 without layers":          manifest("application/vnd.docker.distribution.manifest.v1+json", `{"schemaVersion":1,"name":"x","tag":"1","architecture":"amd64","fsLayers":[],"history":[]}`),
		"deep":                             manifest(index, strings.Repeat(`{"a":`, 100_000)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := smallDisk(t, "96", false)
			b := newBox(t)
			b.env = append(b.env, "CONTAINER_HOST="+d.uri, "PODTASK_IMAGE_MIN_FREE=1", "PODTASK_PULL_TIMEOUT=20s", "PODTASK_PULL_IDLE=5s", "PODTASK_PULL_FIRST_BYTE=5s")
			r := b.want(125, "run", "--quiet", "--rm", b.hello(push(b)))
			if len(r.err) > 4096 || strings.Contains(r.err, password) || strings.Contains(r.out, "hello") {
				t.Errorf("it printed %.5000q", r.err)
			}
			t.Logf("%.600s", r.err)
			b.want(0, "run", "--rm", b.hello(b.testbox()))
		})
	}
}

// A host to which a registry redirects the requests for layers does not see the
// credentials for the registry.
func TestRedirectedLayersCarryNoCredentials(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	ref, _ := b.push("app:1", b.freshImage("redirected"))
	if _, err := bed.mirror.Push(b.repository("app:1"), b.freshImage("redirected")); err != nil {
		t.Fatal(err)
	}
	asked := bed.mirror.Fault("", "^/v2/"+b.repository("app")+"/", 0, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Header.Get("Authorization") != "" {
			t.Errorf("%s %s came with credentials", r.Method, r.URL.Path)
		}
		next.ServeHTTP(w, r)
	})
	t.Cleanup(asked.Remove)
	b.fault("GET", "app", "blobs/", 0, func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		other := strings.Replace(bed.mirror.Addr(), "127.0.0.1", "localhost", 1)
		http.Redirect(w, r, "http://"+other+r.URL.Path, http.StatusTemporaryRedirect)
	})
	if r := b.want(0, "run", "--rm", "--pull", "always", b.hello(ref)); !strings.Contains(r.out, "hello") || asked.Hits() == 0 {
		t.Errorf("%d requests were redirected; it printed %s", asked.Hits(), r.err)
	}
}

// What runs has the digest that the tag had when it was resolved.
func TestManifestsAreCheckedAgainstTheirDigest(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	_, other := b.push("app:other", b.freshImage("another image"))

	wrong, digest := b.push("app:wrong", b.freshImage("replaced"))
	b.fault("GET", "app", "manifests/"+digest, 0, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		r.URL.Path = strings.Replace(r.URL.Path, digest, other, 1)
		next.ServeHTTP(w, r)
	})
	if r := b.want(125, "run", "--quiet", "--rm", b.hello(wrong)); strings.Contains(r.out, "hello") {
		t.Errorf("another image than the one that was resolved has run: %s", r.out)
	}

	moved, first := b.push("app:moved", b.freshImage("the first"))
	later := b.freshImage("the second")
	var once sync.Once
	var moving error
	asked := b.fault("GET", "app", "manifests/"+first, 0, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		once.Do(func() { _, moving = bed.reg.Push(b.repository("app:moved"), later) })
		next.ServeHTTP(w, r)
	})
	b.want(0, "run", "--name", b.family+"-moved", b.hello(moved))
	if got := b.inspect(b.family + "-moved").Containers[0].ImageDigest; got != first || asked.Hits() == 0 || moving != nil {
		t.Errorf("the image that ran has the digest %s; the tag had %s until the first of %d requests (%v)", got, first, asked.Hits(), moving)
	}
}
