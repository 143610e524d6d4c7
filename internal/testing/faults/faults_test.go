package faults_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/podtask/podtask/internal/testing/faults"
)

// service is a plain HTTP server on a unix socket: it answers "hello" after a
// line per request, and three lines to /events.
type service struct {
	socket string
	served atomic.Int32
}

func serve(t *testing.T) *service {
	t.Helper()
	dir, err := os.MkdirTemp("", "pt")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &service{socket: filepath.Join(dir, "s")}
	l, err := net.Listen("unix", s.socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: s}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(l)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-ended
	})
	return s
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.served.Add(1)
	_, _ = io.Copy(io.Discard, r.Body) // as Podman does; a connection that is closed with a rest of it loses the answer
	switch {
	case strings.HasSuffix(r.URL.Path, "/events"):
		fmt.Fprint(w, "line 1\nline 2\nline 3\n")
	case strings.HasSuffix(r.URL.Path, "/empty"):
		w.WriteHeader(http.StatusNoContent)
	default:
		fmt.Fprint(w, "hello there")
	}
}

// answer is what a client saw of one request.
type answer struct {
	status int
	body   string
	err    error
}

func client(t *testing.T, p *faults.Proxy) *http.Client {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", p.Socket())
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// post asks with a method that net/http does not repeat on its own.
func post(ctx context.Context, c *http.Client, path string) answer {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://d"+path, strings.NewReader("x"))
	if err != nil {
		return answer{err: err}
	}
	res, err := c.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, string(body), err}
}

func TestActions(t *testing.T) {
	t.Parallel()
	released := make(chan struct{})
	close(released)
	for _, c := range []struct {
		name   string
		path   string
		do     faults.Action
		want   answer // err: any
		served int32  // requests that reached the service
	}{
		{"no fault", "/x", nil, answer{200, "hello there", nil}, 1},
		{"status", "/x", faults.Status(409, "name in use", "cannot"), answer{409, `{"cause":"name in use","message":"cannot","response":409}`, nil}, 0},
		{"drop", "/x", faults.Drop(), answer{0, "", io.EOF}, 0},
		{"lose", "/x", faults.Lose(), answer{0, "", io.EOF}, 1},
		{"reset", "/x", faults.Reset(), answer{200, "hello", io.ErrUnexpectedEOF}, 1},
		{"reset without a body", "/empty", faults.Reset(), answer{0, "", io.EOF}, 1},
		{"hang, released", "/x", faults.Hang(released), answer{200, "hello there", nil}, 1},
		{"stall, released", "/x", faults.Stall(3, released), answer{200, "hello there", nil}, 1},
		{"stall at the head, released", "/x", faults.Stall(0, released), answer{200, "hello there", nil}, 1},
		{"half line", "/events", faults.HalfLine(2), answer{200, "line 1\nlin", io.ErrUnexpectedEOF}, 1},
		{"doubled lines", "/events", faults.DoubleLines(), answer{200, "line 1\nline 1\nline 2\nline 2\nline 3\nline 3\n", nil}, 1},
		{"missing line", "/events", faults.OmitLines(func(n int, _ []byte) bool { return n == 2 }), answer{200, "line 1\nline 3\n", nil}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t)
			p := faults.Start(t, s.socket)
			if c.do != nil {
				p.Fault(faults.Match{Path: "."}, c.do)
			}
			got := post(t.Context(), client(t, p), c.path)
			if got.status != c.want.status || got.body != c.want.body || (got.err != nil) != (c.want.err != nil) {
				t.Errorf("got %d %q %v, want %d %q %v", got.status, got.body, got.err, c.want.status, c.want.body, c.want.err)
			}
			if n := s.served.Load(); n != c.served {
				t.Errorf("the service was asked %d times, want %d", n, c.served)
			}
		})
	}
}

func TestHangHoldsUntilTheClientGivesUp(t *testing.T) {
	t.Parallel()
	s := serve(t)
	p := faults.Start(t, s.socket)
	hang := p.Fault(faults.Match{Path: "/x"}, faults.Hang(nil))
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan answer, 1)
	c := client(t, p)
	go func() { got <- post(ctx, c, "/x") }()
	<-hang.Arrived()
	cancel()
	if a := <-got; !errors.Is(a.err, context.Canceled) || s.served.Load() != 0 {
		t.Errorf("got %+v after %d requests", a, s.served.Load())
	}
}

func TestStallSendsTheBeginningFirst(t *testing.T) {
	t.Parallel()
	s := serve(t)
	p := faults.Start(t, s.socket)
	release := make(chan struct{})
	p.Fault(faults.Match{Path: "/events"}, faults.Stall(len("line 1\n"), release))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://d/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client(t, p).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	r := bufio.NewReader(res.Body)
	if line, err := r.ReadString('\n'); line != "line 1\n" || err != nil {
		t.Errorf("before the release: %q, %v", line, err)
	}
	close(release)
	if rest, err := io.ReadAll(r); string(rest) != "line 2\nline 3\n" || err != nil {
		t.Errorf("after the release: %q, %v", rest, err)
	}
}

func TestRulesCatchWhatTheyMatch(t *testing.T) {
	t.Parallel()
	s := serve(t)
	p := faults.Start(t, s.socket)
	first := p.Fault(faults.Match{Method: "POST", Path: "/start$", Skip: 1, Times: 2}, faults.Status(500, "a", "a"))
	other := p.Fault(faults.Match{Method: "GET", Path: "/start$"}, faults.Status(404, "b", "b"))
	c := client(t, p)
	var got []int
	for range 4 {
		got = append(got, post(t.Context(), c, "/containers/x/start").status)
	}
	first.Remove()
	got = append(got, post(t.Context(), c, "/containers/x/start").status, post(t.Context(), c, "/containers/x/stop").status)
	if want := fmt.Sprint([]int{200, 500, 500, 200, 200, 200}); fmt.Sprint(got) != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if first.Hits() != 2 || other.Hits() != 0 {
		t.Errorf("hits: %d, %d", first.Hits(), other.Hits())
	}
}

func TestDownRefusesUntilUp(t *testing.T) {
	t.Parallel()
	s := serve(t)
	p := faults.Start(t, s.socket)
	c := client(t, p)
	p.Down()
	for range 2 {
		if a := post(t.Context(), c, "/x"); !errors.Is(a.err, syscall.ECONNREFUSED) {
			t.Errorf("while down: %+v", a)
		}
	}
	for range 2 { // Up twice is Up
		if err := p.Up(); err != nil {
			t.Fatal(err)
		}
	}
	if a := post(t.Context(), c, "/x"); a.status != 200 {
		t.Errorf("up again: %+v", a)
	}
}

func TestKillCutsEveryConnection(t *testing.T) {
	t.Parallel()
	for _, heard := range []bool{false, true} {
		s := serve(t)
		p := faults.Start(t, s.socket)
		hang := p.Fault(faults.Match{Path: "/wait"}, faults.Hang(nil))
		p.Fault(faults.Match{Path: "/stop"}, p.Kill(heard))
		c := client(t, p)
		waiting := make(chan answer, 1)
		go func() { waiting <- post(t.Context(), c, "/wait") }()
		<-hang.Arrived()
		if a := post(t.Context(), c, "/stop"); a.err == nil {
			t.Errorf("the killer is answered: %+v", a)
		}
		if a := <-waiting; a.err == nil {
			t.Errorf("another request is answered: %+v", a)
		}
		if a := post(t.Context(), c, "/x"); !errors.Is(a.err, syscall.ECONNREFUSED) {
			t.Errorf("the next: %+v", a)
		}
		if n := s.served.Load(); n == 1 != heard {
			t.Errorf("heard %v, but the service was asked %d times", heard, n)
		}
	}
}

func TestServiceThatIsGoneCostsTheConnection(t *testing.T) {
	t.Parallel()
	p := faults.Start(t, filepath.Join(t.TempDir(), "nobody"))
	if a := post(t.Context(), client(t, p), "/x"); a.err == nil {
		t.Errorf("got %+v", a)
	}
}

func TestCallsAreLoggedByEndpoint(t *testing.T) {
	t.Parallel()
	s := serve(t)
	p := faults.Start(t, s.socket)
	p.Fault(faults.Match{Path: "/wait"}, faults.Drop())
	c := client(t, p)
	for _, path := range []string{
		"/_ping", "/v5.0.0/libpod/info", "/v4.0.0/libpod/containers/create", "/v5.0.0/libpod/containers/web-app/start",
		"/v5.0.0/libpod/images/127.0.0.1:5000/a/b@sha256:00/json", "/v5.0.0/libpod/pods/web", "/v5.0.0/libpod/containers/json",
		"/v5.0.0/libpod/containers/web-app/wait",
	} {
		_ = post(t.Context(), c, path)
	}
	var got []string
	for _, call := range p.Calls() {
		got = append(got, fmt.Sprintf("%s [%s] %d", call.Name(), call.Object, call.Status))
	}
	want := []string{
		"POST _ping [] 200", "POST info [] 200", "POST containers/create [] 200", "POST containers/*/start [web-app] 200",
		"POST images/*/json [127.0.0.1:5000/a/b@sha256:00] 200", "POST pods/* [web] 200", "POST containers/json [] 200",
		"POST containers/*/wait [web-app] 0",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if n := p.Count()["POST containers/*/start"]; n != 1 {
		t.Errorf("start is counted %d times", n)
	}
}
