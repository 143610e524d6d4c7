package forward

import (
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// clients are the connections from clients. Those that carry nothing make room for others, so
// that clients that are silent, or send and read nothing, do not take the place of all.
type clients struct {
	mu   sync.Mutex
	open map[net.Conn]time.Time // when its forwarding began
}

// add notes a connection until done is called.
func (c *clients) add(conn net.Conn) (done func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = make(map[net.Conn]time.Time)
	}
	c.open[conn] = time.Now()
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.open, conn)
	}
}

// closeQuietest closes the connection that has carried nothing for the longest time since its forwarding began, if that is at
// least limit, and reports whether there was one. What a client sent while it waited for a place has not been carried yet.
func (c *clients) closeQuietest(limit time.Duration) (closed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var quietest net.Conn
	for conn, begun := range c.open {
		q, ok := quietFor(conn)
		if q = min(q, time.Since(begun)); ok && q >= limit {
			quietest, limit = conn, q
		}
	}
	if quietest == nil {
		return false
	}
	delete(c.open, quietest) // it is closed once
	abort(quietest)
	return true
}

// quietFor returns how long a connection has carried nothing. The kernel knows it, so the
// connection is copied without a look at it.
func quietFor(conn net.Conn) (quiet time.Duration, ok bool) {
	info := infoOf(conn)
	if info == nil {
		return 0, false
	}
	return time.Duration(min(info.Last_data_sent, info.Last_data_recv)) * time.Millisecond, true
}

// queued reports whether a connection waits to be accepted.
func queued(l net.Listener) bool {
	info := infoOf(l)
	return info != nil && info.Unacked > 0 // of a listener: the length of its queue
}

// infoOf returns what the kernel knows of a TCP socket; nil for another one.
func infoOf(socket any) (info *unix.TCPInfo) {
	s, ok := socket.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return nil
	}
	_ = raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) })
	if err != nil {
		return nil
	}
	return info
}

// abort closes a connection without waiting for its client to read what was sent.
func abort(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
