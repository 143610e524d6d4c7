//go:build e2e

//e2e:bed plain

package e2e

import (
	"bytes"
	"net/http"
	"strings"
	"sync"
	"testing"

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
