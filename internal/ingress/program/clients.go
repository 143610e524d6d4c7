package program

import (
	"net"
	"net/netip"
	"sync"
)

// clients limits how many connections one client has: an IPv4 address, or a network of 64 bits of IPv6, which is what one
// customer of a provider has.
type clients struct {
	most int

	mu   sync.Mutex
	open map[netip.Prefix]int
}

func newClients(most int) *clients { return &clients{most: most, open: map[netip.Prefix]int{}} }

// listener returns a listener that closes connections of clients that have too many.
func (c *clients) listener(inner net.Listener) net.Listener { return &clientListener{inner, c} }

type clientListener struct {
	net.Listener
	clients *clients
}

// Accept implements net.Listener.
func (l *clientListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := clientOf(c.RemoteAddr())
		if l.clients.enter(from) {
			return &clientConn{Conn: c, leave: sync.OnceFunc(func() { l.clients.leave(from) })}, nil
		}
		_ = c.Close()
	}
}

func (c *clients) enter(from netip.Prefix) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[from] >= c.most {
		return false
	}
	c.open[from]++
	return true
}

func (c *clients) leave(from netip.Prefix) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[from]--; c.open[from] == 0 {
		delete(c.open, from)
	}
}

// clientConn is a connection that counts for its client.
type clientConn struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *clientConn) Close() error {
	err := c.Conn.Close()
	c.leave()
	return err
}

// clientOf is the client behind an address; the zero prefix for an address that is not IP:PORT.
func clientOf(a net.Addr) netip.Prefix {
	at, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Prefix{}
	}
	ip, bits := at.Addr().Unmap().WithZone(""), 32
	if ip.Is6() {
		bits = 64
	}
	p, err := ip.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}
