package services

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/podtask/podtask/internal/engine/network/routes"
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
	l.certificates.forget(s.Primary().ID)
	list := make([]routefile.Route, 0, len(addresses))
	for _, i := range addresses {
		r := routefile.Route{Service: s.Name, Ingress: i, Sleep: sleepOf(s)}
		if i.CertificateFromSecret() {
			l.certify(&r)
		}
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
		listeners = append(l.listenersFor(s, s.Config.Listeners, s.Groups(false)), l.listenersFor(s, s.Config.TestListeners, s.Groups(true))...)
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
		if u := l.secretProblem(i); u.Problem != "" {
			not = append(not, u)
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
func (l *runner) listenersFor(s service.State, all []service.Listener, groups []service.Group) (list []routefile.Listener) {
	for _, c := range all {
		one := routefile.Listener{Service: l.name, Address: c.Address, ProxyProtocol: c.ProxyProtocol, Sleep: sleepOf(s)}
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

// sleepOf returns the sleep of a service in the form that the ingress proxy reads.
func sleepOf(s service.State) (sleep routefile.Sleep) {
	if c := s.Sleep(); c.Sleeps() {
		sleep = routefile.Sleep{After: c.After, Hold: c.Held()}
	}
	return sleep
}

// onceRead has what was made of the secrets that a service's addresses name. They are read once for a deployment.
type onceRead[T any] struct {
	mu         sync.Mutex
	deployment string
	made       map[string]made[T] // by what names the secret
}

// made is what was made of a secret.
type made[T any] struct {
	value T
	err   error
}

// forget has the secrets read again for another deployment.
func (o *onceRead[T]) forget(deployment string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.deployment != deployment {
		o.deployment, o.made = deployment, map[string]made[T]{}
	}
}

// err explains why a secret could not be used; nil if it could, or if it is read just now.
func (o *onceRead[T]) err(name string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.made[name].err
}

// of returns what was made of a secret; the zero value while it is read, or if it cannot be. What it is for is part of
// the name of the job that reads.
func (o *onceRead[T]) of(l *runner, what, name string, read func(context.Context) (T, error)) T {
	o.mu.Lock()
	defer o.mu.Unlock()
	known, begun := o.made[name]
	if begun {
		return known.value
	}
	o.made[name] = made[T]{}
	deployment := o.deployment
	l.tells.Start(l.all.ctx, fmt.Sprintf("%s of %s for %s", what, name, deployment), func(ctx context.Context) {
		value, err := read(ctx)
		o.mu.Lock()
		if o.deployment == deployment {
			o.made[name] = made[T]{value, err}
		}
		o.mu.Unlock()
		l.send(ctx, service.TimerFired{})
	})
	return known.value
}

// secretProblem explains why the secrets of an address are not used. It has no text if they are.
func (l *runner) secretProblem(i taskdef.Ingress) service.Unheard {
	const again = "; `podtask service update --force` reads it again"
	if err := l.users.err(i.Auth); err != nil {
		return service.Unheard{Address: i.URL, Problem: fmt.Sprintf("its users cannot be read: %v"+again, err)}
	}
	if err := l.certificates.err(certificateName(i)); err != nil {
		problem := fmt.Sprintf("its certificate is not used: %v"+again, err)
		return service.Unheard{Address: i.URL, Problem: problem, Certificate: true, Served: l.all.Routes.Usable(i)}
	}
	return service.Unheard{}
}

// usersOf returns the users of an address; nil while they are read, or if they cannot be.
func (l *runner) usersOf(i taskdef.Ingress) []routefile.User {
	return l.users.of(l, "users", i.Auth, func(ctx context.Context) ([]routefile.User, error) {
		secret, err := l.all.ReadSecret(ctx, i.Auth)
		if err != nil {
			return nil, err
		}
		defer clear(secret)
		return routes.Users(secret)
	})
}

// certificateName names the certificate of an address: the same secret may fit one host and not another.
func certificateName(i taskdef.Ingress) string {
	return strings.Join([]string{i.URL, i.Certificate, i.CertificateKey}, " ")
}

// certify has the route of an address whose certificate is a secret name the file of the certificate. While it is read, and
// if it cannot be used, the address keeps the one that it had.
func (l *runner) certify(r *routefile.Route) {
	i := r.Ingress
	address, err := taskdef.ParseAddress(i.URL)
	if err != nil {
		return // Set says so
	}
	file := l.all.Routes.CertificateFile(l.name, address.Host, i)
	stored := l.certificates.of(l, "certificate", certificateName(i), func(ctx context.Context) (bool, error) {
		err := l.storeCertificate(ctx, file, address.Host, i)
		return err == nil, err
	})
	r.Certificate, r.CertificateKey, r.CertificateSource = file, file, i.Certificate
	if !stored {
		if chain, key, source, had := l.all.Routes.Certificate(l.name, i); had {
			r.Certificate, r.CertificateKey, r.CertificateSource = chain, key, source
		}
	}
}

func (l *runner) storeCertificate(ctx context.Context, file, host string, i taskdef.Ingress) error {
	chain, err := l.all.ReadSecret(ctx, i.Certificate)
	if err != nil {
		return err
	}
	key, err := l.all.ReadSecret(ctx, i.CertificateKey)
	if err != nil {
		return err
	}
	defer clear(key)
	if problem := taskdef.CheckCertificate(chain, key, host); problem != "" {
		return fmt.Errorf("%s: %s", i.Certificate, problem)
	}
	return l.all.Routes.StoreCertificate(file, chain, key)
}

// drainIngress waits until the ingress proxy has no request to a copy any more.
func (l *runner) drainIngress(ctx context.Context, s service.State, id string) {
	if l.all.Routes != nil && len(s.Ingress())+len(listenersOf(s.Config)) > 0 && !l.all.Routes.Drain(ctx, id) && !errors.Is(ctx.Err(), context.Canceled) {
		l.all.Log.Warn("requests and connections are cut: a copy that is to stop still had them when its time to drain was over", "service", s.Name, "task", id)
	}
}

// lookAtIngress has the services that have addresses look at what the ingress proxy says.
func (a *Services) lookAtIngress() {
	a.mu.Lock()
	loops := slices.Collect(maps.Values(a.loops))
	a.mu.Unlock()
	for _, l := range loops {
		l.sleeper.again()
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
