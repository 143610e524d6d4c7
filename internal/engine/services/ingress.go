package services

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

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
	routes := make([]routefile.Route, 0, len(addresses))
	for _, i := range addresses {
		r := routefile.Route{Service: s.Name, Ingress: i}
		for _, g := range s.Groups(false) {
			group := routefile.Group{Deployment: g.Deployment, Weight: int(g.Weight)}
			for _, t := range l.hearing.where(g.Copies, i.Container, i.Port) {
				group.Targets = append(group.Targets, routefile.Target{ID: t.ID, Address: t.Address})
			}
			r.Groups = append(r.Groups, group)
		}
		routes = append(routes, r)
	}
	refused, err := l.all.Routes.Set(s.Name, routes)
	if err != nil {
		for _, i := range addresses {
			not = append(not, service.Unheard{Address: i.URL, Problem: err.Error()})
		}
		return not
	}
	not = refused
	for _, u := range l.all.Routes.Problems(addresses) {
		if !slices.ContainsFunc(not, func(o service.Unheard) bool { return o.Address == u.Address }) {
			not = append(not, u)
		}
	}
	return not
}

// drainIngress waits until the ingress proxy has no request to a copy any more.
func (l *runner) drainIngress(ctx context.Context, s service.State, id string) {
	if l.all.Routes != nil && len(s.Ingress()) > 0 && !l.all.Routes.Drain(ctx, id) {
		l.all.Log.Warn("requests are cut: a copy that is to stop still had them when its time to drain was over", "service", s.Name, "task", id)
	}
}

// lookAtIngress has the services that have public addresses look at what the ingress proxy says.
func (a *Services) lookAtIngress() {
	a.mu.Lock()
	loops := slices.Collect(maps.Values(a.loops))
	a.mu.Unlock()
	for _, l := range loops {
		if len(l.loop.State().Ingress()) > 0 {
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
