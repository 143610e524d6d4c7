package services

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/network/names"
	"github.com/podtask/podtask/internal/forward"
	"github.com/podtask/podtask/internal/forward/kept"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/netns"
	"github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/pkg/taskdef"
)

// listeners are the addresses of one service. Their connections are forwarded to the ports
// that the copies in rotation publish.
type listeners struct {
	log     *slog.Logger
	tasks   *record.Tasks
	service string
	names   Names
	use     *forward.Use

	mu sync.Mutex
	// named has the forwarders of names.
	named map[names.Name]*forward.Forwarder
	open  map[string]*listener // by address
	// proxied reports whether the ingress proxy listens at an address of the service; nil: never.
	proxied func(address string) bool
	// awaited reports whether the proxy waits for the listener that this process has at an address; nil: never.
	awaited func(address string) bool
	// pass hands a listener at an address to the ingress proxy; nil: it is only closed.
	pass func(address string, l *net.TCPListener) error
	// kept are the listeners that outlive this process; nil: none do.
	kept *kept.Store
	// take takes the listeners at an address from an ingress proxy that ends; nil: there are none.
	take func(address string) []net.Listener
	// targets are where the copies in rotation were found.
	targets map[place]string
}

// listener is an address of a service. Connections that it has keep its forwarder after the ingress proxy has taken
// the address.
type listener struct {
	*forward.Forwarder
	// doors are the listeners: none while the ingress proxy listens, and more than one after it has given back several.
	doors []door
}

// door is a listener that is served, until stop closes it. The ingress proxy may get it before.
type door struct {
	net.Listener
	stop func()
}

// Names makes the names of services known to the tasks that reach them.
type Names interface {
	// Publish replaces the names of a service.
	Publish(service string, all map[names.Name]*forward.Forwarder)
}

// target is where in a copy connections go: a port of a container, or a port mapping with a name.
type target struct {
	container string
	port      uint16
	portName  string
}

// place is a target in a copy.
type place struct {
	id string
	target
}

// Follow opens and closes listeners as a state has them and forwards to its copies in
// rotation. It returns the listeners that cannot be opened.
func (l *listeners) Follow(s service.State) (not []service.Unheard) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := listenersOf(s.Config)
	for address, f := range l.open {
		if !slices.ContainsFunc(all, func(c service.Listener) bool { return c.Address == address }) {
			f.Close()
			delete(l.open, address)
			l.kept.Forget(address)
		}
	}
	hold := sleepOf(s).Hold
	not = append(l.route(s.Config.Listeners, s.Groups(false), hold), l.route(s.Config.TestListeners, s.Groups(true), hold)...)
	l.publish(s.Config.Names.Namespace, s.Offers())
	for _, n := range s.Offers() {
		named := l.named[nameOf(s.Config.Names.Namespace, n.Name)]
		named.SetPatience(hold)
		named.Route(l.setsOf(s.Only(s.Groups(false), n.Copy), target{n.Container, n.ContainerPort, n.PortName})...)
	}
	rotation := s.Rotation()
	// The addresses of copies that have left the rotation are forgotten.
	maps.DeleteFunc(l.targets, func(p place, _ string) bool { return !slices.Contains(rotation, p.id) })
	return not
}

// listenersOf are all listeners of a service.
func listenersOf(c service.Config) []service.Listener {
	return slices.Concat(c.Listeners, c.TestListeners)
}

// route opens listeners and has their connections go to groups of copies. It returns the
// listeners that cannot be opened.
func (l *listeners) route(all []service.Listener, groups []service.Group, hold time.Duration) (not []service.Unheard) {
	for _, c := range all {
		f := l.open[c.Address]
		if f == nil {
			f = &listener{Forwarder: forward.New(forward.Config{Log: l.log})}
			f.SetUse(l.use)
			if l.open == nil {
				l.open = make(map[string]*listener)
			}
			l.open[c.Address] = f
		}
		for _, o := range l.kept.Take(c.Address) { // of the agent before
			f.doors = append(f.doors, door{o, f.Serve(o)})
		}
		switch by := l.proxied != nil && l.proxied(c.Address); {
		case len(f.doors) > 0 && (by || l.awaited != nil && l.awaited(c.Address)):
			l.leave(c.Address, f, by)
		case !by && len(f.doors) == 0:
			opened, err := l.openOrTake(c.Address)
			if err != nil {
				not = append(not, service.Unheard{Address: c.Address, Problem: whyNot(c.Address, err)})
				break
			}
			for _, o := range opened {
				f.doors = append(f.doors, door{o, f.Serve(o)})
				l.kept.Keep(c.Address, o)
			}
		}
		f.SendAddress(c.ProxyProtocol)
		f.SetPatience(hold)
		f.Route(l.setsOf(groups, target{container: c.Container, port: c.Port})...)
	}
	return not
}

// leave leaves an address to the ingress proxy, which gets the listeners too: connections that wait in them to be accepted
// would be reset when they are closed. A listener that the proxy does not take is closed only if the proxy listens already.
func (l *listeners) leave(address string, f *listener, listens bool) {
	f.doors = slices.DeleteFunc(f.doors, func(d door) bool {
		if t, ok := d.Listener.(*net.TCPListener); ok && l.pass != nil {
			if err := l.pass(address, t); err != nil {
				l.log.Warn("the ingress proxy does not take a listener; connections that it has not accepted are reset when it is closed", "address", address, "error", err)
				if !listens {
					return false
				}
			}
		}
		d.stop()
		return true
	})
	if len(f.doors) == 0 {
		l.kept.Forget(address)
	}
}

// openOrTake takes the listeners of an ingress proxy that ends, with the connections that wait in them; otherwise it opens one.
func (l *listeners) openOrTake(address string) ([]net.Listener, error) {
	if l.take != nil {
		if taken := l.take(address); len(taken) > 0 {
			return taken, nil
		}
	}
	opened, err := open(address)
	return []net.Listener{opened}, err
}

// open opens a listener that the ingress proxy may share. Others that listen there are an error, also other agents
// of the same user.
func open(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	if err := l.Close(); err != nil {
		return nil, err
	}
	return forward.Share(address)
}

// setsOf are groups of copies as sets of targets.
func (l *listeners) setsOf(groups []service.Group, to target) (sets []forward.Set) {
	for _, g := range groups {
		sets = append(sets, forward.Set{ID: g.Deployment, Weight: int(g.Weight), Targets: l.targetsOf(g.Copies, to)})
	}
	return sets
}

func nameOf(namespace string, n service.Name) names.Name {
	return names.Name{Namespace: namespace, Name: n.Name, Port: n.Port}
}

// Publish makes the names of a service known. Connections wait until copies are in rotation.
func (l *listeners) Publish(s service.State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.publish(s.Config.Names.Namespace, s.Offers())
}

func (l *listeners) publish(namespace string, all []service.Offer) {
	now := make(map[names.Name]*forward.Forwarder)
	for _, n := range all {
		name := nameOf(namespace, n.Name)
		if now[name] = l.named[name]; now[name] == nil {
			now[name] = forward.New(forward.Config{Log: l.log})
			now[name].SetUse(l.use)
		}
	}
	before := l.named
	l.named = now
	if l.names != nil {
		l.names.Publish(l.service, now)
	}
	for name, f := range before {
		if now[name] == nil {
			f.Close()
		}
	}
}

// Traffic is what was counted of the connections to a listener or a name, NAME:PORT, since it was opened. The sets are
// the deployments.
type Traffic struct {
	Service, Address string
	forward.Counts
}

// traffic returns what was counted.
func (l *listeners) traffic(service string) (all []Traffic) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, address := range slices.Sorted(maps.Keys(l.open)) {
		all = append(all, Traffic{service, address, l.open[address].Counts()})
	}
	for n, f := range l.named {
		all = append(all, Traffic{service, fmt.Sprintf("%s:%d", n.Name, n.Port), f.Counts()})
	}
	return all
}

// where is where the copies with these ids publish a port of a container.
func (l *listeners) where(ids []string, container string, port uint16) []forward.Target {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.targetsOf(ids, target{container: container, port: port})
}

// targetsOf are where the copies with these ids publish a port.
func (l *listeners) targetsOf(ids []string, to target) (targets []forward.Target) {
	for _, id := range ids {
		at := place{id, to}
		address := l.targets[at]
		if address == "" {
			st, err := l.tasks.Get(id)
			if err == nil {
				address = published(st, to)
			}
			if address == "" {
				l.log.Warn("no connections are forwarded to a copy", "task", id, "container", to.container, "port", cmp.Or(to.portName, strconv.Itoa(int(to.port))), "error", err)
				continue
			}
			if l.targets == nil {
				l.targets = make(map[place]string)
			}
			l.targets[at] = address
		}
		targets = append(targets, forward.Target{ID: id, Address: address})
	}
	return targets
}

// Drain waits until a copy has no forwarded connection any more. Those that it still has at the
// deadline of ctx are cut.
func (l *listeners) Drain(ctx context.Context, id string) {
	l.mu.Lock()
	open := slices.Collect(maps.Values(l.named))
	for _, f := range l.open {
		open = append(open, f.Forwarder)
	}
	l.mu.Unlock()
	for _, f := range open {
		if err := f.Drain(ctx, id); errors.Is(err, context.DeadlineExceeded) {
			n := f.Cut(id)
			l.log.Warn("connections are cut: a copy that is to stop still had them when its time to drain was over", "task", id, "connections", n)
		}
	}
}

// forget has no listener outlive this process.
func (l *listeners) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for address := range l.open {
		l.kept.Forget(address)
	}
}

// settleTime limits how long the connections of a service may go on when the agent ends.
const settleTime = 2 * time.Second

// settle lets connections end, if those that come meanwhile wait in listeners that outlive this process.
func (l *listeners) settle() {
	if !l.kept.Keeps() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), settleTime)
	defer cancel()
	for _, f := range l.open {
		for _, d := range f.doors {
			d.stop()
		}
	}
	for _, f := range l.open {
		_ = f.Settle(ctx) // Close cuts the others
	}
}

// Close closes all listeners and their connections.
func (l *listeners) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.open {
		f.Close()
	}
	l.open = nil
	l.publish("", nil)
}

// published is the address at which a running task publishes a TCP port; "" if it does not.
func published(s lifecycle.State, to target) string {
	container, port, err := (service.Name{Container: to.container, ContainerPort: to.port, PortName: to.portName}).Target(s.Task)
	if err != nil {
		return ""
	}
	i := slices.IndexFunc(s.Task.Containers, func(c taskdef.Container) bool { return c.Name == container })
	switch {
	case i < 0:
		return ""
	case s.Task.Network == taskdef.NetworkHost:
		return net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port)))
	}
	bound := s.Sandbox.Ports
	if s.Sandbox.NoInfra || s.Task.Bridged() {
		bound = s.Containers[i].Ports
	}
	for _, p := range bound {
		if p.ContainerPort == port && p.Protocol == "tcp" && p.HostPort != 0 {
			return net.JoinHostPort(reachable(p.HostIP), strconv.Itoa(int(p.HostPort)))
		}
	}
	return ""
}

// reachable is an address by which this host reaches a port that is published at ip.
func reachable(ip string) string {
	a, err := netip.ParseAddr(ip)
	switch {
	case err != nil, a == netip.IPv4Unspecified():
		return "127.0.0.1"
	case a.IsUnspecified():
		return "::1"
	}
	return a.String()
}

// whyNot explains why a listener cannot be opened, and who has its port.
func whyNot(address string, err error) string {
	_, text, _ := net.SplitHostPort(address)
	port, _ := strconv.ParseUint(text, 10, 16)
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return err.Error()
	}
	switch why := errno.Error(); errno {
	case syscall.EADDRINUSE:
		if holder, found := netns.FindHolder("tcp", uint16(port)); found {
			return fmt.Sprintf("%s: %s has the port", why, holder)
		}
		return why
	case syscall.EACCES:
		return fmt.Sprintf("%s: the lowest port that users without privileges may open is %d (net.ipv4.ip_unprivileged_port_start)", why, netns.UnprivilegedStart())
	default:
		return why
	}
}

// checkListeners returns what keeps the listeners of a configuration from being opened that
// the one before does not have.
func (a *Services) checkListeners(name string, before, after service.Config) error {
	var errs []error
	for _, c := range listenersOf(after) {
		if slices.ContainsFunc(listenersOf(before), func(o service.Listener) bool { return o.Address == c.Address }) {
			continue
		}
		if other := a.listensAt(name, c.Address); other != "" {
			errs = append(errs, fmt.Errorf("service %s listens on %s already", other, c.Address))
			continue
		}
		f, err := net.Listen("tcp", c.Address)
		if err != nil {
			errs = append(errs, fmt.Errorf("cannot listen on %s: %s", c.Address, whyNot(c.Address, err)))
			continue
		}
		f.Close()
	}
	return errors.Join(errs...)
}

// listensAt names another service with a listener at the address; "" if there is none.
func (a *Services) listensAt(name, address string) string {
	for _, s := range a.States() {
		if s.Name != name && slices.ContainsFunc(listenersOf(s.Config), func(c service.Listener) bool { return c.Address == address }) {
			return s.Name
		}
	}
	return ""
}
