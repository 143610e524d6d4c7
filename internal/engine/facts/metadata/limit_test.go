package metadata

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/testing/rudeclient"
	"github.com/podtask/podtask/pkg/api/connlimit"
)

// listen serves s and returns its address.
func listen(t *testing.T, s *Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Serve(l) })
	t.Cleanup(func() { _ = s.Close(); wg.Wait() })
	return l.Addr().String()
}

func TestOneTaskCannotUseUpTheConnections(t *testing.T) {
	t.Parallel()
	flooded, other := New(source(running())), New(source(running()))
	addr := listen(t, flooded)
	path := "/v4/" + containerID(key, "web")
	var flood []net.Conn
	for range 3 * maxConnections {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		flood = append(flood, c)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	for _, addr := range []string{listen(t, other), addr} {
		resp, err := client.Get("http://" + addr + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("status %d during the flood", resp.StatusCode)
		}
	}
	if n := flooded.conns.Open(); n > maxConnections {
		t.Errorf("%d connections are open, want at most %d", n, maxConnections)
	}
	for i, c := range flood[:2*maxConnections] {
		if !isClosed(c) {
			t.Fatalf("connection %d is still open", i)
		}
	}
}

func TestRudeClientsOfAnEndpoint(t *testing.T) {
	t.Parallel()
	addr := listen(t, New(source(running())))
	path := "/v4/" + containerID(key, "web")
	rudeclient.Crowd(t, maxConnections, "/v4/unknown", func() (net.Conn, error) { return net.Dial("tcp", addr) })
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	for range 5 {
		resp, err := client.Get("http://" + addr + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("status %d", resp.StatusCode)
		}
	}
}

// isClosed reports whether the other end closes c.
func isClosed(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	_, err := c.Read(make([]byte, 1))
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
}

func TestAllEndpointsLeaveDescriptors(t *testing.T) {
	t.Parallel()
	s := New(source(running()))
	s.conns = connlimit.New(maxConnections, connlimit.New(2, nil)) // as if others had the rest
	addr := listen(t, s)
	for i := range 10 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if i >= 2 && !isClosed(c) {
			t.Errorf("connection %d is still open", i)
		}
	}
	if n := s.conns.Open(); n > 2 {
		t.Errorf("%d connections are open, want at most 2", n)
	}
}

// In host mode other users can reach the port, but they do not know the ids.
func TestUnknownIDsDoNotUseUpTheRateLimit(t *testing.T) {
	t.Parallel()
	src := source(running())
	src.Credentials = func(context.Context) (Credentials, error) { return Credentials{}, nil }
	s := New(src)
	for _, path := range []string{"/", "/v4/guess", credentialsPath + "guess", "/api/guess/task-protection/v1/state"} {
		for range 3 * burst {
			if code, _ := ask(t, s, path); code == http.StatusTooManyRequests || code == http.StatusOK {
				t.Fatalf("%s: %d", path, code)
			}
		}
	}
	for _, path := range []string{"/v4/" + containerID(key, "web"), credentialsPath + credentialsID(key)} {
		if code, _ := ask(t, s, path); code != http.StatusOK {
			t.Errorf("%s: %d after requests with unknown ids", path, code)
		}
	}
}

func TestClientsShareOneRunOfTheHelper(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	count, pipe := filepath.Join(dir, "count"), filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	h := &Helper{Command: []string{"sh", "-c", `echo x >> "$0"; cat "$1"`, count, pipe}}
	impatient, leave := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := h.Credentials(impatient); !errors.Is(err, context.Canceled) {
			t.Errorf("the client that left got %v", err)
		}
	})
	w, err := os.OpenFile(pipe, os.O_WRONLY, 0) // returns when the helper runs
	if err != nil {
		t.Fatal(err)
	}
	leave()
	wg.Wait()
	for range 3 {
		wg.Go(func() {
			if c, err := h.Credentials(t.Context()); err != nil || c.AccessKeyID != "a" {
				t.Errorf("got key %q, %v", c.AccessKeyID, err)
			}
		})
	}
	if _, err := io.WriteString(w, `{"Version":1,"AccessKeyId":"a","SecretAccessKey":"b"}`); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	wg.Wait()
	if text, _ := os.ReadFile(count); strings.Count(string(text), "x") != 1 {
		t.Errorf("the helper ran %d times", strings.Count(string(text), "x"))
	}
}

func TestFailuresOfTheHelperAreCached(t *testing.T) {
	t.Parallel()
	command, runs := helper(t, "none")
	now := start
	h := &Helper{Command: command, Now: func() time.Time { return now }}
	for _, step := range []struct {
		after time.Duration
		runs  int
	}{{0, 1}, {0, 1}, {retryAfter - 1, 1}, {retryAfter, 2}, {0, 3}} { // 0 again: the clock was set back
		now = start.Add(step.after)
		if _, err := h.Credentials(t.Context()); err == nil || runs() != step.runs {
			t.Errorf("after %s: error %v, %d runs, want %d", step.after, err, runs(), step.runs)
		}
	}
}

func TestTheHelperIsKilledWithItsChildren(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ script, want string }{
		"too much output": {`exec 9>"$0"; sleep 1000 & while :; do echo 0123456789012345678901234567890123456789; done`, "prints more than"},
		"timeout":         {`exec 9>"$0"; sleep 1000 & wait`, "did not end within"},
	} {
		pipe := filepath.Join(t.TempDir(), "pipe") // held by the script and its child
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		h := &Helper{Command: []string{"sh", "-c", tt.script, pipe}}
		if name == "timeout" {
			h.timeout = 3 * time.Second // enough to start the child, also under load
		}
		_, err = h.Credentials(t.Context())
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "01234") {
			t.Errorf("%s: got %v", name, err)
		}
		_ = r.SetReadDeadline(time.Now().Add(time.Minute)) // the host may be busy
		if _, err := io.ReadAll(r); err != nil {
			t.Errorf("%s: a process still runs: %v", name, err)
		}
		_ = r.Close()
	}
}
