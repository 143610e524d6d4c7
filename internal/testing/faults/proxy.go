package faults

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"
	"sync"
)

// TB is the part of testing.TB that Start needs.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// Proxy is a service on a unix socket of its own that passes requests on to
// another.
type Proxy struct {
	socket  string
	handler http.Handler
	rules   Rules
	calls   callLog

	mu     sync.Mutex
	server *http.Server // nil while down
	served chan struct{}
}

// Start makes a proxy before the service that listens on the socket backend. It
// ends with the test. The service need not be up: while it is not, a request's
// connection is cut without an answer.
func Start(t TB, backend string) *Proxy {
	t.Helper()
	dir, err := os.MkdirTemp("", "faults-") // t.TempDir would be too long for a socket
	if err != nil {
		t.Fatalf("fault proxy: %v", err)
	}
	p := &Proxy{socket: filepath.Join(dir, "s")}
	p.handler = p.calls.wrap(p.rules.Wrap(forward(backend)))
	if err := p.Up(); err != nil {
		t.Fatalf("fault proxy: %v", err)
	}
	t.Cleanup(func() {
		p.Down()
		_ = os.RemoveAll(dir)
	})
	return p
}

// Socket is the path of the proxy's socket.
func (p *Proxy) Socket() string { return p.socket }

// URI is the proxy's address in the form of CONTAINER_HOST.
func (p *Proxy) URI() string { return "unix://" + p.socket }

// Down ends the proxy as kill -9 ends a service: every connection is cut, the
// socket's file stays, and connecting to it is refused until Up. Requests on
// their way to the real service are given up.
func (p *Proxy) Down() {
	if served := p.cut(); served != nil {
		<-served
	}
}

// cut is Down without waiting for requests to end, for use inside one.
func (p *Proxy) cut() (served chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server == nil {
		return nil
	}
	_ = p.server.Close() // an error would be the listener's second close
	p.server = nil
	return p.served
}

// Up lets the proxy listen, again after Down. It does nothing while it listens.
func (p *Proxy) Up() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server != nil {
		return nil
	}
	if err := os.Remove(p.socket); err != nil && !os.IsNotExist(err) {
		return err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: p.socket, Net: "unix"})
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false)
	server := &http.Server{Handler: p.handler, ErrorLog: log.New(io.Discard, "", 0)}
	served := make(chan struct{})
	p.server, p.served = server, served
	go func() {
		defer close(served)
		_ = server.Serve(l) // ends with cut, which is no error
	}()
	return nil
}

// forward passes requests on to the service on a socket. A service that does not
// answer costs the client its connection, as if there were no proxy.
func forward(socket string) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "service"
		},
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, "unix", socket)
			},
			// A kept connection to a service that was restarted would fail a request
			// that is not meant to fail.
			DisableKeepAlives: true, DisableCompression: true,
		},
		FlushInterval: -1, // logs and waits are streams
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
}
