package prober

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/testing/freeport"
	"github.com/podtask/podtask/pkg/taskdef"
)

// here is this machine, and a port of it.
func here(t *testing.T, l net.Listener) (target, uint16) {
	t.Helper()
	a, err := netip.ParseAddrPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	var d net.Dialer
	return target{dial: d.DialContext, host: a.Addr().String()}, a.Port()
}

func web(t *testing.T, h http.HandlerFunc) (target, uint16) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return here(t, s.Listener)
}

func TestHTTPFollowsTheStatus(t *testing.T) {
	t.Parallel()
	to, port := web(t, func(w http.ResponseWriter, r *http.Request) {
		switch code, err := strconv.Atoi(strings.Trim(r.URL.Path, "/")); {
		case err == nil:
			w.WriteHeader(code)
			_, _ = w.Write([]byte("because"))
		case r.URL.Path == "/here":
			http.Redirect(w, r, "/503", http.StatusFound)
		case r.URL.Path == "/there":
			http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
		case r.URL.Path == "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case r.URL.Path == "/large":
			_, _ = w.Write(make([]byte, 10*maxBody))
		case r.URL.Path == "/headers":
			for i := range 2 * maxHeader >> 10 {
				w.Header().Set(fmt.Sprint("A", i), strings.Repeat("a", 1<<10))
			}
		}
	})
	for path, healthy := range map[string]bool{
		"": true, "/200": true, "204": true, "/304": true, "/399": true, "/400": false, "/503": false, "/here": false, "/there": true, "/loop": false, "/large": true, "/headers": false,
	} {
		got, err := to.do(t.Context(), taskdef.Action{HTTP: &taskdef.HTTPAction{Port: port, Path: path}})
		if err != nil || got.Healthy != healthy || !healthy && got.Output == "" {
			t.Errorf("%q: %+v, %v", path, got, err)
		}
	}
	got, _ := to.do(t.Context(), taskdef.Action{HTTP: &taskdef.HTTPAction{Port: port, Path: "/503"}})
	if got.Output != "HTTP status 503 Service Unavailable because" {
		t.Errorf("%q", got.Output)
	}
	got, _ = to.do(t.Context(), taskdef.Action{HTTP: &taskdef.HTTPAction{Port: port, Path: "/there"}})
	if got.Output != `Probe terminated redirects, Response body: <a href="http://192.0.2.1/">Found</a>.` {
		t.Errorf("%q", got.Output)
	}
	to.hook = true
	if got, err := to.do(t.Context(), taskdef.Action{HTTP: &taskdef.HTTPAction{Port: port, Path: "/503"}}); err != nil || !got.Healthy {
		t.Errorf("a hook: %+v, %v", got, err)
	}
}

func TestHTTPSendsWhatItIsGiven(t *testing.T) {
	t.Parallel()
	var seen *http.Request
	to, port := web(t, func(_ http.ResponseWriter, r *http.Request) { seen = r })
	a := taskdef.HTTPAction{Port: port, Path: "/a?b=c", Headers: []taskdef.HTTPHeader{{Name: "Host", Value: "example.com"}, {Name: "x-a", Value: "1"}, {Name: "X-A", Value: "2"}}}
	if got, err := to.do(t.Context(), taskdef.Action{HTTP: &a}); err != nil || !got.Healthy {
		t.Fatal(got, err)
	}
	if seen.Host != "example.com" || seen.URL.String() != "/a?b=c" || len(seen.Header.Values("X-A")) != 2 || !strings.HasPrefix(seen.UserAgent(), "kube-probe/") {
		t.Errorf("%+v", seen)
	}
}

func TestHTTPSDoesNotVerify(t *testing.T) {
	t.Parallel()
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer s.Close()
	to, port := here(t, s.Listener)
	if got, err := to.do(t.Context(), taskdef.Action{HTTP: &taskdef.HTTPAction{Port: port, HTTPS: true}}); err != nil || !got.Healthy {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestTCP(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", freeport.For(t)))
	if err != nil {
		t.Fatal(err)
	}
	to, port := here(t, l)
	a := taskdef.Action{TCP: &taskdef.TCPAction{Port: port}}
	if got, err := to.do(t.Context(), a); err != nil || !got.Healthy {
		t.Errorf("%+v, %v", got, err)
	}
	l.Close()
	if got, err := to.do(t.Context(), a); err != nil || got.Healthy || !strings.Contains(got.Output, "refused") {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestNoAnswer: a deadline is a result, and a cancellation is none.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // it accepts, in the kernel, and never answers
	to, port := here(t, l)
	for _, a := range []taskdef.Action{{HTTP: &taskdef.HTTPAction{Port: port}}, {GRPC: &taskdef.GRPCAction{Port: port}}} {
		ctx, cancel := context.WithTimeout(t.Context(), 1)
		if got, err := to.do(ctx, a); err != nil || got.Healthy || got.Output == "" {
			t.Errorf("%s: %+v, %v", a, got, err)
		}
		cancel()
		ctx, cancel = context.WithCancel(t.Context())
		cancel()
		if _, err := to.do(ctx, a); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", a, err)
		}
	}
}

func TestGRPCAnswers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, body string
		healthy    bool
	}{
		{"serving", "\x00\x00\x00\x00\x02\x08\x01", true},
		{"not serving", "\x00\x00\x00\x00\x02\x08\x02", false},
		{"unknown", "\x00\x00\x00\x00\x00", false},
		{"a new status", "\x00\x00\x00\x00\x02\x08\x09", false},
	} {
		if got, err := healthAnswer([]byte(tt.body)); err != nil || got.Healthy != tt.healthy {
			t.Errorf("%s: %+v, %v", tt.name, got, err)
		}
	}
	for _, body := range []string{"", "\x00", "\x01\x00\x00\x00\x00", "\x00\x00\x00\x00\x01", "\x00\x00\x00\x00\x02\x10\x01", "\x00\x00\x00\x00\x01\x08", "<html>"} {
		if got, err := healthAnswer([]byte(body)); err == nil {
			t.Errorf("%q: %+v", body, got)
		}
	}
}

func FuzzGRPCAnswer(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x00\x02\x08\x01"))
	f.Fuzz(func(t *testing.T, body []byte) {
		if got, err := healthAnswer(body); err != nil && got != (Result{}) {
			t.Errorf("%+v with %v", got, err)
		}
	})
}
