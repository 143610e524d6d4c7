package service

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
)

// DefaultDrainTimeout is how long a copy that is to stop may finish its connections.
const DefaultDrainTimeout = 30 * time.Second

// Listener is an address of the service. Connections to it are forwarded to the copies in
// Rotation.
type Listener struct {
	// Address is IP:PORT of the host; without an IP address, it stands for all.
	Address string `json:"address"`
	// Container and Port are where in a copy connections go. The copies publish the port.
	Container string `json:"container"`
	Port      uint16 `json:"port"`
}

// Unheard is a listener that could not be opened, and why.
type Unheard struct {
	Address string `json:"address"`
	Problem string `json:"problem"`
}

// Drain returns the limit of the time in which a copy that is to stop finishes its
// connections.
func (c Config) Drain() time.Duration { return cmp.Or(c.DrainTimeout, DefaultDrainTimeout) }

// Rotation are the ids of the copies to which connections are forwarded: those that are
// healthy and are not to stop. If there is none, it is those that run and have no health
// check, which are healthy a little later.
func (s State) Rotation() []string {
	ids := copies(s, Task.Healthy)
	if len(ids) == 0 {
		ids = copies(s, func(t Task) bool { return t.Phase == Live && t.Seen.Running && t.Seen.Health == Unchecked })
	}
	return ids
}

// Groups are the copies to which connections to the listeners are forwarded, with test to the test
// listeners, by revision, and the part of the connections that each gets. A revision without a copy in
// Rotation is left out, and the others have its part.
func (s State) Groups(test bool) []Group {
	ids := s.Rotation()
	if len(ids) == 0 {
		return nil
	}
	return []Group{{Deployment: s.Primary().ID, Weight: Whole, Copies: ids}}
}

// HookRequest returns what the call of an id is about, and whether it is still open.
func (s State) HookRequest(id string) (r HookRequest, open bool) { return r, false }

func copies(s State, fit func(Task) bool) (ids []string) {
	for _, t := range s.Tasks {
		if fit(t) {
			ids = append(ids, t.ID)
		}
	}
	return ids
}

// drains reports whether a copy that is to stop has to finish its connections first.
func drains(s State, t Task) bool {
	return len(s.Config.Listeners) > 0 && t.Phase == Stopping && !t.Drained
}

// checkListeners returns what is wrong with the listeners of a service.
func checkListeners(t taskdef.Task, c Config) (errs []error) {
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if d := c.DrainTimeout; d < 0 || d > time.Hour {
		refuse("the drain timeout is up to 1 h, not %s", d)
	}
	for i, l := range c.Listeners {
		if !validAddress(l.Address) {
			refuse("the listener %q is not IP:PORT, as in 127.0.0.1:8080", l.Address)
		}
		if slices.ContainsFunc(c.Listeners[:i], func(o Listener) bool { return o.Address == l.Address }) {
			refuse("there are two listeners at %s", l.Address)
		}
		n := slices.IndexFunc(t.Containers, func(c taskdef.Container) bool { return c.Name == l.Container })
		switch {
		case n < 0 && t.Family != "":
			refuse("the listener %s leads to the container %q, which %s does not have", l.Address, l.Container, t.Family)
		case n >= 0 && !publishes(t.Containers[n], l.Port):
			refuse("the listener %s leads to TCP port %d of the container %s, which does not publish it: add {\"containerPort\": %d} to its portMappings", l.Address, l.Port, l.Container, l.Port)
		}
	}
	return errs
}

// validAddress reports whether an address is IP:PORT or :PORT, with a port that stays.
func validAddress(address string) bool {
	if strings.HasPrefix(address, ":") {
		address = "0.0.0.0" + address
	}
	a, err := netip.ParseAddrPort(address)
	return err == nil && a.Port() > 0
}

// publishes reports whether a mapping of the container contains a TCP port.
func publishes(c taskdef.Container, port uint16) bool {
	return slices.ContainsFunc(c.Ports, func(p taskdef.Port) bool {
		return p.Protocol == "tcp" && port >= p.ContainerPort && int(port) < int(p.ContainerPort)+p.Count()
	})
}
