package connlimit

import (
	"container/list"
	"context"
	"net"
	"sync"
	"syscall"
)

// Limit is a number of connections that listeners share. It is safe for concurrent use.
type Limit struct {
	most   int
	within *Limit // counts these connections too; nil: none does

	mu    sync.Mutex
	open  int
	spare list.List // of *conn that serve no request, the oldest first
}

// New returns a limit of most connections. They also count toward within, a limit that
// several limits share, unless it is nil. A connection that only within has no room for is
// refused.
func New(most int, within *Limit) *Limit { return &Limit{most: most, within: within} }

// Open returns the number of open connections.
func (l *Limit) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

// Listener returns a listener whose connections count toward the limit.
func (l *Limit) Listener(inner net.Listener) net.Listener { return &listener{inner, l} }

// ConnContext is for http.Server. It lets Serving find the connection of a request.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

type connKey struct{}

// Serving protects the connection of a request from being closed in favor of a new one
// until done is called. ctx is the request's.
func Serving(ctx context.Context) (done func()) {
	inner := ctx.Value(connKey{})
	c, ok := inner.(*conn)
	if secure, is := inner.(interface{ NetConn() net.Conn }); is && !ok { // a *tls.Conn
		c, ok = secure.NetConn().(*conn)
	}
	if !ok {
		return func() {}
	}
	c.limit.protect(c)
	return func() { c.limit.release(c) }
}

// Share returns a part of the descriptors that the process may open, at most most.
func Share(part, most int) int {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return min(most, 1024/part)
	}
	return max(1, int(min(uint64(most), r.Cur/uint64(part))))
}

type listener struct {
	net.Listener
	limit *Limit
}

// Accept returns the next connection that the limit has room for. It closes others.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if counted := l.limit.admit(c); counted != nil {
			return counted, nil
		}
		_ = c.Close()
	}
}

// conn is a connection that counts.
type conn struct {
	net.Conn
	limit *Limit
	once  sync.Once
	spare *list.Element // nil while requests are served and after Close; guarded by limit.mu
	// serving is the number of requests that are served: HTTP/2 has several at a time; guarded by limit.mu.
	serving int
	ended   bool // guarded by limit.mu
}

// NetConn returns the connection that counts, as that of tls.Conn does.
func (c *conn) NetConn() net.Conn { return c.Conn }

// Close closes the connection and makes room for another one.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { c.limit.leave(c) })
	return err
}

// admit counts a connection; nil: there is no room.
func (l *Limit) admit(inner net.Conn) *conn {
	for !l.enter() {
		oldest := l.oldest()
		if oldest == nil {
			return nil
		}
		_ = oldest.Close()
	}
	if l.within != nil && !l.within.enter() {
		l.exit()
		return nil
	}
	c := &conn{Conn: inner, limit: l, serving: 1}
	l.release(c)
	return c
}

func (l *Limit) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= l.most {
		return false
	}
	l.open++
	return true
}

func (l *Limit) exit() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
}

// oldest is the connection that has waited longest without a request; nil: all are served.
func (l *Limit) oldest() *conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if front := l.spare.Front(); front != nil {
		return front.Value.(*conn)
	}
	return nil
}

func (l *Limit) protect(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.serving++
	l.unlist(c)
}

func (l *Limit) release(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.serving--; c.serving == 0 && !c.ended && c.spare == nil {
		c.spare = l.spare.PushBack(c)
	}
}

func (l *Limit) leave(c *conn) {
	l.mu.Lock()
	l.unlist(c)
	c.ended = true
	l.open--
	l.mu.Unlock()
	if l.within != nil {
		l.within.exit()
	}
}

// unlist takes c off the list. l.mu is held.
func (l *Limit) unlist(c *conn) {
	if c.spare != nil {
		l.spare.Remove(c.spare)
		c.spare = nil
	}
}
