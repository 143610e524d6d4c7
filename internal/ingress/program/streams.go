package program

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/podtask/podtask/internal/forward"
	"github.com/podtask/podtask/internal/forward/kept"
	"github.com/podtask/podtask/internal/ingress"
	"github.com/podtask/podtask/internal/ingress/routefile"
	"github.com/podtask/podtask/pkg/netns"
)

// streamRetry is between two attempts to open a listener, and how long the agent may take to pass the one that it has.
const streamRetry = 5 * time.Second

// streams are the listeners of services for TCP connections. Its methods may be called concurrently.
type streams struct {
	log     *slog.Logger
	changed func()
	kept    *kept.Store // nil: no listener outlives the process
	use     func(service string) *forward.Use

	mu        sync.Mutex
	inherited map[string][]net.Listener // by address, of a predecessor, until they are used
	open      map[string]*stream        // by address
	retired   []*forward.Forwarder      // of listeners that are no more, while they have connections
	left      bool                      // no listener is opened any more
	offered   chan struct{}             // closed when the agent has all listeners that it was offered; nil before
	retry     *time.Timer
}

// stream is a listener of a service.
type stream struct {
	service   string
	forwarder *forward.Forwarder
	// doors are the listeners at the address: none if it cannot be opened; besides its own those that agents have passed.
	doors   []streamDoor
	problem string
	// awaited: another process had the port when it was to be opened first. If it is the agent, it passes its listener, and this
	// process needs none of its own. After a while it shares the address with the agent.
	awaited bool
}

// streamDoor is a listener that is served.
type streamDoor struct {
	net.Listener
	stop func() // closes the listener
}

// serve accepts the connections of a listener, too.
func (s *stream) serve(l net.Listener) {
	s.doors = append(s.doors, streamDoor{l, s.forwarder.Serve(l)})
}

func newStreams(log *slog.Logger, inherited map[string][]net.Listener, changed func(), use func(string) *forward.Use) *streams {
	return &streams{log: log, changed: changed, use: use, inherited: inherited, open: make(map[string]*stream)}
}

// route opens and closes listeners and has their connections go to groups of copies. Connections of a listener that
// is closed go on.
func (s *streams) route(all []routefile.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for address, one := range s.open {
		if !slices.ContainsFunc(all, func(l routefile.Listener) bool { return l.Address == address }) {
			one.close()
			s.kept.Forget(address)
			s.retire(one.forwarder)
			delete(s.open, address)
		}
	}
	for _, l := range all {
		one := s.open[l.Address]
		if one == nil {
			if s.left {
				continue
			}
			one = &stream{forwarder: forward.New(forward.Config{Log: s.log})}
			s.open[l.Address] = one
		}
		one.service = l.Service
		one.forwarder.SendAddress(l.ProxyProtocol)
		one.forwarder.SetUse(s.use(l.Service))
		one.forwarder.SetPatience(l.Sleep.Hold)
		var sets []forward.Set
		for _, g := range l.Groups {
			set := forward.Set{ID: g.Deployment, Weight: g.Weight}
			for _, t := range g.Targets {
				set.Targets = append(set.Targets, forward.Target{ID: t.ID, Address: t.Address})
			}
			sets = append(sets, set)
		}
		one.forwarder.Route(sets...)
	}
	s.listen()
}

// listen opens the listeners that are not open, and tries again later if that fails. The caller holds mu.
func (s *streams) listen() {
	failed := false
	for _, address := range slices.Sorted(maps.Keys(s.open)) {
		one := s.open[address]
		if len(one.doors) > 0 || s.left {
			continue
		}
		all, err := s.inherited[address], error(nil)
		if delete(s.inherited, address); len(all) == 0 {
			var l net.Listener
			if one.problem == "" && !alone(address) {
				failed, one.awaited, one.problem = true, true, listenProblem(address, syscall.EADDRINUSE)
				continue
			}
			l, err = forward.Share(address)
			all = []net.Listener{l}
		}
		if err != nil {
			if failed = true; one.problem == "" || one.awaited {
				s.log.Warn("a listener cannot be opened", "service", one.service, "address", address, "error", err)
			}
			one.problem, one.awaited = listenProblem(address, err), false
			continue
		}
		for _, l := range all {
			one.serve(l)
			s.kept.Keep(address, l)
		}
		one.problem, one.awaited = "", false
	}
	if failed && s.retry == nil {
		s.retry = time.AfterFunc(streamRetry, s.again)
	}
}

// alone reports whether nobody listens at an address; true also if that cannot be known.
func alone(address string) bool {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return !errors.Is(err, syscall.EADDRINUSE)
	}
	_ = l.Close()
	return true
}

// errNotHere is for a listener that is passed for an address which no service has.
var errNotHere = errors.New("no service listens at this address here")

// take serves a listener that the agent passes, besides those that are open at its address.
func (s *streams) take(address string, l net.Listener) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.open[address]
	if one == nil || s.left {
		return errNotHere
	}
	one.serve(l)
	s.kept.Keep(address, l)
	one.problem, one.awaited = "", false
	return nil
}

// offer has the agent take the listeners, which accept until then, and waits until it has all of them or ctx ends.
func (s *streams) offer(ctx context.Context) {
	s.mu.Lock()
	s.left, s.offered = true, make(chan struct{})
	all := s.offered
	s.given()
	s.mu.Unlock()
	s.changed()
	select {
	case <-all:
	case <-ctx.Done():
	}
}

// given notes whether the agent has all listeners. The caller holds mu.
func (s *streams) given() {
	for _, one := range s.open {
		if len(one.doors) > 0 {
			return
		}
	}
	if s.offered != nil {
		close(s.offered)
		s.offered = nil
	}
}

// give has a function hand one of the listeners at an address to the agent, and closes it here. It reports whether there is
// one that is offered.
func (s *streams) give(address string, hand func(*net.TCPListener) error) (found bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.open[address]
	if one == nil || len(one.doors) == 0 || s.offered == nil {
		return false, nil
	}
	door := one.doors[0]
	l, ok := door.Listener.(*net.TCPListener)
	if !ok {
		return false, nil
	}
	if err := hand(l); err != nil {
		return true, err
	}
	door.stop()
	if one.doors = one.doors[1:]; len(one.doors) == 0 {
		s.kept.Forget(address)
	}
	s.given()
	return true, nil
}

// again tries to open listeners once more: nothing tells when a port becomes free.
func (s *streams) again() {
	s.mu.Lock()
	s.retry = nil
	s.listen()
	s.mu.Unlock()
	s.changed()
}

// listenProblem explains why a listener cannot be opened, and who has its port.
func listenProblem(address string, err error) string {
	_, text, _ := net.SplitHostPort(address)
	number, _ := strconv.ParseUint(text, 10, 16)
	if errors.Is(err, syscall.EADDRINUSE) {
		if holder, found := netns.FindHolder("tcp", uint16(number)); found {
			return fmt.Sprintf("%s has the port", holder)
		}
	}
	return err.Error()
}

// unused closes the listeners of a predecessor that no service has any more.
func (s *streams) unused() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for address, all := range s.inherited {
		for _, l := range all {
			_ = l.Close()
		}
		s.kept.Forget(address)
	}
	s.inherited = nil
}

// retire keeps a forwarder until its connections have ended. The caller holds mu.
func (s *streams) retire(f *forward.Forwarder) {
	s.retired = append(s.retired, f)
	go func() {
		_ = f.DrainAll(context.Background()) // close ends it
		s.mu.Lock()
		s.retired = slices.DeleteFunc(s.retired, func(o *forward.Forwarder) bool { return o == f })
		s.mu.Unlock()
		_ = f.Close()
	}()
}

// close closes the listeners only.
func (s *stream) close() {
	for _, d := range s.doors {
		d.stop()
	}
	s.doors = nil
}

// listeners are those that are open, by address.
func (s *streams) listeners() map[string][]net.Listener {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string][]net.Listener)
	for address, one := range s.open {
		for _, d := range one.doors {
			all[address] = append(all[address], d.Listener)
		}
	}
	return all
}

// leave closes all listeners, and no connection.
func (s *streams) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = true
	for _, one := range s.open {
		one.close()
	}
}

// forwarders are all of them.
func (s *streams) forwarders() []*forward.Forwarder {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.retired)
	for _, one := range s.open {
		all = append(all, one.forwarder)
	}
	return all
}

// drain waits until a task has no connection any more.
func (s *streams) drain(ctx context.Context, task string) error {
	for _, f := range s.forwarders() {
		if err := f.Drain(ctx, task); err != nil {
			return err
		}
	}
	return nil
}

// drainAll waits until there is no connection any more.
func (s *streams) drainAll(ctx context.Context) error {
	for _, f := range s.forwarders() {
		if err := f.DrainAll(ctx); err != nil {
			return err
		}
	}
	return nil
}

// close closes all listeners and connections.
func (s *streams) close() {
	s.leave()
	s.mu.Lock()
	if s.retry != nil {
		s.retry.Stop()
	}
	s.mu.Unlock()
	s.unused()
	for _, f := range s.forwarders() {
		_ = f.Close()
	}
}

// status is what the proxy says about its listeners.
func (s *streams) status() []ingress.Listener {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []ingress.Listener{}
	for _, address := range slices.Sorted(maps.Keys(s.open)) {
		one := s.open[address]
		n := one.forwarder.Counts()
		all = append(all, ingress.Listener{Address: address, Service: one.service, Problem: one.problem, Awaited: one.awaited, Forwarded: n.Forwarded, Refused: n.Refused, Quiet: n.Quiet})
	}
	return all
}
