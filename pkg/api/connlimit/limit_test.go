package connlimit_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/api/connlimit"
)

// serve serves handler within a limit and returns its address.
func serve(t *testing.T, limit *connlimit.Limit, handler http.HandlerFunc) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler, ConnContext: connlimit.ConnContext, ReadHeaderTimeout: time.Minute}
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(limit.Listener(l)) })
	t.Cleanup(func() {
		_ = server.Close()
		wg.Wait()
		if n := limit.Open(); n != 0 {
			t.Errorf("%d connections count after the end", n)
		}
	})
	return l.Addr().String()
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// get sends a request and returns the status; 0 when the connection was closed instead.
func get(t *testing.T, c net.Conn) int {
	t.Helper()
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		return 0
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// closed reports whether the other end closes c.
func closed(t *testing.T, c net.Conn) bool {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
	_, err := c.Read(make([]byte, 1))
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
}

func ok(w http.ResponseWriter, r *http.Request) {
	defer connlimit.Serving(r.Context())()
	w.WriteHeader(http.StatusNoContent)
}

func TestTheOldestIdleConnectionMakesRoom(t *testing.T) {
	t.Parallel()
	const most = 4
	limit := connlimit.New(most, nil)
	addr := serve(t, limit, ok)
	var flood []net.Conn
	for range 10 * most {
		flood = append(flood, dial(t, addr))
	}
	if got := get(t, dial(t, addr)); got != http.StatusNoContent {
		t.Errorf("a client after the flood got %d", got)
	}
	for i, c := range flood[:9*most] {
		if !closed(t, c) {
			t.Fatalf("connection %d of the flood is still open", i)
		}
	}
	if n := limit.Open(); n > most {
		t.Errorf("%d connections are open, want at most %d", n, most)
	}
}

func TestAConnectionThatIsServedStays(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}, 1), make(chan struct{})
	limit := connlimit.New(1, nil)
	addr := serve(t, limit, func(w http.ResponseWriter, r *http.Request) {
		defer connlimit.Serving(r.Context())()
		entered <- struct{}{}
		<-leave
		w.WriteHeader(http.StatusNoContent)
	})
	first, status := dial(t, addr), make(chan int)
	go func() { status <- get(t, first) }()
	<-entered
	if second := dial(t, addr); !closed(t, second) {
		t.Error("a connection beyond the limit is open")
	}
	close(leave)
	if got := <-status; got != http.StatusNoContent {
		t.Errorf("the first client got %d", got)
	}
	if got := get(t, first); got != http.StatusNoContent {
		t.Errorf("the first client got %d on the same connection", got)
	}
}

func TestLimitsShareAnother(t *testing.T) {
	t.Parallel()
	both := connlimit.New(3, nil)
	one, two := connlimit.New(2, both), connlimit.New(2, both)
	first, second := serve(t, one, ok), serve(t, two, ok)
	for range 20 {
		dial(t, first)
	}
	if got := get(t, dial(t, second)); got != http.StatusNoContent {
		t.Errorf("a client of the other listener got %d", got)
	}
	for both.Open() < 3 {
		<-time.After(time.Millisecond)
	}
	if c := dial(t, second); !closed(t, c) {
		t.Error("a connection beyond the shared limit is open")
	}
}

func TestShare(t *testing.T) {
	t.Parallel()
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		t.Fatal(err)
	}
	if got := connlimit.Share(2, 7); got != 7 {
		t.Errorf("got %d, want the most that was asked for", got)
	}
	if got := connlimit.Share(4, 1<<40); uint64(got) > r.Cur/4 || got < 1 {
		t.Errorf("got %d of %d descriptors, want a fourth", got, r.Cur)
	}
}
