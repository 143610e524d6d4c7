package program

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
)

// clients limits how many connections, or requests at a time, one client has: an IPv4 address, or an IPv6 network of
// 64 bits, because providers give a whole one to each customer.
type clients struct {
	most, total int

	mu   sync.Mutex
	open map[netip.Prefix]int
	sum  int
}

// newClients limits those of one client to most, and those of all to total.
func newClients(most, total int) *clients {
	return &clients{most: most, total: total, open: map[netip.Prefix]int{}}
}

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

// handler returns a handler that refuses requests of clients that have too many at a time. A connection of HTTP/2 has many, and each
// of them takes a connection to a copy.
func (c *clients) handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from := clientAt(r.RemoteAddr)
		if !c.enter(from) {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many requests at a time", http.StatusServiceUnavailable)
			return
		}
		defer c.leave(from)
		h.ServeHTTP(w, r)
	})
}

func (c *clients) enter(from netip.Prefix) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[from] >= c.most || c.sum >= c.total {
		return false
	}
	c.open[from]++
	c.sum++
	return true
}

func (c *clients) leave(from netip.Prefix) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sum--
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
func clientOf(a net.Addr) netip.Prefix { return clientAt(a.String()) }

func clientAt(address string) netip.Prefix {
	at, err := netip.ParseAddrPort(address)
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
