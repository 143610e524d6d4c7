package services

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/engine/act/admit"
	"github.com/podtask/podtask/internal/engine/act/preflight"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/network/routes"
	"github.com/podtask/podtask/internal/engine/run/fleet"
	"github.com/podtask/podtask/internal/engine/run/owner"
	"github.com/podtask/podtask/internal/forward/kept"
	"github.com/podtask/podtask/internal/ingress"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/service"
)

// Services keeps the services of an agent: one goroutine and one record each. What a
// service is to do pkg/service decides; tasks are the fleet's. Its methods may be used by
// any goroutine.
type Services struct {
	Config
	ctx  context.Context
	kept *kept.Store // listeners that outlive this process; nil: none do

	naming sync.Mutex // while names are checked and taken

	mu      sync.Mutex // guards the fields below
	ended   bool
	wg      sync.WaitGroup
	loops   map[string]*runner // by name
	waiting []*runner          // for Run to begin
}

// Config is what services need.
type Config struct {
	Log     *slog.Logger
	Store   *state.Store      // of the records of services
	Options lifecycle.Options // of every task
	// Override changes Options by keys of the configuration.
	Override func(lifecycle.Options, map[string]string) (lifecycle.Options, error)

	Tasks     *record.Tasks
	Events    *record.Events // gets how deployments go; nil: nobody learns it
	Ledger    *admit.Ledger
	Preflight *preflight.Checker
	Creator   *owner.Creator
	Fleet     *fleet.Fleet
	// Provide keeps a value in memory as that of the source env:NAME.
	Provide func(name string, value []byte)
	// Names learns the names of services.
	Names Names
	// Hooks answer the hooks and alarms of deployments; nil: each hook fails. ResolveHooks names
	// who answers those that are names of AWS, or says that there is nobody; nil leaves them as
	// they are.
	Hooks        Hooks
	ResolveHooks func(service.Method) (service.Method, error)
	// Routes are those of public addresses; nil: none is served.
	Routes *routes.Publisher
	// ReadSecret reads the users of public addresses from the source of a secret.
	ReadSecret func(ctx context.Context, source string) ([]byte, error)
	// HookSpec makes the task of a hook from FAMILY:REVISION of a registered definition; nil: hooks
	// that are tasks fail. It may be set before Run.
	HookSpec func(ctx context.Context, definition string) (service.Spec, error)
	// Await returns when a copy of a service may start, or with an error; nil: at once. It may be set before Run.
	Await func(ctx context.Context, service string) error
}

// Errors about services that users may make.
var (
	ErrNoService     = errors.New("no such service")
	ErrServiceExists = errors.New("there is a service of that name")
)

// ErrChanged is the error of a change that was made from an earlier state of the service: make it again.
var ErrChanged = errors.New("the service was changed meanwhile")

// MaxTries limits the number of tries of such a change.
const MaxTries = 100

// BadServiceError explains why a service cannot be run like this.
type BadServiceError struct{ Cause error }

func (e *BadServiceError) Error() string { return e.Cause.Error() }

func (e *BadServiceError) Unwrap() error { return e.Cause }

// Open returns the services that are recorded, which Run runs. It works until ctx,
// the fleet's context, ends. The error names records that cannot be read; the other
// services are returned all the same.
func Open(ctx context.Context, cfg Config) (*Services, error) {
	all := &Services{Config: cfg, ctx: ctx, loops: map[string]*runner{}}
	var errs []error
	for r, err := range cfg.Store.All(cfg.Tasks.Locks) {
		var s service.State
		if err == nil {
			if err = json.Unmarshal(r.Data, &s); err == nil {
				err = service.Check(s)
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("service record %s: %w", r.Key, err))
			continue
		}
		for _, d := range s.Deployments { // before the fleet takes a task that was killed on its way
			all.provide(d.Spec)
		}
		l := newRunner(all, s)
		all.loops[s.Name] = l
		all.waiting = append(all.waiting, l)
	}
	if cfg.Routes != nil && len(errs) == 0 { // a service whose record is damaged keeps its routes
		errs = append(errs, cfg.Routes.Keep(slices.Collect(maps.Keys(all.loops))))
	}
	return all, errors.Join(errs...)
}

// Keep has the listeners of services outlive this process, and takes those that the one before has left. It is called
// before Run.
func (a *Services) Keep(k *kept.Store) {
	a.kept = k
	var addresses []string
	for _, l := range a.waiting {
		l.hearing.kept = k
	}
	for _, s := range a.States() {
		for _, c := range listenersOf(s.Config) {
			addresses = append(addresses, c.Address)
		}
	}
	k.Only(addresses)
}

// Run carries the services on until the context ends. Tasks run on.
func (a *Services) Run() {
	a.mu.Lock()
	for _, l := range a.waiting {
		a.wg.Go(l.run)
	}
	a.waiting = nil
	if a.Routes != nil {
		a.wg.Go(func() {
			if err := a.Routes.Run(a.ctx, a.lookAtIngress, a.lookAtUse); err != nil && a.ctx.Err() == nil {
				a.Log.Error("the ingress proxy is not followed", "error", err)
			}
		})
	}
	a.mu.Unlock()
	<-a.ctx.Done()
	a.mu.Lock()
	a.ended = true // nothing is added to the wait group from now on
	a.mu.Unlock()
	a.wg.Wait()
}

// States are all services, by name.
func (a *Services) States() []service.State {
	a.mu.Lock()
	defer a.mu.Unlock()
	states := make([]service.State, 0, len(a.loops))
	for _, name := range slices.Sorted(maps.Keys(a.loops)) {
		states = append(states, a.loops[name].loop.State())
	}
	return states
}

// Traffic returns what was counted of the connections to all listeners, by service and address.
func (a *Services) Traffic() (all []Traffic) {
	a.mu.Lock()
	loops := slices.SortedFunc(maps.Values(a.loops), func(l, m *runner) int { return strings.Compare(l.name, m.name) })
	a.mu.Unlock()
	for _, l := range loops {
		all = append(all, l.hearing.traffic(l.name)...)
	}
	if a.Routes != nil {
		ctx, cancel := context.WithTimeout(a.ctx, trafficTime)
		defer cancel()
		if status, err := a.Routes.Ask(ctx); err == nil && status != nil {
			addProxied(all, status.Listeners)
		}
	}
	return all
}

// trafficTime limits the time that the ingress proxy may take to say what it has counted.
const trafficTime = 2 * time.Second

// addProxied adds the connections that the ingress proxy has forwarded.
func addProxied(all []Traffic, listeners []ingress.Listener) {
	for _, p := range listeners {
		i := slices.IndexFunc(all, func(t Traffic) bool { return t.Service == p.Service && t.Address == p.Address })
		if i < 0 {
			continue
		}
		for set, n := range p.Forwarded {
			all[i].Forwarded[set] += n
		}
		all[i].Refused += p.Refused
		all[i].Quiet += p.Quiet
	}
}

// Stuck names the services whose loops have been busy for longer than limit.
func (a *Services) Stuck(limit time.Duration) (names []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	for name, l := range a.loops {
		if l.loop.Busy(now) > limit {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// State is a service as it was last saved.
func (a *Services) State(name string) (service.State, error) {
	l, err := a.find(name)
	if err != nil {
		return service.State{}, err
	}
	return l.loop.State(), nil
}

func (a *Services) find(name string) (*runner, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.loops[name]
	if l == nil {
		return nil, fmt.Errorf("%w: %q; `podtask service ls` lists them", ErrNoService, name)
	}
	return l, nil
}

// Create makes a service. What keeps it from being run like this is a *BadServiceError.
func (a *Services) Create(ctx context.Context, name string, spec service.Spec, count int, c service.Config) (service.State, error) {
	c.Names = c.Names.Resolve(spec.Task)
	a.naming.Lock()
	defer a.naming.Unlock()
	if err := a.check(ctx, name, spec, count, c); err != nil {
		return service.State{}, err
	}
	if err := a.checkHookTasks(ctx, c.Method); err != nil {
		return service.State{}, err
	}
	if a.ResolveHooks != nil {
		var err error
		if c.Method, err = a.ResolveHooks(c.Method); err != nil {
			return service.State{}, &BadServiceError{err}
		}
	}
	s := service.New(record.NewID(), name, spec, count, c, time.Now().UTC())
	data, err := json.Marshal(s)
	if err != nil {
		return s, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.loops[name] != nil {
		return s, fmt.Errorf("%w: %s; `podtask service update %s` changes it", ErrServiceExists, name, name)
	}
	if a.ended || a.ctx.Err() != nil {
		return s, fleet.ErrEnding
	}
	if err := a.Store.Put(s.ID, data); err != nil {
		return s, err
	}
	l := newRunner(a, s)
	a.loops[name] = l
	a.wg.Go(l.run)
	return s, nil
}

// check finds out whether a service can be run, here too.
func (a *Services) check(ctx context.Context, name string, spec service.Spec, count int, c service.Config) error {
	err := errors.Join(service.Validate(name, spec, count, c), a.checkListeners(name, service.Config{}, c), a.checkIngress(name, spec, c), a.checkNames(name, spec.Task, c.Names))
	if err == nil && spec.Task.Family != "" {
		a.provide(spec)
		err = a.preflight(ctx, spec)
	}
	if err != nil {
		return &BadServiceError{err}
	}
	return nil
}

// preflight finds out whether a task of a service can run here.
func (c Config) preflight(ctx context.Context, spec service.Spec) error {
	options, err := c.OptionsOf(spec)
	if err != nil {
		return err
	}
	var errs []error
	for _, task := range spec.Tasks() {
		errs = append(errs, c.Preflight.Check(ctx, task, options))
	}
	return errors.Join(errs...)
}

// provide keeps the files of a deployment for tasks to come.
func (c Config) provide(spec service.Spec) {
	for name, content := range spec.Files {
		c.Provide(name, content)
	}
}

// OptionsOf returns the options of the tasks of a deployment. The error is about an option that cannot be read.
func (c Config) OptionsOf(spec service.Spec) (lifecycle.Options, error) {
	if len(spec.Options) == 0 {
		return c.Options, nil
	}
	return c.Override(c.Options, spec.Options)
}

// Change is what a user wants to be different; nil leaves things as they are.
type Change struct {
	// From is the state that the change was made from; nil: it is none that depends on one. If the service has another primary
	// deployment or configuration by then, the error is ErrChanged.
	From         *service.State
	DesiredCount *int
	Spec         *service.Spec
	// Grown is the present definition with other numbered copies behind those that it has.
	Grown *service.Spec
	// Config makes the new configuration of the present one.
	Config func(service.Config) service.Config
	// Force begins a new deployment with the definition there is.
	Force bool
	// Notes become events.
	Notes []string
}

// Update changes a service and returns it when the change is saved.
func (a *Services) Update(ctx context.Context, name string, c Change) (service.State, error) {
	if c.Spec != nil {
		a.provide(*c.Spec)
		if err := a.preflight(ctx, *c.Spec); err != nil {
			return service.State{}, &BadServiceError{err}
		}
	}
	if c.Config != nil || c.Spec != nil {
		a.naming.Lock()
		defer a.naming.Unlock()
		if now, err := a.checkChangedNames(name, c); err != nil {
			return now, err
		}
	}
	if c.Config != nil {
		now, err := a.State(name)
		if err != nil {
			return now, err
		}
		if err := a.checkListeners(name, now.Config, c.Config(now.Config)); err != nil {
			return now, &BadServiceError{err}
		}
		if err := a.resolve(ctx, now.Config, &c); err != nil {
			return now, err
		}
	}
	return a.Ask(ctx, name, func(s service.State) (service.Input, error) {
		if s.Status != service.Active {
			return nil, &BadServiceError{fmt.Errorf("service %s is being removed", name)}
		}
		if c.From != nil && (s.Primary().ID != c.From.Primary().ID || !reflect.DeepEqual(s.Config, c.From.Config)) {
			return nil, ErrChanged
		}
		in := service.Updated{DesiredCount: c.DesiredCount, Spec: c.Spec, Grown: c.Grown, Notes: c.Notes}
		count, spec, config := s.DesiredCount, s.Primary().Spec, s.Config
		if c.DesiredCount != nil {
			count = *c.DesiredCount
		}
		if c.Force && c.Spec == nil {
			in.Spec = &spec
		}
		if c.Spec != nil {
			spec = *c.Spec
		} else if c.Grown != nil {
			spec = *c.Grown
		}
		if c.Config != nil {
			config = c.Config(config)
			config.Names = config.Names.Resolve(spec.Task)
			in.Config = &config
			if config.Names.Namespace != s.Config.Names.Namespace && in.Spec == nil { // copies stay in the namespace that they began in
				in.Spec = &spec
			}
		}
		if err := errors.Join(service.Validate(name, spec, count, config), a.checkIngress(name, spec, config)); err != nil {
			return nil, &BadServiceError{err}
		}
		return in, nil
	})
}

// Rollback returns a service to the deployment that was completed before: at once, or with the steps, hooks and waits of
// its strategy if gradual.
func (a *Services) Rollback(ctx context.Context, name string, gradual bool) (service.State, error) {
	return a.Ask(ctx, name, func(s service.State) (service.Input, error) {
		if _, ok := s.RollbackTarget(); !ok || s.Status != service.Active {
			return nil, &BadServiceError{fmt.Errorf("service %s has no earlier deployment that was completed: nothing to return to", name)}
		}
		return service.RollbackRequested{Gradual: gradual}, nil
	})
}

// Continue decides about the pause of a deployment: it continues, or with rollback it is given up. An
// empty hook stands for the only one.
func (a *Services) Continue(ctx context.Context, name, hook string, rollback bool) (service.State, error) {
	return a.Ask(ctx, name, func(s service.State) (service.Input, error) {
		id, err := s.Pause(hook)
		if err != nil {
			return nil, &BadServiceError{err}
		}
		return service.ContinueRequested{ID: id, Rollback: rollback}, nil
	})
}

// Wake wakes a service that sleeps; by names the one who asks. It does nothing to one that is awake.
func (a *Services) Wake(ctx context.Context, name, by string) (service.State, error) {
	return a.Ask(ctx, name, func(service.State) (service.Input, error) { return service.WakeRequested{By: by}, nil })
}

// Remove has a service removed when its tasks are. Without force it must be scaled to 0.
func (a *Services) Remove(ctx context.Context, name string, force bool) (service.State, error) {
	return a.Ask(ctx, name, func(s service.State) (service.Input, error) {
		if !force && (s.DesiredCount > 0 || s.Count("").Present > 0) && s.Status == service.Active {
			return nil, &BadServiceError{fmt.Errorf("service %s is not scaled down to 0: `podtask service scale %s=0` first, or `podtask service rm --force %s`", name, name, name)}
		}
		return service.DeleteRequested{}, nil
	})
}

// Ask has a service take in what request makes of its state, or refuses.
func (a *Services) Ask(ctx context.Context, name string, request func(service.State) (service.Input, error)) (service.State, error) {
	l, err := a.find(name)
	if err != nil {
		return service.State{}, err
	}
	return l.ask(ctx, request)
}

// Watch calls fn with a service now and after each change, leaving out some when they
// come fast, until fn returns false, ctx ends (its cause is returned) or the service is
// gone or the agent ends (nil).
func (a *Services) Watch(ctx context.Context, name string, fn func(service.State) bool) error {
	l, err := a.find(name)
	if err != nil {
		return err
	}
	return l.loop.Watch(ctx, fn)
}

// forget drops a service of which nothing is left.
func (a *Services) forget(s service.State) error {
	if a.Routes != nil {
		if _, err := a.Routes.Set(s.Name, nil); err != nil {
			return err
		}
	}
	if err := a.Store.Delete(s.ID); err != nil {
		return fmt.Errorf("delete the record of service %s: %w", s.Name, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.loops, s.Name)
	return nil
}
