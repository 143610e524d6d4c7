package program

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// The bytes that a client may send beside requests and their bodies, such as frames of HTTP/2 that say nothing, and extensions of
// chunks. A client may always have sent as much as a window of HTTP/2 and the headers that wait for their turn.
const (
	// allowanceMost is the most that a connection has, and what it begins with.
	allowanceMost = 4 << 20
	// allowancePerSecond comes with time, for pings and keys; allowancePerRequest with each request, for its headers.
	allowancePerSecond  = 32 << 10
	allowancePerRequest = maxHeader
	// allowanceOfBody is for a body that nobody reads: what of it is under way when the request is refused.
	allowanceOfBody = 1 << 20
	// bodyCost limits the bytes for one byte of a body: one that is sent alone has a frame and a record of TLS, about 32 in all.
	bodyCost = 64
	// answerPart of what is sent may come back as acknowledgments.
	answerPart = 8
)

// errAllowance ends a connection whose client sends too much beside requests.
var errAllowance = errors.New("the client sends too much beside its requests")

// allowance is a connection whose client may send a certain amount beside its requests. Its methods may be called concurrently.
type allowance struct {
	net.Conn
	now func() time.Time

	mu   sync.Mutex
	left int64
	at   time.Time // when left was true
	free bool      // it carries no requests any more
}

func newAllowance(c net.Conn, now func() time.Time) *allowance {
	return &allowance{Conn: c, now: now, left: allowanceMost, at: now()}
}

// allowances is a listener of connections with an allowance.
type allowances struct{ net.Listener }

// Accept implements net.Listener.
func (l allowances) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return newAllowance(c, time.Now), nil
}

// Read implements net.Conn.
func (a *allowance) Read(b []byte) (int, error) {
	n, err := a.Conn.Read(b)
	if !a.add(int64(-n)) {
		_ = a.Conn.Close()
		return 0, errAllowance
	}
	return n, err
}

// Write implements net.Conn.
func (a *allowance) Write(b []byte) (int, error) {
	n, err := a.Conn.Write(b)
	a.add(int64(n / answerPart))
	return n, err
}

// add adds to the allowance and reports whether there is something left.
func (a *allowance) add(n int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	grown := int64(min(max(0, now.Sub(a.at).Seconds()), allowanceMost/allowancePerSecond) * allowancePerSecond)
	if grown > 0 {
		a.at = now
	}
	a.left = min(allowanceMost, a.left+grown+n)
	return a.free || a.left >= 0
}

// release ends the limit: the connection is a WebSocket.
func (a *allowance) release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.free = true
}

// allowanceOf finds the allowance in what a server has of a connection; nil if there is none.
func allowanceOf(c net.Conn) *allowance {
	for {
		switch at := c.(type) {
		case *allowance:
			return at
		case interface{ NetConn() net.Conn }: // TLS, and the limit of connections
			c = at.NetConn()
		default:
			return nil
		}
	}
}

type allowanceKey struct{}

// withAllowance lets request find the connection of a request.
func withAllowance(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, allowanceKey{}, allowanceOf(c))
}

// request adds what comes with a request, and has its body add what comes with that.
func (a *allowance) request(r *http.Request) {
	n := int64(allowancePerRequest)
	if r.Body != nil && r.Body != http.NoBody {
		n += allowanceOfBody
		r.Body = &allowedBody{r.Body, a}
	}
	a.add(n)
}

// allowedBody is the body of a request on a connection with an allowance.
type allowedBody struct {
	io.ReadCloser
	of *allowance
}

// Read implements io.Reader.
func (b *allowedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.of.add(int64(n) * bodyCost)
	return n, err
}
