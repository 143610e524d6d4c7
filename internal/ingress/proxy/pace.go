package proxy

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// pacedBody is a body that ends with an error when nothing comes for a time.
type pacedBody struct {
	io.ReadCloser
	control  *http.ResponseController
	pause    time.Duration
	exchange *exchange
	ended    bool
}

func (b *pacedBody) Read(to []byte) (int, error) {
	if !b.ended {
		_ = b.control.SetReadDeadline(time.Now().Add(b.pause)) // without one, IdleTimeout is the limit
	}
	n, err := b.ReadCloser.Read(to)
	b.exchange.body.Add(int64(n))
	if err != nil && !b.ended {
		b.ended = true
		if errors.Is(err, os.ErrDeadlineExceeded) {
			b.exchange.slow.Store(true)
			return n, err
		}
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// quietConn is a connection to a copy that ends when neither side has sent anything for a time. A stream
// in one direction keeps the other one open.
type quietConn struct {
	net.Conn
	idle time.Duration
	last atomic.Int64 // when something was sent, in nanoseconds since 1970
}

func newQuietConn(c net.Conn, idle time.Duration) *quietConn {
	q := &quietConn{Conn: c, idle: idle}
	q.touch()
	return q
}

func (c *quietConn) touch() { c.last.Store(time.Now().UnixNano()) }

func (c *quietConn) Read(b []byte) (int, error) {
	for {
		until := time.Unix(0, c.last.Load()).Add(c.idle)
		if err := c.SetReadDeadline(until); err != nil {
			return 0, err
		}
		n, err := c.Conn.Read(b)
		if n > 0 {
			c.touch()
		}
		if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && time.Now().Before(time.Unix(0, c.last.Load()).Add(c.idle)) {
			continue // something was sent meanwhile
		}
		return n, err
	}
}

func (c *quietConn) Write(b []byte) (int, error) {
	c.touch()
	if err := c.SetWriteDeadline(time.Now().Add(c.idle)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

// CloseWrite ends the direction to the copy; a WebSocket's other direction continues.
func (c *quietConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// recorder notes what is answered, and limits the time in which the client takes nothing of it.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
	pause  time.Duration
	// closeTime limits the time that a client may keep a WebSocket open that the copy has ended.
	closeTime time.Duration
}

// Unwrap lets http.ResponseController reach the connection.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Hijack gives a connection to a WebSocket away.
func (w *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return c, buffered, err
	}
	w.status = http.StatusSwitchingProtocols
	if _, ok := c.(halfCloser); ok {
		c = &socketConn{c, w.closeTime}
	}
	return c, buffered, nil
}

// halfCloser is a connection whose two directions end one after the other.
type halfCloser interface{ CloseWrite() error }

// socketConn is a client's connection of a WebSocket. Nothing that the client sends after the copy has ended it matters, and
// a client that does not close would keep the copy from stopping.
type socketConn struct {
	net.Conn  // a halfCloser
	closeTime time.Duration
}

// CloseWrite ends the direction to the client, which has the closeTime for the other one.
func (c *socketConn) CloseWrite() error {
	return errors.Join(c.SetReadDeadline(time.Now().Add(c.closeTime)), c.Conn.(halfCloser).CloseWrite())
}

func (w *recorder) WriteHeader(status int) {
	if w.status < 200 { // after informational answers the real one comes
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// done takes the time limit away from the connection, which may serve other requests.
func (w *recorder) done() {
	if w.pause > 0 && w.status != http.StatusSwitchingProtocols {
		_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Time{})
	}
}

func (w *recorder) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	if w.pause > 0 {
		_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(w.pause))
	}
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}
