package program

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// counted counts what is written.
type counted struct {
	io.Writer
	n int
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.Writer.Write(b)
	c.n += n
	return n, err
}

// headers returns the block of headers of a request.
func headers(t *testing.T, fields ...[2]string) []byte {
	t.Helper()
	var head bytes.Buffer
	e := hpack.NewEncoder(&head)
	for _, h := range append([][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "app.localhost"}, {":path", "/"}}, fields...) {
		if err := e.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}); err != nil {
			t.Fatal(err)
		}
	}
	return head.Bytes()
}

// Frames that say nothing, without end, end their connection soon, whether or not its client reads the answers. Several do not keep
// others from being served.
func TestFloodsOfFrames(t *testing.T) {
	t.Parallel()
	r, s := start(t, hello(t), 0)
	begun := func(f *http2.Framer) error {
		return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: headers(t), EndStream: true})
	}
	none := func(*http2.Framer) error { return nil }
	open := func(f *http2.Framer) error {
		return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: headers(t, [2]string{"content-length", "5"}), EndHeaders: true})
	}
	for name, flood := range map[string]struct {
		begin, frame func(*http2.Framer) error
	}{
		"empty CONTINUATION": {begun, func(f *http2.Framer) error { return f.WriteContinuation(1, false, nil) }},
		"SETTINGS":           {none, func(f *http2.Framer) error { return f.WriteSettings() }},
		"SETTINGS with table": {none, func(f *http2.Framer) error {
			return f.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: 4096})
		}},
		"PING":            {none, func(f *http2.Framer) error { return f.WritePing(false, [8]byte{}) }},
		"answers to PING": {none, func(f *http2.Framer) error { return f.WritePing(true, [8]byte{}) }},
		"PRIORITY":        {none, func(f *http2.Framer) error { return f.WritePriority(1, http2.PriorityParam{StreamDep: 3}) }},
		"unknown frames":  {none, func(f *http2.Framer) error { return f.WriteRawFrame(0x77, 0, 0, nil) }},
		"WINDOW_UPDATE":   {open, func(f *http2.Framer) error { return f.WriteWindowUpdate(1, 1) }},
		"empty DATA":      {open, func(f *http2.Framer) error { return f.WriteData(1, false, nil) }},
	} {
		for _, reads := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, reads %t", name, reads), func(t *testing.T) {
				t.Parallel()
				c, err := tls.Dial("tcp", s.Secure[0], r.secure(t, "h2"))
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(time.Minute))
				buffered := bufio.NewWriterSize(c, 16<<10)
				out := &counted{Writer: buffered}
				f := http2.NewFramer(out, nil)
				fmt.Fprint(c, http2.ClientPreface)
				if err := f.WriteSettings(); err != nil {
					t.Fatal(err)
				}
				if reads {
					go func() { _, _ = io.Copy(io.Discard, c) }()
				}
				err = flood.begin(f)
				for err == nil && out.n < 4*allowanceMost {
					err = flood.frame(f)
				}
				if err == nil {
					t.Errorf("after %d bytes the connection is open", out.n)
				}
			})
		}
	}
	if got := get(t, r.client(t, s.Secure[0]), "https://app.localhost/"); got != "HTTP/2.0 200 hello over https" {
		t.Errorf("another client got %q", got)
	}
}

// A client of HTTP/1 that sends extensions of chunks without end is cut.
func TestFloodOfExtensions(t *testing.T) {
	t.Parallel()
	_, s := start(t, echo(t), 0)
	c, err := net.Dial("tcp", s.Plain[0])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: plain.localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
	go func() { _, _ = io.Copy(io.Discard, c) }()
	chunk := []byte(strings.Repeat("1;"+strings.Repeat("x", 2000)+"\r\na\r\n", 10))
	for sent := 0; ; sent += len(chunk) {
		if _, err := c.Write(chunk); err != nil {
			return
		}
		if sent > 8*allowanceMost {
			t.Fatalf("after %d bytes the connection is open", sent)
		}
	}
}

// echo is a copy that sends what it gets, also after an upgrade.
func echo(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			_ = http.NewResponseController(w).EnableFullDuplex()
			_, _ = io.Copy(w, r.Body)
			return
		}
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "websocket")
		w.WriteHeader(http.StatusSwitchingProtocols)
		c, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_, _ = io.Copy(c, c)
			_ = c.Close()
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// Honest clients have as much as they like: bodies in both directions, in small pieces too, many requests with large headers, and
// WebSockets.
func TestHonestClientsAreNotCut(t *testing.T) {
	t.Parallel()
	r, s := start(t, echo(t), 0)
	const much = 3 * allowanceMost
	for name, protocol := range map[string]string{"HTTP/1": "http/1.1", "HTTP/2": "h2"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			transport := &http.Transport{TLSClientConfig: r.secure(t, protocol), ForceAttemptHTTP2: protocol == "h2", DialContext: r.client(t, s.Secure[0]).Transport.(*http.Transport).DialContext}
			t.Cleanup(transport.CloseIdleConnections)
			c := &http.Client{Transport: transport}
			for _, piece := range []int{1, 100, 32 << 10} {
				answer, err := c.Post("https://app.localhost/", "text/plain", struct{ io.Reader }{&pieces{left: min(much/4, piece<<17), piece: piece}})
				if err != nil {
					t.Fatal(err)
				}
				n, err := io.Copy(io.Discard, answer.Body)
				_ = answer.Body.Close()
				if err != nil || n != int64(min(much/4, piece<<17)) {
					t.Errorf("pieces of %d bytes: %d bytes came back, %v", piece, n, err)
				}
			}
			for range much / (50 << 10) {
				q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://app.localhost/", http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				q.Header.Set("X-Large", strings.Repeat("x", 50<<10))
				answer, err := c.Do(q)
				if err != nil {
					t.Fatal(err)
				}
				_ = answer.Body.Close()
			}
		})
	}
	t.Run("WebSocket", func(t *testing.T) {
		t.Parallel()
		c, err := tls.Dial("tcp", s.Secure[0], r.secure(t, "http/1.1"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: app.localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		in := bufio.NewReader(c)
		if answer, err := http.ReadResponse(in, nil); err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("%v, %v", answer, err)
		}
		go func() { _, _ = io.Copy(c, &pieces{left: much, piece: 1000}) }()
		if n, err := io.CopyN(io.Discard, in, much); err != nil {
			t.Errorf("%d bytes came back: %v", n, err)
		}
	})
}

// pieces is a body in pieces of a size.
type pieces struct{ left, piece int }

func (p *pieces) Read(b []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	n := min(len(b), p.piece, p.left)
	p.left -= n
	return n, nil
}

// What a connection may send grows with time, and not beyond the most.
func TestAllowanceGrows(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	a := newAllowance(nil, func() time.Time { return now })
	if !a.add(-allowanceMost) || a.add(-1) {
		t.Error("it begins with another amount than the most")
	}
	now = now.Add(time.Second)
	if !a.add(-(allowancePerSecond - 1)) || a.add(-1) {
		t.Error("a second adds another amount")
	}
	now = now.Add(-time.Hour)
	if a.add(0) {
		t.Error("a clock that is set back adds something")
	}
	now = now.Add(1000 * time.Hour)
	if a.add(0); a.left < allowanceMost-1 || a.left > allowanceMost {
		t.Errorf("after a long time there are %d bytes", a.left)
	}
}
