package program

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

func TestConnectionsOfOneClient(t *testing.T) {
	t.Parallel()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := newClients(2, math.MaxInt)
	l := c.listener(inner)
	t.Cleanup(func() { l.Close() })
	accepted := make(chan net.Conn, 10)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	dial := func(from string) net.Conn {
		t.Helper()
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		c, err := d.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	dial("127.0.0.1")
	first := <-accepted
	dial("127.0.0.1")
	<-accepted
	third := dial("127.0.0.1")
	if _, err := third.Read(make([]byte, 1)); err == nil {
		t.Error("a third connection of one client is open")
	}
	dial("127.0.0.2")
	<-accepted // another client's
	first.Close()
	first.Close() // counts once
	dial("127.0.0.1")
	<-accepted
	if last := dial("127.0.0.1"); readEnd(last) == nil {
		t.Error("after one has ended, two more are open")
	}
}

func readEnd(c net.Conn) error {
	_, err := io.ReadAll(io.LimitReader(c, 1))
	if err == nil {
		return io.EOF
	}
	return err
}

func TestClientOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"192.0.2.1:5": "192.0.2.1/32", "[::ffff:192.0.2.1]:5": "192.0.2.1/32", "[2001:db8:1:2:3::4]:5": "2001:db8:1:2::/64", "[fe80::1%eth0]:5": "fe80::/64", "@": "invalid Prefix",
	} {
		if got := clientOf(address(text)); got.String() != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

type address string

func (a address) Network() string { return "tcp" }
func (a address) String() string  { return string(a) }

// A client of HTTP/2 with many requests on each of many connections has no more of them at a time than its part, since each takes
// a connection to the copy; others are served meanwhile.
func TestRequestsOfOneClient(t *testing.T) {
	t.Parallel()
	const most = 40
	var now, peak atomic.Int64
	release := make(chan struct{})
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Slow") == "" {
			fmt.Fprint(w, "hello")
			return
		}
		for n := now.Add(1); ; {
			before := peak.Load()
			if n <= before || peak.CompareAndSwap(before, n) {
				break
			}
		}
		defer now.Add(-1)
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(app.Close)
	r, s := start(t, app.URL, most)
	slow := headers(t, [2]string{"slow", "yes"})
	var refused atomic.Int64
	enough := make(chan struct{})
	for range 10 {
		c, err := tls.Dial("tcp", s.Secure[0], r.secure(t, "h2"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		f := http2.NewFramer(c, c)
		f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		fmt.Fprint(c, http2.ClientPreface)
		if err := f.WriteSettings(); err != nil {
			t.Fatal(err)
		}
		for id := uint32(1); id < 2*100; id += 2 {
			if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: slow, EndStream: true, EndHeaders: true}); err != nil {
				t.Fatal(err)
			}
		}
		go func() {
			for {
				frame, err := f.ReadFrame()
				if err != nil {
					return
				}
				h, ok := frame.(*http2.MetaHeadersFrame)
				if ok && h.PseudoValue("status") == "503" && refused.Add(1) == 10*100-most/clientPart {
					close(enough)
				}
			}
		}()
	}
	other := &http.Transport{TLSClientConfig: r.secure(t), ForceAttemptHTTP2: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 9)}}).DialContext(ctx, "tcp", s.Secure[0])
	}}
	t.Cleanup(other.CloseIdleConnections)
	if got := get(t, &http.Client{Transport: other}, "https://app.localhost/"); got != "HTTP/2.0 200 hello" {
		t.Errorf("another client got %q", got)
	}
	select {
	case <-enough:
	case <-t.Context().Done():
	case <-time.After(time.Minute):
		t.Errorf("%d requests were refused", refused.Load())
	}
	close(release)
	if n := peak.Load(); n > most/clientPart {
		t.Errorf("one client had %d requests at a time, of at most %d", n, most/clientPart)
	}
}

// Clients that open WebSockets to an endless answer and read none of it have as many as other clients have connections. Others are served
// meanwhile, and nothing is left of the WebSockets at the end.
func TestAFloodOfWebSockets(t *testing.T) {
	t.Parallel()
	const most, tries = 16, 40
	var open, seen atomic.Int64
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			fmt.Fprint(w, "hello")
			return
		}
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		defer open.Add(-1)
		seen.Store(max(seen.Load(), open.Add(1)))
		if _, err := io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"); err != nil {
			return
		}
		piece := make([]byte, 1<<16)
		for err == nil {
			_, err = c.Write(piece)
		}
	}))
	t.Cleanup(app.Close)
	r, s := start(t, app.URL, most)
	var flood []net.Conn
	upgraded := 0
	for range tries {
		c, err := net.Dial("tcp", s.Plain[0])
		if err != nil {
			t.Fatal(err)
		}
		flood = append(flood, c)
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: plain.localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"); err != nil {
			continue // refused already
		}
		if n, _ := io.ReadFull(c, make([]byte, len("HTTP/1.1 101"))); n > 0 {
			upgraded++
		}
	}
	if upgraded != most/clientPart || seen.Load() > most/clientPart {
		t.Errorf("%d WebSockets are open, and the copy has seen %d", upgraded, seen.Load())
	}
	other := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.2")}}).DialContext(ctx, "tcp", s.Plain[0])
	}}}
	for range 5 {
		if got := get(t, other, "http://plain.localhost/"); got != "HTTP/1.1 200 hello" {
			t.Errorf("another client got %q", got)
		}
	}
	for _, c := range flood {
		c.Close()
	}
	for open.Load() > 0 || r.status(t).Connections > 0 {
		if t.Context().Err() != nil {
			t.Fatal("WebSockets are left")
		}
		runtime.Gosched()
	}
}
