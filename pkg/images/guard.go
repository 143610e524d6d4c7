package images

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http/httptrace"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxReceived is the most that a registry may send for one question in bytes: an index,
// a manifest and a configuration of 4 MiB each, as containers/image limits them, and what
// is said about authentication.
const maxReceived = 16 << 20

// guardInterval is the time between two looks at the connections.
const guardInterval = 20 * time.Millisecond

// guarded returns a context for calls of containers/image, which reads the body of an
// error to its end: an endless one would take all memory. The context is canceled with
// errLongReply when the connections of its requests have received more than maxReceived. It is canceled with errPlainPlace,
// and nothing is sent, when a connection is one without TLS and plain is false: containers/image sends credentials to the token
// server that a registry names, and follows it to other places, also without TLS.
// end must be called; it returns the cause of a cancellation for err.
func guarded(ctx context.Context, plain bool) (_ context.Context, end func(err error) error) {
	ctx, cancel := context.WithCancelCause(ctx)
	g := &guard{refuse: func() { cancel(errPlainPlace) }}
	if plain {
		g.refuse = nil
	}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: g.add})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(guardInterval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if g.received() > maxReceived {
					cancel(errLongReply)
				}
			}
		}
	})
	return ctx, func(err error) error {
		cancel(nil)
		wg.Wait()
		if cause := context.Cause(ctx); err != nil && (errors.Is(cause, errLongReply) || errors.Is(cause, errPlainHTTP)) {
			return cause
		}
		return err
	}
}

// errPlainPlace: a registry leads to a place without TLS.
var errPlainPlace = fmt.Errorf("it leads to a place without TLS: %w", errPlainHTTP)

// guard knows the connections of one question.
type guard struct {
	refuse func() // is called for a connection without TLS; nil: it is allowed

	mu    sync.Mutex
	conns map[syscall.Conn]uint64 // bytes received
}

func (g *guard) add(info httptrace.GotConnInfo) {
	conn := info.Conn
	if over, ok := conn.(interface{ NetConn() net.Conn }); ok { // TLS
		conn = over.NetConn()
	} else if g.refuse != nil {
		g.refuse()
		_ = conn.Close() // before the request is written
		return
	}
	if c, ok := conn.(syscall.Conn); ok {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.conns == nil {
			g.conns = map[syscall.Conn]uint64{}
		}
		g.conns[c] = 0
	}
}

// received counts the bytes that all connections have received so far. A closed one keeps its number.
func (g *guard) received() (sum uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for c, n := range g.conns {
		if raw, err := c.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) {
				if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
					n = info.Bytes_received
				}
			})
		}
		g.conns[c] = n
		sum += n
	}
	return sum
}
