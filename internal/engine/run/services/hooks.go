package services

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/podtask/podtask/internal/engine/decide/loop"
	"github.com/podtask/podtask/pkg/service"
)

// Hooks answer what deployments ask: programs and endpoints of this host. Its methods may be
// called concurrently, and return when nothing of the call runs any more.
type Hooks interface {
	// Call asks a hook. Failures are answers, with a reason.
	Call(ctx context.Context, s service.State, r service.HookRequest) service.HookAnswered
	// CheckAlarm asks whether an alarm is raised; an error means that it is not known.
	CheckAlarm(ctx context.Context, a service.Alarm) (raised bool, err error)
}

// calls are the calls of hooks of one service that are under way.
type calls struct {
	jobs loop.Jobs[string] // by id of the call

	mu      sync.Mutex
	ids     map[string]bool
	running map[string]chan struct{} // by name of the hook; a hook runs once at a time
}

// start makes a call of a hook, once no other call of that hook runs.
func (c *calls) start(ctx context.Context, id, hook string, call func(context.Context)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ids == nil {
		c.ids, c.running = make(map[string]bool), make(map[string]chan struct{})
	}
	c.ids[id] = true
	if c.running[hook] == nil {
		c.running[hook] = make(chan struct{}, 1)
	}
	turn := c.running[hook]
	c.jobs.Start(ctx, id, func(ctx context.Context) {
		select {
		case turn <- struct{}{}:
		case <-ctx.Done():
			return
		}
		defer func() { <-turn }()
		if ctx.Err() == nil {
			call(ctx)
		}
	})
}

// cancelEnded gives up the calls that are not open in a state any more.
func (c *calls) cancelEnded(s service.State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.ids {
		if _, open := s.HookRequest(id); !open {
			c.jobs.Cancel(id)
			delete(c.ids, id)
		}
	}
}

// callHook asks the hook of a call that is open.
func (l *runner) callHook(ctx context.Context, s service.State, e service.CallHook) {
	r, open := s.HookRequest(e.ID)
	if !open {
		return
	}
	l.calls.start(ctx, e.ID, r.Hook, func(ctx context.Context) {
		if r.Config.Target.Kind == service.HookTask {
			answer := l.callTask(ctx, s, r)
			l.send(ctx, answer)
			if answer.Status == service.HookSucceeded {
				<-ctx.Done() // the answer is recorded: until then, the task is what the next agent finds
				l.removeHookTask(s, hookTaskID(r.ID))
			}
			return
		}
		if l.all.Hooks == nil {
			l.send(ctx, service.HookAnswered{ID: e.ID, Number: e.Number, Status: service.HookFailed, Reason: "this agent calls no hooks"})
			return
		}
		l.send(ctx, l.all.Hooks.Call(ctx, s, r))
	})
}

// checkAlarms asks the alarms of an attempt, all at once.
func (l *runner) checkAlarms(ctx context.Context, s service.State, number int) service.AlarmsChecked {
	in := service.AlarmsChecked{Attempt: number}
	i := slices.IndexFunc(s.History, func(a service.Attempt) bool { return a.Number == number })
	if i < 0 || l.all.Hooks == nil {
		in.Problem = "this agent asks no alarms"
		return in
	}
	all := s.History[i].Method.Alarms.Alarms
	raised, problems := make([]bool, len(all)), make([]string, len(all))
	var group errgroup.Group
	for n, alarm := range all {
		group.Go(func() error {
			var err error
			if raised[n], err = l.all.Hooks.CheckAlarm(ctx, alarm); err != nil {
				problems[n] = alarm.Name + ": " + err.Error()
			}
			return nil
		})
	}
	_ = group.Wait() // problems has the errors
	for n, alarm := range all {
		if raised[n] {
			in.Raised = append(in.Raised, alarm.Name)
		}
	}
	if len(in.Raised) > 0 {
		return in
	}
	in.Problem = strings.Join(slices.DeleteFunc(problems, func(p string) bool { return p == "" }), "; ")
	return in
}

// resolve has a change name who answers the hooks and alarms of the new configuration. The table
// of references is asked if one of them is new, or a deployment begins: otherwise a change of the
// count would fail because an entry is gone.
func (a *Services) resolve(ctx context.Context, now service.Config, c *Change) error {
	if c.Config == nil {
		return nil
	}
	if next := c.Config(now).Method; !reflect.DeepEqual(next.Hooks, now.Method.Hooks) {
		if err := a.checkHookTasks(ctx, next); err != nil {
			return err
		}
	}
	if a.ResolveHooks == nil {
		return nil
	}
	change, answered := c.Config, now.Method
	if next := change(now).Method; c.Spec != nil || c.Force || !answers(now.Method, next) {
		var err error
		if answered, err = a.ResolveHooks(next); err != nil {
			return &BadServiceError{err}
		}
	}
	c.Config = func(present service.Config) service.Config {
		present = change(present)
		present.Method = withAnswers(present.Method, answered)
		return present
	}
	return nil
}

// answers reports whether a method knows who answers all hooks and alarms of another one.
func answers(known, next service.Method) bool {
	for _, h := range next.Hooks {
		if h.Target.Kind == service.HookLambda && !answered(targetOf(known.Hooks, h.Target.Value)) {
			return false
		}
	}
	for _, alarm := range next.Alarms.Alarms {
		if next.Alarms.Enable && alarm.Target.Kind == service.HookLambda && !answered(alarmOf(known.Alarms, alarm.Name)) {
			return false
		}
	}
	return true
}

func answered(t service.HookTarget) bool { return len(t.Command) > 0 || t.Source != "" }

func targetOf(hooks []service.Hook, arn string) (t service.HookTarget) {
	for _, h := range hooks {
		if h.Target.Kind == service.HookLambda && h.Target.Value == arn {
			return h.Target
		}
	}
	return t
}

func alarmOf(a service.Alarms, name string) (t service.HookTarget) {
	for _, alarm := range a.Alarms {
		if alarm.Name == name {
			return alarm.Target
		}
	}
	return t
}

// withAnswers returns a method with the answers that another one has.
func withAnswers(m, known service.Method) service.Method {
	m.Hooks = slices.Clone(m.Hooks)
	for i := range m.Hooks {
		if t := &m.Hooks[i].Target; t.Kind == service.HookLambda {
			from := targetOf(known.Hooks, t.Value)
			t.Command, t.Source = from.Command, from.Source
		}
	}
	m.Alarms.Alarms = slices.Clone(m.Alarms.Alarms)
	for i := range m.Alarms.Alarms {
		if alarm := &m.Alarms.Alarms[i]; alarm.Target.Kind == service.HookLambda {
			from := alarmOf(known.Alarms, alarm.Name)
			alarm.Target.Command, alarm.Target.Source = from.Command, from.Source
		}
	}
	return m
}
