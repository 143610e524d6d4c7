package enginesim

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"

	"github.com/podtask/podtask/internal/engine/act/endpoint"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// namespaces are the network namespaces of the processes in Podman. They contain nothing: only
// what podtask tried there is kept, in the world.
type namespaces struct{ w *world }

var _ endpoint.Namespaces = namespaces{}

// namespace is what podtask tried in the namespace of a process. If that failed, the task was
// told.
type namespace struct{ listened, added bool }

func (n namespaces) of(pid int) *namespace {
	s := n.w.namespaces[pid]
	if s == nil {
		s = &namespace{}
		n.w.namespaces[pid] = s
	}
	return s
}

func (n namespaces) fault() error {
	if !n.w.calm && n.w.r.IntN(n.w.trouble) == 0 {
		return errors.New("fault on order")
	}
	return nil
}

// CanEnter implements endpoint.Namespaces.
func (namespaces) CanEnter() error { return nil }

// Listen implements endpoint.Namespaces.
func (n namespaces) Listen(_ context.Context, pid int, addr netip.AddrPort) (net.Listener, []netip.Addr, error) {
	n.of(pid).listened = true
	if err := n.fault(); err != nil {
		return nil, nil, err
	}
	return &listener{addr: net.TCPAddrFromAddrPort(addr), closed: make(chan struct{})}, nil, nil
}

// AddAddresses implements endpoint.Namespaces.
func (n namespaces) AddAddresses(_ context.Context, pid int, _ []netip.Prefix) error {
	n.of(pid).added = true
	return n.fault()
}

// listener never has a connection.
type listener struct {
	addr   net.Addr
	once   sync.Once
	closed chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	<-l.closed
	return nil, net.ErrClosed
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *listener) Addr() net.Addr { return l.addr }

// served is the task of an endpoint.
type served struct{ o *process }

var _ endpoint.Task = served{}

// State implements endpoint.Task.
func (s served) State() lifecycle.State { return s.o.state }

// Watch implements endpoint.Task.
func (served) Watch(context.Context, func(lifecycle.State) bool) error { return nil }

// Send implements endpoint.Task.
func (served) Send(lifecycle.Event) bool { return false }

// checkNetwork: a container of a bridged task that starts has its network, the addresses by
// which the others know it, and the endpoint of its task, unless the task was told that it
// runs without.
func checkNetwork(w *world, t *task, i, pid int) {
	alone := len(t.def.Containers) == 1 // and has a network of its own
	if !t.def.Bridged() && !alone || t.def.Containers[i].Net.Disabled {
		return
	}
	name := t.container(i)
	seen := w.fake.See(name)
	done := namespaces{w}.of(pid)
	switch {
	case seen.Disconnected:
		w.broken("%s is started without a network", name)
	case len(seen.Missing) > 0 && !done.added:
		w.broken("%s is started without %v", name, seen.Missing)
	case t.opts.MetadataKey != "" && !done.listened:
		w.broken("%s is started without the endpoint of its task", name)
	}
}
