package sshhost

import (
	"errors"
	"net"
	"sync"
)

// Forwarder accepts connections here and connects each to an address of the other host's loopback.
type Forwarder struct {
	listeners []net.Listener
	// Failed, if not nil, is called with errors of single connections.
	Failed func(error)

	mu      sync.Mutex // guards the fields below
	link    *Link
	address string
	conns   map[net.Conn]bool
	wg      sync.WaitGroup
}

// NewForwarder returns a forwarder of listeners, which it closes.
func NewForwarder(l *Link, listeners []net.Listener) *Forwarder {
	return &Forwarder{link: l, listeners: listeners, conns: make(map[net.Conn]bool)}
}

// Use lets new connections go to an address over another link.
func (f *Forwarder) Use(l *Link, address string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.link, f.address = l, address
}

// maxForwarded bounds the open connections of a forwarder; others wait.
const maxForwarded = maxRuns / 2

// Start begins to accept connections for an address of the other host, and returns at once.
func (f *Forwarder) Start(address string) {
	f.mu.Lock()
	f.address = address
	f.mu.Unlock()
	places := make(chan struct{}, maxForwarded)
	for _, l := range f.listeners {
		f.wg.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				places <- struct{}{}
				f.wg.Go(func() {
					defer func() { <-places }()
					f.serve(c)
				})
			}
		})
	}
}

func (f *Forwarder) serve(c net.Conn) {
	defer c.Close()
	f.mu.Lock()
	f.conns[c] = true
	link, address := f.link, f.address
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		delete(f.conns, c)
		f.mu.Unlock()
	}()
	far, err := link.DialLoopback(address)
	if err != nil {
		if f.Failed != nil {
			f.Failed(err)
		}
		return
	}
	defer far.Close()
	if near, ok := c.(HalfCloser); ok {
		Join(near, far)
	}
}

// Close ends the listeners and all connections.
func (f *Forwarder) Close() error {
	var errs []error
	for _, l := range f.listeners {
		errs = append(errs, l.Close())
	}
	f.mu.Lock()
	for c := range f.conns {
		_ = c.Close()
	}
	f.mu.Unlock()
	return errors.Join(errs...)
}
