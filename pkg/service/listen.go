package service

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
)

// DefaultDrainTimeout is the time in which a copy that is to stop may finish its connections.
const DefaultDrainTimeout = 30 * time.Second

// Listener is an address of the service. Connections to it are forwarded to the copies in
// Rotation.
type Listener struct {
	// Address is IP:PORT of the host; without an IP address, it stands for all.
	Address string `json:"address"`
	// Container and Port are where in a copy connections go. The copies publish the port.
	Container string `json:"container"`
	Port      uint16 `json:"port"`
	// ProxyProtocol: each connection begins with a header of the PROXY protocol, version 1, which has the
	// client's address.
	ProxyProtocol bool `json:"proxyProtocol,omitempty"`
}

// Unheard is a listener that could not be opened, or a public address that is not served, and why.
type Unheard struct {
	// Address is that of the listener, or the URL.
	Address string `json:"address"`
	Problem string `json:"problem"`
	// Certificate: a certificate of the address could not be obtained, renewed or used. Events tell that.
	Certificate bool `json:"certificate,omitempty"`
	// Pending: nothing is wrong, and it is served soon.
	Pending bool `json:"pending,omitempty"`
	// Served: the address is served all the same, by a certificate that has not ended.
	Served bool `json:"served,omitempty"`
}

// Down reports whether the address is not served, for a reason that does not pass by itself.
func (u Unheard) Down() bool { return u.Problem != "" && !u.Pending && !u.Served }

// hear notes which addresses are not served.
func (s *State) hear(at time.Time, not []Unheard) {
	for _, u := range not {
		if u.Certificate && !hasTrouble(s.Unheard, u.Address) {
			s.say(at, "has a problem with the certificate of %s: %s", u.Address, u.Problem)
		}
	}
	for _, u := range s.Unheard {
		if u.Certificate && !hasTrouble(not, u.Address) {
			s.say(at, "has no problem with the certificate of %s any more.", u.Address)
		}
	}
	s.Unheard = not
}

// hasTrouble reports whether an address has a problem with its certificate, or is not served at all.
func hasTrouble(all []Unheard, address string) bool {
	return slices.ContainsFunc(all, func(u Unheard) bool { return u.Address == address })
}

// Ingress are the public addresses of the service: those of its configuration, else of its primary deployment.
func (s State) Ingress() []taskdef.Ingress {
	if s.Config.Ingress != nil {
		return *s.Config.Ingress
	}
	return s.Primary().Task.Extensions.Ingress
}

// checkIngress returns what is wrong with the public addresses of a service.
func checkIngress(t taskdef.Task, c Config) (errs []error) {
	if c.Ingress == nil {
		return nil // the task was checked when it was read
	}
	var seen []taskdef.Address
	for _, i := range *c.Ingress {
		for _, p := range i.Check() {
			errs = append(errs, errors.New(p.Text))
		}
		if problem := i.CheckTarget(t); problem != "" && t.Family != "" {
			errs = append(errs, errors.New(problem))
		}
		if a, err := taskdef.ParseAddress(i.URL); err == nil {
			if slices.Contains(seen, a) {
				errs = append(errs, fmt.Errorf("there are two ingresses at %s", a))
			}
			seen = append(seen, a)
		}
	}
	return errs
}

// Drain returns the limit of the time in which a copy that is to stop finishes its
// connections.
func (c Config) Drain() time.Duration { return cmp.Or(c.DrainTimeout, DefaultDrainTimeout) }

// Rotation are the ids of the copies to which connections are forwarded, of the listeners or the test
// listeners.
func (s State) Rotation() (ids []string) {
	for _, g := range slices.Concat(s.Groups(false), s.Groups(true)) {
		for _, id := range g.Copies {
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// Groups are the copies to which connections to the listeners are forwarded, with test to the test
// listeners, by revision, and the part of the connections that each gets: the copies that are healthy and
// are not to stop. If there is none, it is those that run and have no health check, which are healthy a
// little later. A revision without a copy is left out: blue has green's part then, and green has blue's
// unless its own is nothing.
func (s State) Groups(test bool) []Group {
	groups := s.groups(test, Task.Healthy)
	if len(groups) == 0 {
		groups = s.groups(test, func(t Task) bool { return t.Phase == Live && t.Seen.Running && t.Seen.Health == Unchecked })
	}
	return groups
}

func (s State) groups(test bool, fit func(Task) bool) []Group {
	a := s.shift()
	if a == nil {
		if ids := copies(s, fit); len(ids) > 0 {
			return []Group{{Deployment: s.Primary().ID, Weight: Whole, Copies: ids}}
		}
		return nil
	}
	p := a.Progress
	green := Group{Deployment: p.Green, Weight: p.Weight, Copies: copies(s, func(t Task) bool { return t.Deployment == p.Green && fit(t) })}
	if test {
		green.Weight = p.TestWeight
	}
	blue := Group{Deployment: p.Blue, Weight: Whole - green.Weight, Copies: copies(s, func(t Task) bool { return s.isOld(p, t) && fit(t) })}
	switch {
	case len(blue.Copies) > 0 && (len(green.Copies) == 0 || green.Weight == 0):
		blue.Weight = Whole
		return []Group{blue}
	case len(green.Copies) == 0 || green.Weight == 0:
		return nil
	case len(blue.Copies) == 0 || green.Weight == Whole:
		green.Weight = Whole
		return []Group{green}
	}
	return []Group{blue, green}
}

// isOld reports whether a copy has a part of the connections that are not green's: it is of blue, or of
// another revision, until there are enough of blue.
func (s State) isOld(p *Progress, t Task) bool {
	return t.Deployment == p.Blue || t.Deployment != p.Green && s.gathers(p)
}

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
	return len(s.Config.Listeners)+len(s.Config.TestListeners)+len(s.Config.Names.Offered)+len(s.Ingress()) > 0 && t.Phase == Stopping && !t.Drained
}

// checkListeners returns what is wrong with the listeners of a service.
func checkListeners(t taskdef.Task, c Config) (errs []error) {
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if d := c.DrainTimeout; d < 0 || d > time.Hour {
		refuse("the drain timeout is up to 1 h, not %s", d)
	}
	all := slices.Concat(c.Listeners, c.TestListeners)
	for i, l := range all {
		if !validAddress(l.Address) {
			refuse("the listener %q is not IP:PORT, as in 127.0.0.1:8080", l.Address)
		}
		if slices.ContainsFunc(all[:i], func(o Listener) bool { return o.Address == l.Address }) {
			refuse("there are two listeners at %s", l.Address)
		}
		n := slices.IndexFunc(t.Containers, func(c taskdef.Container) bool { return c.Name == l.Container })
		switch {
		case n < 0 && t.Family != "":
			refuse("the listener %s leads to the container %q, which %s does not have", l.Address, l.Container, t.Family)
		case n >= 0 && !t.Containers[n].Publishes(l.Port):
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
