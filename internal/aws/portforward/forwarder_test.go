package portforward_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/podtask/podtask/internal/aws/portforward"
	"github.com/xtaci/smux"
)

// plugin is the client's side of a forwarder.
type plugin struct {
	*smux.Session
	forwarder *portforward.Forwarder
	ended     chan error // of CopyOutput
}

// newPlugin returns a client of a forwarder to what dial connects to.
func newPlugin(t *testing.T, dial func(context.Context) (net.Conn, error)) plugin {
	t.Helper()
	f, err := portforward.New(t.Context(), dial)
	if err != nil {
		t.Fatal(err)
	}
	near, far := net.Pipe()
	mux, err := smux.Client(near, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := plugin{mux, f, make(chan error, 1)}
	go func() { _, _ = io.Copy(f, far) }()
	go func() {
		p.ended <- f.CopyOutput(far)
		_ = far.Close()
	}()
	t.Cleanup(func() { _ = mux.Close() })
	return p
}

// echo is a server that sends back what it gets.
func echo(t *testing.T) func(context.Context) (net.Conn, error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			}()
		}
	}()
	return func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
	}
}

func TestConnectionsAreForwardedAtTheSameTime(t *testing.T) {
	t.Parallel()
	p := newPlugin(t, echo(t))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			s, err := p.OpenStream()
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			sent := make([]byte, 300_000)
			rand.Read(sent)
			go func() { _, _ = s.Write(sent) }()
			got := make([]byte, len(sent))
			if _, err := io.ReadFull(s, got); err != nil || !bytes.Equal(sent, got) {
				t.Errorf("%d bytes come back as they were: %t, %v", len(got), bytes.Equal(sent, got), err)
			}
		})
	}
	wg.Wait()
	if err := p.forwarder.End(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-p.ended; err != nil {
		t.Errorf("at the end: %v", err)
	}
}

// A server that closes its connection ends the stream after its last byte, and a port on which no server
// listens is told.
func TestTheEndOfAConnectionIsTold(t *testing.T) {
	t.Parallel()
	refused := errors.New("connection refused")
	var mu sync.Mutex
	var next net.Conn
	p := newPlugin(t, func(context.Context) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		if next == nil {
			return nil, refused
		}
		return next, nil
	})
	s, err := p.OpenStream()
	if err != nil {
		t.Fatal(err)
	}
	if err := <-p.forwarder.Failed(); !errors.Is(err, refused) {
		t.Errorf("failed: %v", err)
	}
	if n, err := s.Read(make([]byte, 1)); err == nil {
		t.Errorf("%d bytes of a port that refuses", n)
	}
	server, client := net.Pipe()
	mu.Lock()
	next = client
	mu.Unlock()
	if s, err = p.OpenStream(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = server.Write([]byte("bye"))
		_ = server.Close()
	}()
	if all, err := io.ReadAll(s); string(all) != "bye" || err != nil {
		t.Errorf("%q %v", all, err)
	}
}

// A client that does not speak smux, as one of 2019, ends the forwarder. Connections above the limit
// are closed.
func TestClientsAreLimited(t *testing.T) {
	t.Parallel()
	p := newPlugin(t, echo(t))
	var open []*smux.Stream
	for range portforward.MaxConnections + 1 {
		s, err := p.OpenStream()
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, s)
	}
	if _, err := open[portforward.MaxConnections].Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("a connection too many: %v", err)
	}
	first := open[0]
	if _, err := first.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadFull(first, make([]byte, 1)); err != nil {
		t.Errorf("the first connection: %v", err)
	}

	f, err := portforward.New(t.Context(), echo(t))
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = f.Write([]byte("GET / HTTP/1.0\r\n\r\n")) }()
	if err := f.CopyOutput(io.Discard); err != nil {
		t.Errorf("a client without smux: %v", err)
	}
}

func FuzzForwarder(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 1, 0, 0, 0})
	f.Add([]byte{1, 2, 255, 255, 1, 0, 0, 0, 7})
	f.Fuzz(func(t *testing.T, sent []byte) {
		p, err := portforward.New(t.Context(), func(context.Context) (net.Conn, error) { return nil, io.EOF })
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() { done <- p.CopyOutput(io.Discard) }()
		_, _ = p.Write(sent)
		_ = p.End(t.Context())
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
