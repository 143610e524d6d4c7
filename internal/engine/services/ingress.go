package services

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/podtask/podtask/internal/engine/routes"
	"github.com/podtask/podtask/internal/ingress/routefile"
	"github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/pkg/taskdef"
)

// publish hands the routes to a service's copies in rotation to the ingress proxy, and returns the
// addresses that are not served.
func (l *runner) publish(s service.State) (not []service.Unheard) {
	addresses := s.Ingress()
	if l.all.Routes == nil {
		return nil
	}
	if s.Gone() {
		addresses = nil
	}
	l.users.forget(s.Primary().ID)
	list := make([]routefile.Route, 0, len(addresses))
	for _, i := range addresses {
		r := routefile.Route{Service: s.Name, Ingress: i}
		if i.Auth != "" {
			if r.Users = l.usersOf(i); r.Users == nil {
				r.Users = l.all.Routes.Users(s.Name, i)
			}
		}
		for _, g := range s.Groups(false) {
			group := routefile.Group{Deployment: g.Deployment, Weight: int(g.Weight)}
			for _, t := range l.hearing.where(g.Copies, i.Container, i.Port) {
				group.Targets = append(group.Targets, routefile.Target{ID: t.ID, Address: t.Address})
			}
			r.Groups = append(r.Groups, group)
		}
		list = append(list, r)
	}
	var listeners []routefile.Listener
	if !s.Gone() {
		listeners = append(l.listenersFor(s.Config.Listeners, s.Groups(false)), l.listenersFor(s.Config.TestListeners, s.Groups(true))...)
	}
	refused, err := l.all.Routes.Set(s.Name, list, listeners...)
	if err != nil {
		if len(addresses) == 0 { // the agent itself listens
			l.all.Log.Error("the ingress proxy does not learn of listeners", "service", s.Name, "error", err)
		}
		for _, i := range addresses {
			not = append(not, service.Unheard{Address: i.URL, Problem: err.Error()})
		}
		return not
	}
	not = refused
	for _, i := range addresses {
		if problem := l.users.problem(i.Auth); problem != "" {
			not = append(not, service.Unheard{Address: i.URL, Problem: problem})
		}
	}
	for _, u := range l.all.Routes.Problems(addresses) {
		if !slices.ContainsFunc(not, func(o service.Unheard) bool { return o.Address == u.Address }) {
			not = append(not, u)
		}
	}
	return not
}

// listenersFor are listeners with groups of copies, as the ingress proxy reads them.
func (l *runner) listenersFor(all []service.Listener, groups []service.Group) (list []routefile.Listener) {
	for _, c := range all {
		one := routefile.Listener{Service: l.name, Address: c.Address, ProxyProtocol: c.ProxyProtocol}
		for _, g := range groups {
			group := routefile.Group{Deployment: g.Deployment, Weight: int(g.Weight)}
			for _, t := range l.hearing.where(g.Copies, c.Container, c.Port) {
				group.Targets = append(group.Targets, routefile.Target{ID: t.ID, Address: t.Address})
			}
			one.Groups = append(one.Groups, group)
		}
		list = append(list, one)
	}
	return list
}

// users are those of the secrets that a service's addresses name, read once for a deployment.
type users struct {
	mu         sync.Mutex
	deployment string
	read       map[string]usersRead // by source
}

// usersRead is what a source had.
type usersRead struct {
	users []routefile.User
	err   error
}

// forget has the secrets read again for another deployment.
func (u *users) forget(deployment string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.deployment != deployment {
		u.deployment, u.read = deployment, map[string]usersRead{}
	}
}

// problem is why nobody may send requests that a secret protects; "" if somebody may.
func (u *users) problem(source string) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.read[source].err; err != nil {
		return fmt.Sprintf("its users cannot be read: %v; `podtask service update --force` reads them again", err)
	}
	return ""
}

// usersOf returns the users of an address; nil while they are read, or if they cannot be.
func (l *runner) usersOf(i taskdef.Ingress) []routefile.User {
	l.users.mu.Lock()
	defer l.users.mu.Unlock()
	known, begun := l.users.read[i.Auth]
	if begun {
		return known.users
	}
	l.users.read[i.Auth] = usersRead{}
	deployment := l.users.deployment
	l.tells.Start(l.all.ctx, "users of "+i.Auth, func(ctx context.Context) {
		var r usersRead
		secret, err := l.all.ReadSecret(ctx, i.Auth)
		if err == nil {
			r.users, err = routes.Users(secret)
			clear(secret)
		}
		r.err = err
		l.users.mu.Lock()
		if l.users.deployment == deployment {
			l.users.read[i.Auth] = r
		}
		l.users.mu.Unlock()
		l.send(ctx, service.TimerFired{})
	})
	return nil
}

// drainIngress waits until the ingress proxy has no request to a copy any more.
func (l *runner) drainIngress(ctx context.Context, s service.State, id string) {
	if l.all.Routes != nil && len(s.Ingress())+len(listenersOf(s.Config)) > 0 && !l.all.Routes.Drain(ctx, id) {
		l.all.Log.Warn("requests and connections are cut: a copy that is to stop still had them when its time to drain was over", "service", s.Name, "task", id)
	}
}

// lookAtIngress has the services that have addresses look at what the ingress proxy says.
func (a *Services) lookAtIngress() {
	a.mu.Lock()
	loops := slices.Collect(maps.Values(a.loops))
	a.mu.Unlock()
	for _, l := range loops {
		if s := l.loop.State(); len(s.Ingress())+len(listenersOf(s.Config)) > 0 {
			l.send(a.ctx, service.TimerFired{})
		}
	}
}

// checkIngress returns why a service cannot have its public addresses: another one has them.
func (a *Services) checkIngress(name string, spec service.Spec, c service.Config) error {
	mine := spec.Task.Extensions.Ingress
	if c.Ingress != nil {
		mine = *c.Ingress
	}
	if len(mine) > 0 && a.Routes == nil {
		return errors.New("this agent serves no public addresses")
	}
	var errs []error
	for _, i := range mine {
		address, err := taskdef.ParseAddress(i.URL)
		if err != nil {
			continue // Validate says so
		}
		if other := a.hasAddress(name, address); other != "" {
			errs = append(errs, fmt.Errorf("service %s has %s already", other, address))
		}
	}
	return errors.Join(errs...)
}

// hasAddress names another service with a public address; "" if there is none.
func (a *Services) hasAddress(name string, address taskdef.Address) string {
	for _, s := range a.States() {
		if s.Name != name && slices.ContainsFunc(s.Ingress(), func(i taskdef.Ingress) bool {
			other, err := taskdef.ParseAddress(i.URL)
			return err == nil && other == address
		}) {
			return s.Name
		}
	}
	return ""
}
