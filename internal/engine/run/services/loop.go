package services

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/podtask/podtask/internal/engine/decide/driver"
	"github.com/podtask/podtask/internal/engine/decide/loop"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/run/fleet"
	"github.com/podtask/podtask/internal/engine/run/owner"
	"github.com/podtask/podtask/internal/ingress/routefile"
	"github.com/podtask/podtask/internal/sleep"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/service"
	"github.com/podtask/podtask/pkg/transient"
)

// runner runs one service, as an Owner runs a task.
type runner struct {
	all  *Services
	id   string
	name string
	loop *loop.Loop[service.State, driver.Message, driver.ServiceDecision]
	// over is closed when run has returned.
	over chan struct{}

	// The rest belongs to run.
	driver  *driver.Service
	effects loop.Jobs[service.Effect]
	calls   calls
	watches loop.Jobs[string] // by id of the task
	hearing *listeners
	sleeper *sleeper
	tells   loop.Jobs[string] // what is told and tried again about listeners
	users   onceRead[[]routefile.User]
	// certificates: whether those of secrets are in their files.
	certificates onceRead[bool]
	unproven     bool   // the latest write may or may not be in the record
	reported     report // zero: that is not known
}

func newRunner(a *Services, s service.State) *runner {
	sleeps := newSleeper()
	l := &runner{
		all: a, id: s.ID, name: s.Name, over: make(chan struct{}), driver: driver.NewService(s),
		hearing: &listeners{log: a.Log.With("service", s.Name), tasks: a.Tasks, service: s.Name, names: a.Names, kept: a.kept, use: sleeps.use},
		sleeper: sleeps,
		loop:    loop.New[service.State, driver.Message, driver.ServiceDecision](s),
	}
	if a.Routes != nil {
		l.hearing.proxied = func(address string) bool { return a.Routes.Listens(l.name, address) }
		l.hearing.awaited = func(address string) bool { return a.Routes.Awaits(l.name, address) }
		l.hearing.pass = func(address string, socket *net.TCPListener) error { return a.Routes.Pass(a.ctx, address, socket) }
		l.hearing.take = func(address string) []net.Listener { return a.Routes.Take(a.ctx, address) }
	}
	l.hearing.Publish(s) // before the first task is created that is to reach them
	return l
}

// run drives the service until the context ends or nothing is left of it.
func (l *runner) run() {
	defer close(l.over)
	ctx, cancel := context.WithCancel(l.all.ctx)
	err := l.loop.Run(ctx, &clocked{Service: l.driver}, l, driver.Message{Input: service.TimerFired{}})
	if err != nil && ctx.Err() == nil {
		l.all.Log.Error("the service is not run any more", "service", l.name, "error", err)
	}
	cancel()
	if l.all.ctx.Err() == nil {
		l.hearing.forget()
	} else {
		l.hearing.settle()
	}
	l.hearing.Close()
	l.effects.Wait()
	l.calls.jobs.Wait()
	l.watches.Wait()
	l.tells.Wait()
}

// Save implements loop.Actor. A service waits until it can be recorded, whatever the
// reason.
func (l *runner) Save(record []byte) error {
	if l.unproven {
		if _, err := l.all.Store.Get(l.id); err != nil {
			l.all.Log.Debug("the record cannot be read", "service", l.name, "error", err)
		}
	}
	err := l.all.Store.Put(l.id, record)
	if l.unproven = err != nil; l.unproven {
		l.all.Log.Error("the service waits until it can be recorded", "service", l.name, "error", err)
		return transient.Mark(err)
	}
	return nil
}

// Publish implements loop.Actor. The events of a service are in its state; the event log of the host gets how its
// deployments go.
func (l *runner) Publish(ctx context.Context, d driver.ServiceDecision) {
	if l.all.Events == nil || len(d.State.History) == 0 {
		return
	}
	a := d.State.History[len(d.State.History)-1]
	if l.reported == reportOf(a) {
		return
	}
	if l.reported == (report{}) && l.all.Events.Reported(ctx, record.Deployment, l.name, a.Target.Deployment, string(a.Status)) {
		l.reported = reportOf(a) // by the agent before
		return
	}
	t := lifecycle.Transition{At: a.Times.UpdatedAt, Status: string(a.Status), Reason: a.Reason}
	if p := d.State.Primary(); a.Status == service.AttemptStopped && p.ID == a.Target.Deployment && p.Rollout == service.Failed {
		t.Status = record.DeploymentFailed
	}
	if err := l.all.Events.Report(ctx, record.Deployment, l.name, a.Target.Deployment, t); err != nil {
		l.all.Log.Warn("the event log lacks an event of a deployment", "service", l.name, "error", err)
		return // the next decision tries again
	}
	l.reported = reportOf(a)
}

// report is the latest event of a service in the event log.
type report struct {
	attempt int
	status  service.AttemptStatus
}

func reportOf(a service.Attempt) report { return report{a.Number, a.Status} }

// Act implements loop.Actor.
func (l *runner) Act(ctx context.Context, d driver.ServiceDecision) {
	l.followUse(ctx, d.State)
	l.hear(ctx, d.State) // a copy that is to stop is out of rotation before it is told
	l.calls.cancelEnded(d.State)
	for _, t := range d.State.Tasks { // its connections go on: it is not to stop any more
		if t.Phase == service.Live {
			l.effects.Cancel(service.DrainTask{ID: t.ID})
		}
	}
	for _, e := range d.Start {
		switch call := e.(type) {
		case service.CallHook:
			l.callHook(ctx, d.State, call)
		default:
			l.effects.Start(ctx, e, func(own context.Context) { l.send(ctx, l.do(own, d.State, e)) })
		}
	}
	for _, id := range d.Unwatch {
		l.watches.Cancel(id)
	}
	for _, id := range d.Watch {
		l.watches.Start(ctx, id, func(ctx context.Context) { l.watch(ctx, id) })
	}
	for _, a := range d.Answers {
		a.Reply(a.Err)
	}
}

// hear has the listeners follow a state. Those that cannot be opened are reported once and
// tried again.
func (l *runner) hear(ctx context.Context, s service.State) {
	not := l.hearing.Follow(s)
	closed := len(not)
	not = append(not, l.publish(s)...)
	if !slices.Equal(not, s.Unheard) {
		l.tells.Start(ctx, "report", func(ctx context.Context) { l.send(ctx, service.Heard{Not: not}) })
	}
	if closed == 0 { // the ingress proxy is followed
		return
	}
	l.tells.Start(ctx, "retry", func(ctx context.Context) {
		if sleep.For(ctx, listenPause) {
			l.send(ctx, service.TimerFired{})
		}
	})
}

// listenPause is between two attempts to open a listener.
const listenPause = 5 * time.Second

// Rest implements loop.Actor.
func (l *runner) Rest(d driver.ServiceDecision, arrived []driver.Message) ([]driver.Message, driver.End) {
	return l.driver.Rest(d, arrived)
}

// Finish implements loop.Actor. It forgets the service.
func (l *runner) Finish(ctx context.Context, d driver.ServiceDecision, _ driver.End) error {
	for {
		err := l.all.forget(d.State)
		if err == nil {
			return nil
		}
		l.all.Log.Error("the service is not removed yet", "service", l.name, "error", err)
		if !sleep.For(ctx, retryPause) {
			return ctx.Err()
		}
	}
}

// retryPause is between two attempts to do what may succeed later.
const retryPause = 2 * time.Second

func (l *runner) send(ctx context.Context, in service.Input) (taken bool) {
	return ctx.Err() == nil && l.loop.Send(ctx, driver.Message{Input: in})
}

// ask has the service take in what request makes of its state.
func (l *runner) ask(ctx context.Context, request func(service.State) (service.Input, error)) (service.State, error) {
	reply := make(chan error, 1)
	taken := l.loop.Send(ctx, driver.Message{Request: request, Reply: func(err error) { reply <- err }})
	if !taken && l.all.ctx.Err() != nil {
		return service.State{}, errors.Join(context.Cause(ctx), fleet.ErrEnding)
	}
	select {
	case err := <-reply:
		return l.loop.State(), err
	case <-l.over:
		return l.loop.State(), l.overErr()
	case <-ctx.Done():
		return service.State{}, context.Cause(ctx)
	}
}

// overErr returns the error for a request that was not taken in, because the agent ends or the service was just removed.
func (l *runner) overErr() error {
	if l.all.ctx.Err() != nil {
		return fleet.ErrEnding
	}
	return fmt.Errorf("%w: %q was just removed", ErrNoService, l.name)
}

func (l *runner) do(ctx context.Context, s service.State, e service.Effect) service.Input {
	done := func(id string, err error) service.Input {
		d := service.Done{ID: id}
		if err != nil {
			d.Refused = err.Error()
		}
		return d
	}
	gone := func(err error) bool { return errors.As(err, new(*record.NotFoundError)) }
	switch e := e.(type) {
	case service.StartTask:
		return done(e.ID, l.start(ctx, s, e.ID))
	case service.DrainTask:
		ctx, cancel := context.WithTimeout(ctx, s.Config.Drain())
		defer cancel()
		l.hearing.Drain(ctx, e.ID)
		l.drainIngress(ctx, s, e.ID)
		return service.Done{ID: e.ID}
	case service.StopTask:
		by := fmt.Sprintf("service %s: %s", s.Name, e.Cause)
		err := l.all.Fleet.Send(ctx, e.ID, lifecycle.StopRequested{By: by, Spare: e.Spare})
		if gone(err) {
			return service.Vanished{ID: e.ID}
		}
		return done(e.ID, err)
	case service.RemoveTask:
		err := l.remove(ctx, e.ID, "service "+s.Name)
		if gone(err) {
			err = nil
		}
		return done(e.ID, err)
	case service.CheckAlarms:
		return l.checkAlarms(ctx, s, e.Attempt)
	default:
		panic(fmt.Sprintf("agent: no service effect %T", e))
	}
}

// start creates a task unless it has a record already.
func (l *runner) start(ctx context.Context, s service.State, id string) error {
	if _, err := l.all.Tasks.Get(id); !errors.As(err, new(*record.NotFoundError)) {
		return err
	}
	if l.all.Await != nil {
		if err := l.all.Await(ctx, s.Name); err != nil {
			return err
		}
	}
	i := slices.IndexFunc(s.Tasks, func(t service.Task) bool { return t.ID == id })
	d, _ := s.Deployment(s.Tasks[i].Deployment)
	l.all.provide(d.Spec)
	options, err := l.all.OptionsOf(d.Spec)
	if err != nil {
		return err
	}
	options.Service, options.Deployment, options.Persistent = s.Name, d.ID, true
	options.Namespace = s.Config.Names.Namespace
	options.Cluster, options.Client = s.Config.Cluster, s.Config.TaskClient
	o, err := l.all.Creator.Launch(ctx, owner.Launch{ID: id, Task: d.Of(s.Tasks[i]), Name: s.TaskName(s.Tasks[i]), NameOptional: true, Options: options})
	if err != nil {
		return err
	}
	return l.all.Fleet.Take(ctx, o)
}

// remove returns when a task that has stopped is gone, with a *NotFoundError.
func (l *runner) remove(ctx context.Context, id, by string) error {
	if err := l.all.Fleet.Send(ctx, id, lifecycle.RemoveRequested{By: by}); err != nil {
		return err
	}
	if err := l.all.Fleet.Follow(ctx, id, func(lifecycle.State) bool { return true }); err != nil {
		return err
	}
	return errors.New("its removal failed; see `podtask why`")
}

// watch reports what becomes of a task.
func (l *runner) watch(ctx context.Context, id string) {
	var last service.Observation
	told := false
	for ctx.Err() == nil {
		err := l.all.Fleet.Follow(ctx, id, func(s lifecycle.State) bool {
			if seen := observation(s); !told || seen != last {
				told, last = true, seen
				return l.send(ctx, service.Seen{ID: id, Observation: seen})
			}
			return true
		})
		switch {
		case err == nil: // it has settled, and that was reported
			return
		case errors.As(err, new(*record.NotFoundError)):
			l.send(ctx, service.Vanished{ID: id})
			return
		case ctx.Err() == nil:
			l.all.Log.Warn("a service does not see its task", "task", id, "error", err)
		}
		sleep.For(ctx, retryPause)
	}
}

// observation is what a service sees of a task.
func observation(s lifecycle.State) service.Observation {
	o := service.Observation{
		Running: s.Status() == lifecycle.StatusRunning && s.Goal == lifecycle.Up,
		Stopped: s.Status() == lifecycle.StatusStopped,
		ByUser:  s.Stop.Code == lifecycle.StopUserInitiated,
		Reason:  s.Stop.Reason,
		Health:  healthOf(s),
		// A container may have ended, and Podman has not said yet.
		Unconfirmed: len(s.Running()) < len(s.MayRun()),
	}
	if s.Goal == lifecycle.Up {
		o.Protected = s.ProtectedUntil
	}
	if s.Queued() {
		o.Queue = s.Sandbox.Queue
	}
	if !o.Running {
		o.Failing = s.Failing()
	}
	o.Placed = s.Sandbox.Reservation == lifecycle.ReservationGranted
	for _, t := range s.History {
		if t.Container == "" && t.Status == lifecycle.StatusRunning.String() {
			o.Since = t.At
		}
	}
	return o
}

func healthOf(s lifecycle.State) service.Health {
	if !lifecycle.HasHealthCheck(s.Task) {
		return service.Unchecked
	}
	return service.Health(s.Health().String())
}
