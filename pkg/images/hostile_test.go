package images_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/testing/registrytest"
	"github.com/podtask/podtask/pkg/images"
)

// endless answers with a body that never ends.
func endless(status int, contentType string) registrytest.Action {
	return func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		piece := bytes.Repeat([]byte("a "), 1<<15)
		for r.Context().Err() == nil {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	}
}

// redirect answers with another location.
func redirect(to func(*http.Request) string) registrytest.Action {
	return func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		http.Redirect(w, r, to(r), http.StatusTemporaryRedirect)
	}
}

// whatever a registry answers, an error comes soon, takes little memory and is short.
func TestHostileRegistries(t *testing.T) {
	const index = "application/vnd.oci.image.index.v1+json"
	noDigest := func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { w.WriteHeader(http.StatusOK) }
	for name, tt := range map[string]struct {
		options registrytest.Options
		faults  func(*registrytest.Registry)
	}{
		"redirect to itself": {registrytest.Options{}, func(reg *registrytest.Registry) {
			reg.Fault("", manifests, 0, redirect(func(r *http.Request) string { return r.URL.Path }))
		}},
		"redirects without end": {registrytest.Options{}, func(reg *registrytest.Registry) {
			reg.Fault("", "/", 0, redirect(func(r *http.Request) string { return r.URL.Path + "/more" }))
		}},
		"endless manifest": {registrytest.Options{}, func(reg *registrytest.Registry) {
			reg.Fault("HEAD", manifests, 0, noDigest)
			reg.Fault("GET", manifests, 0, endless(200, index))
		}},
		"huge manifest": {registrytest.Options{}, func(reg *registrytest.Registry) {
			reg.Fault("HEAD", manifests, 0, noDigest)
			reg.Fault("GET", manifests, 0, registrytest.Body(index, bytes.Repeat([]byte(" "), 64<<20)))
		}},
		"endless error": {registrytest.Options{}, func(reg *registrytest.Registry) {
			reg.Fault("HEAD", manifests, 0, noDigest)
			reg.Fault("GET", manifests, 0, endless(500, "application/json"))
		}},
		"endless error of the ping": {registrytest.Options{}, func(reg *registrytest.Registry) {
			reg.Fault("", "^/v2/$", 0, endless(500, "application/json"))
		}},
		"long error": {registrytest.Options{}, func(reg *registrytest.Registry) {
			reg.Fault("", manifests, 0, registrytest.Status(500, strings.Repeat("A", 100000), strings.Repeat("\x1b[2J\n", 100000)))
		}},
		"endless token": {tokenAuth(), func(reg *registrytest.Registry) {
			reg.Fault("", "/token", 0, endless(200, "application/json"))
		}},
		"endless refusal of a token": {tokenAuth(), func(reg *registrytest.Registry) {
			reg.Fault("", "/token", 0, endless(401, "application/json"))
		}},
		"token that is a redirect to itself": {tokenAuth(), func(reg *registrytest.Registry) {
			reg.Fault("", "/token", 0, redirect(func(r *http.Request) string { return r.URL.Path }))
		}},
	} {
		t.Run(name, func(t *testing.T) { // one at a time: they measure memory
			reg := registrytest.Start(t, tt.options)
			push(t, reg, "app:1")
			tt.faults(reg)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			resolver := images.New(optionsFor(t, reg))
			_, err := resolver.Resolve(ctx, reg.Ref("app:1"), images.Login{})
			_, describeErr := resolver.Describe(ctx, reg.Ref("app:1"), images.Login{}, images.Here())
			runtime.ReadMemStats(&after)
			for _, err := range []error{err, describeErr} {
				var e *images.Error
				switch {
				case !errors.As(err, &e):
					t.Errorf("got %v", err)
				case ctx.Err() != nil:
					t.Errorf("it took a minute: %v", err)
				case len(err.Error()) > 2048 || strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' }):
					t.Errorf("a long or unprintable error: %.3000q", err)
				case strings.Contains(err.Error(), password):
					t.Errorf("the password is in the error: %v", err)
				}
			}
			if grown := int64(after.HeapInuse) - int64(before.HeapInuse); grown > 200<<20 {
				t.Errorf("the heap has grown by %d MiB", grown>>20)
			}
		})
	}
}

// A registry that sends very slowly is given up when the time is over.
func TestSlowBodyEndsWithTheDeadline(t *testing.T) {
	t.Parallel()
	reg := registrytest.Start(t, registrytest.Options{})
	push(t, reg, "app:1")
	reg.Fault("HEAD", manifests, 0, registrytest.NoDigest())
	begun := make(chan struct{})
	var once atomic.Bool
	reg.Fault("GET", manifests, 0, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if once.CompareAndSwap(false, true) {
			close(begun)
		}
		registrytest.Slow(1, time.Hour)(w, r, next)
	})
	ctx := newExpiring(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := images.New(optionsFor(t, reg)).Resolve(ctx, reg.Ref("app:1"), images.Login{})
		failed <- err
	}()
	<-begun
	ctx.expire()
	failure(t, <-failed, images.Timeout, true)
}

// Another host to which a registry redirects does not see the credentials for the registry.
func TestRedirectToAnotherHostCarriesNoCredentials(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]registrytest.Options{"basic": basicAuth(), "token": tokenAuth()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reg, other := registrytest.Start(t, options), registrytest.Start(t, registrytest.Options{})
			push(t, reg, "app:1")
			push(t, other, "app:1")
			other.Fault("", ".", 0, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if got := r.Header.Get("Authorization"); got != "" {
					t.Errorf("%s %s came with credentials", r.Method, r.URL.Path)
				}
				next.ServeHTTP(w, r)
			})
			reg.Fault("", manifests, 0, redirect(func(r *http.Request) string {
				return strings.Replace("http://"+other.Addr(), "127.0.0.1", "localhost", 1) + r.URL.Path
			}))
			resolver := images.New(optionsFor(t, reg))
			_, _ = resolver.Resolve(t.Context(), reg.Ref("app:1"), images.Login{})
			_, _ = resolver.Describe(t.Context(), reg.Ref("app:1"), images.Login{}, images.Here())
			if len(other.Log()) == 0 {
				t.Error("the other host was not asked")
			}
		})
	}
}
