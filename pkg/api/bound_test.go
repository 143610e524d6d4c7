package api

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/testing/rudeclient"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// serveSome serves a backend to at most some connections and returns the socket.
func serveSome(t *testing.T, b Backend, some int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.sock")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(b, Version{})
	s.maxConnections = some
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Serve(ctx, l) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	return path
}

func TestIdleConnectionsDoNotUseUpTheSocket(t *testing.T) {
	t.Parallel()
	const most = 8
	b := &backend{state: someState(), watch: make(chan lifecycle.State)}
	flooded := serveSome(t, b, most)
	other := serveSome(t, &backend{}, most)
	watcher := dial(t, flooded)
	seen := make(chan struct{}, 8)
	watched := make(chan error, 1)
	go func() {
		watched <- watcher.Watch(t.Context(), taskID, func(Task) bool { seen <- struct{}{}; return true })
	}()
	<-seen
	var flood []net.Conn
	for range 5 * most {
		c, err := net.Dial("unix", flooded)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		flood = append(flood, c)
	}
	for _, path := range []string{other, flooded} {
		if _, err := dial(t, path).Tasks(t.Context()); err != nil {
			t.Errorf("a client during the flood: %v", err)
		}
	}
	for i, c := range flood[:4*most] {
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
			t.Fatalf("connection %d is still open: %v", i, err)
		}
	}
	b.watch <- someState() // the watch has survived
	<-seen
	close(b.watch)
	if err := <-watched; err != nil {
		t.Errorf("the watch ended with %v", err)
	}
}

func dial(t *testing.T, path string) *Client {
	t.Helper()
	c, err := Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestABodyHasATimeLimitAndAReplyHasNone(t *testing.T) {
	t.Parallel()
	const within = 100 * time.Millisecond
	server := httptest.NewServer(bound(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		select {
		case <-r.Context().Done():
			t.Error("the request was canceled while it was served")
		case <-time.After(5 * within):
		}
		_, _ = w.Write(body)
	}), within))
	t.Cleanup(server.Close)
	resp, err := http.Post(server.URL, "text/plain", strings.NewReader("all of it"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "all of it" {
		t.Errorf("got %q, %v", body, err)
	}

	c, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf")
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	late, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = late.Body.Close()
	if late.StatusCode != http.StatusBadRequest || !late.Close {
		t.Errorf("status %d, close %t; want 400 and a closed connection", late.StatusCode, late.Close)
	}
}

// Clients that follow and never read leave connections to others.
func TestFollowersLeaveRoomForOtherRequests(t *testing.T) {
	t.Parallel()
	const most = 8
	b := &backend{state: someState(), watch: make(chan lifecycle.State)}
	socket := serveSome(t, b, most)
	for i := range most {
		c, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "GET /v1/tasks/"+taskID+"/watch HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		want := http.StatusOK
		if i >= most*3/4 {
			want = http.StatusServiceUnavailable
		}
		if resp.StatusCode != want {
			t.Errorf("follower %d got status %d, want %d", i+1, resp.StatusCode, want)
		}
	}
	if _, err := dial(t, socket).Tasks(t.Context()); err != nil {
		t.Errorf("another client: %v", err)
	}
	if err := dial(t, socket).Watch(t.Context(), taskID, func(Task) bool { return true }); !Is(err, Busy) {
		t.Errorf("a follower beyond the limit: %v", err)
	}
}

func TestRudeClientsOfTheSocket(t *testing.T) {
	t.Parallel()
	const most = 16
	path := serveSome(t, &backend{state: someState()}, most)
	rudeclient.Crowd(t, most, "/v1/tasks", func() (net.Conn, error) { return net.Dial("unix", path) })
	for range 5 {
		if _, err := dial(t, path).Tasks(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// A client that does not read its answer does not keep a connection for good.
func TestRepliesEndIfTheyAreNotRead(t *testing.T) {
	t.Parallel()
	s := NewServer(&backend{}, Version{})
	s.replyTimeout = 50 * time.Millisecond
	ended := make(chan error, 1)
	s.Handle("GET /large", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		var err error
		for err == nil {
			_, err = w.Write(make([]byte, 1<<16))
		}
		ended <- err
	}))
	path := filepath.Join(t.TempDir(), "t.sock")
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Serve(ctx, l) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET /large HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the reply ended with %v", err)
	}
}
