package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/agent"
	"github.com/podtask/podtask/internal/fleet"
	"github.com/podtask/podtask/internal/imagestore"
	"github.com/podtask/podtask/internal/observe"
	"github.com/podtask/podtask/internal/record"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/images"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/state"
	"github.com/podtask/podtask/pkg/taskdef"
)

// taskOwner is what this program asks of an agent.Owner.
type taskOwner interface {
	State() lifecycle.State
	Send(lifecycle.Event) bool
	Watch(context.Context, func(lifecycle.State) bool) error
}

// ownedTask serves the one task of an owner: an api.Backend.
type ownedTask struct {
	taskOwner
	history
	pid int // of the process
}

// history is the api.Publisher and api.PullWatcher of a host.
type history struct{ from *agent.Agent }

// Events implements api.Publisher.
func (h history) Events(ctx context.Context, q api.EventQuery, fn func(api.Event) error) error {
	return h.from.Events.Read(ctx, q.After, q.Follow, func(e record.Event) error {
		if q.Task != "" && q.Task != e.Task {
			return nil
		}
		return fn(newEventLine(e))
	})
}

// Logs implements api.Publisher.
func (h history) Logs(ctx context.Context, id string, q api.LogQuery, fn func(api.LogLine) error) error {
	s, err := h.from.Tasks.Find(id)
	if err != nil {
		return failure(err)
	}
	opts := observe.LogOptions{Follow: q.Follow, Since: q.Since, Until: q.Until, Tail: q.Tail, Timestamps: true}
	return h.from.Logs.Read(ctx, s, q.Container, opts, func(l observe.LogLine) error { return fn(api.LogLine(l)) })
}

// Pulls implements api.PullWatcher.
func (h history) Pulls(ctx context.Context, id string, follow bool, fn func(api.Pull) error) error {
	s, err := h.from.Tasks.Find(id)
	if err != nil {
		return failure(err)
	}
	wanted := map[string]bool{}
	for _, c := range s.Task.Containers {
		if ref, err := images.ParseRef(c.Image); err == nil {
			wanted[ref.String()] = true
		}
	}
	return h.from.Pulls.Watch(ctx, follow, func(p imagestore.Progress) error {
		if !wanted[p.Image] {
			return nil
		}
		return fn(newPull(p))
	})
}

// ownedBy is the wire form of a task that a living process owns.
func ownedBy(pid int, s lifecycle.State) api.Task {
	t := api.FromState(s)
	t.Owner = api.Owner{PID: pid, Alive: true}
	return t
}

// Tasks implements api.Backend.
func (b ownedTask) Tasks(context.Context) ([]api.Task, error) {
	return []api.Task{ownedBy(b.pid, b.State())}, nil
}

// Task implements api.Backend.
func (b ownedTask) Task(_ context.Context, ref string) (api.Task, error) {
	s := b.State()
	if ref == "" || !strings.HasPrefix(s.ID, ref) && s.Name != ref {
		return api.Task{}, api.Failed(api.NotFound, "no task %q here: this process owns %s only", ref, s.ID)
	}
	return ownedBy(b.pid, s), nil
}

// Stop implements api.Backend.
func (b ownedTask) Stop(_ context.Context, _, by string, force bool) error {
	b.Send(lifecycle.StopRequested{By: by, Force: force})
	return nil
}

// Remove implements api.Backend.
func (b ownedTask) Remove(_ context.Context, _, by string, force bool) error {
	if err := removable(b.State(), force); err != nil {
		return err
	}
	b.Send(lifecycle.RemoveRequested{By: by, Force: force})
	return nil
}

// Update implements api.Backend.
func (b ownedTask) Update(_ context.Context, _ string, q lifecycle.Quota) error {
	if err := limitable(b.State()); err != nil {
		return err
	}
	b.Send(lifecycle.LimitsRequested{Quota: q})
	return nil
}

// Pause implements api.Backend.
func (b ownedTask) Pause(ctx context.Context, _ string, pause bool) error {
	s := b.State()
	if err := pausable(s); err != nil {
		return err
	}
	hints, err := b.from.Pauser.Pause(ctx, s, pause)
	for _, h := range hints {
		b.Send(h)
	}
	return pauseFailure(err)
}

// Watch implements api.Backend.
func (b ownedTask) Watch(ctx context.Context, _ string, fn func(api.Task) bool) error {
	return b.taskOwner.Watch(ctx, func(s lifecycle.State) bool { return fn(ownedBy(b.pid, s)) })
}

// allTasks serves every task of the user: the api.Backend, api.Adopter, api.Creator,
// api.Publisher, api.PullWatcher and api.ServiceKeeper of an agent.
type allTasks struct {
	*session
	history
	kept
	fleet *fleet.Fleet
}

// wire is a recorded task, as its owner knows it where that is us.
func (b allTasks) wire(s lifecycle.State) api.Task {
	if o := b.fleet.Owner(s.ID); o != nil {
		return ownedBy(os.Getpid(), o.State())
	}
	return b.fromState(s)
}

// Tasks implements api.Backend. Records that cannot be read are left out and logged.
func (b allTasks) Tasks(context.Context) ([]api.Task, error) {
	states, errs := b.host.Tasks.States()
	for _, err := range errs {
		b.log.Warn("a record cannot be read", "error", err)
	}
	tasks := make([]api.Task, len(states))
	for i, s := range states {
		tasks[i] = b.wire(s)
	}
	return tasks, nil
}

// Task implements api.Backend.
func (b allTasks) Task(_ context.Context, ref string) (api.Task, error) {
	s, err := b.host.Tasks.Find(ref)
	if err != nil {
		return api.Task{}, failure(err)
	}
	return b.wire(s), nil
}

// Stop implements api.Backend.
func (b allTasks) Stop(ctx context.Context, id, by string, force bool) error {
	s, err := b.host.Tasks.Find(id)
	if err != nil || s.Settled() {
		return failure(err)
	}
	return b.ask(ctx, id, lifecycle.StopRequested{By: by, Force: force}, func(c *api.Client) error { return c.Stop(ctx, id, by, force) })
}

// Remove implements api.Backend.
func (b allTasks) Remove(ctx context.Context, id, by string, force bool) error {
	s, err := b.host.Tasks.Find(id)
	if err != nil {
		return failure(err)
	}
	if err := removable(s, force); err != nil {
		return err
	}
	return b.ask(ctx, id, lifecycle.RemoveRequested{By: by, Force: force}, func(c *api.Client) error { return c.Remove(ctx, id, by, force) })
}

// Update implements api.Backend.
func (b allTasks) Update(ctx context.Context, id string, q lifecycle.Quota) error {
	s, err := b.host.Tasks.Find(id)
	if err != nil {
		return failure(err)
	}
	if err := limitable(s); err != nil {
		return err
	}
	if err := b.host.Preflight.CheckLimits(s, q); err != nil {
		return api.Failed(api.Conflict, "%v", err)
	}
	return b.ask(ctx, id, lifecycle.LimitsRequested{Quota: q}, func(c *api.Client) error { return c.Update(ctx, id, q) })
}

// Pause implements api.Backend.
func (b allTasks) Pause(ctx context.Context, id string, pause bool) error {
	s, err := b.host.Tasks.Find(id)
	if err != nil {
		return failure(err)
	}
	if err := pausable(s); err != nil {
		return err
	}
	hints, err := b.host.Pauser.Pause(ctx, s, pause)
	if err != nil {
		return pauseFailure(err)
	}
	for _, h := range hints {
		if err := b.ask(ctx, id, h, func(c *api.Client) error { return c.Pause(ctx, id, pause) }); err != nil {
			return err
		}
	}
	return nil
}

// ask sends an event to a task of ours or one that nobody owns, and passes the
// request on where another process owns the task.
func (b allTasks) ask(ctx context.Context, id string, ev lifecycle.Event, pass func(*api.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, b.patience)
	defer cancel()
	retry := time.NewTicker(50 * time.Millisecond)
	defer retry.Stop()
	for {
		err := b.fleet.Send(ctx, id, ev)
		if !errors.Is(err, state.ErrLocked) {
			return failure(err)
		}
		if c, dialErr := api.Dial(ctx, b.socket(id)); dialErr == nil {
			defer c.Close()
			return pass(c)
		}
		select {
		case <-retry.C: // it takes its lock first and lets go of it last
		case <-ctx.Done():
			return failure(unreachable(id, err))
		}
	}
}

// Watch implements api.Backend.
func (b allTasks) Watch(ctx context.Context, id string, fn func(api.Task) bool) error {
	if o := b.fleet.Owner(id); o != nil {
		return o.Watch(ctx, func(s lifecycle.State) bool { return fn(ownedBy(os.Getpid(), s)) })
	}
	err := b.host.Tasks.Watch(ctx, id, func(s lifecycle.State) bool { return fn(b.wire(s)) })
	if isGone(err) {
		return nil
	}
	return err
}

// Adopt implements api.Adopter.
func (b allTasks) Adopt(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, b.patience)
	defer cancel()
	err := b.fleet.Adopt(ctx, id)
	if errors.Is(err, state.ErrLocked) {
		return api.Failed(api.Conflict, "task %s: %v; it is taken on when that process ends", shortID(id), err)
	}
	return failure(err)
}

// Create implements api.Creator.
func (b allTasks) Create(ctx context.Context, n api.NewTask) (api.Task, error) {
	task, options, err := b.define(n)
	if err != nil {
		return api.Task{}, err
	}
	if err := b.host.Preflight.Check(ctx, task, options); err != nil {
		return api.Task{}, api.Failed(api.Conflict, "%v", err)
	}
	s, err := b.host.Creator.Create(ctx, task, n.Name, options)
	if errors.Is(err, record.ErrNameTaken) {
		return api.Task{}, api.Failed(api.Conflict, "%v", err)
	}
	if err != nil {
		return api.Task{}, err
	}
	if err := b.Adopt(ctx, s.ID); err != nil {
		return api.Task{}, err
	}
	return b.wire(s), nil
}

// define checks a request to run a task.
func (b allTasks) define(n api.NewTask) (taskdef.Task, lifecycle.Options, error) {
	options := lifecycle.Options{Remove: n.Remove}
	settings := taskdef.Settings{Vars: n.Vars, Lenient: b.config.Tasks.Lenient}
	for _, e := range n.Environment {
		settings.Env = append(settings.Env, taskdef.EnvVar(e))
	}
	task, err := parseRequested(settings, "", n.Definition)
	if err != nil {
		return task, options, err
	}
	if n.Name != "" && !taskName.MatchString(n.Name) {
		return task, options, api.Failed(api.BadRequest, "a name has letters, digits, dots, dashes and underscores, and begins with a letter or a digit")
	}
	chosen, err := b.config.Override(n.Pull, n.Limits)
	if err != nil {
		return task, options, api.Failed(api.BadRequest, "%v", err)
	}
	options.Pull, options.Limits = chosen.Pull, chosen.Limits
	return task, options, nil
}

// failure is an error of the host in the words of the API.
func failure(err error) error {
	var ambiguous *record.AmbiguousError
	switch {
	case err == nil:
		return nil
	case errors.As(err, new(*record.NotFoundError)):
		return api.Failed(api.NotFound, "%v", err)
	case errors.As(err, &ambiguous):
		return api.Failed(api.Ambiguous, "%v", err)
	}
	return err
}

// limitable says why new limits of a task are of no use.
func limitable(s lifecycle.State) error {
	if s.Goal == lifecycle.Up {
		return nil
	}
	return api.Failed(api.Conflict, "task %s is stopping or has stopped: only a running task can have other limits", shortID(s.ID))
}

// pausable says why a task cannot be paused.
func pausable(s lifecycle.State) error {
	if s.Goal == lifecycle.Up && s.Status() == lifecycle.StatusRunning {
		return nil
	}
	return api.Failed(api.Conflict, "task %s is %s: only a task that is RUNNING, and not on its way down, can be paused", nameOf(s), s.Status())
}

// pauseFailure adds what a host lacks on which Podman cannot pause.
func pauseFailure(err error) error {
	if err != nil && strings.Contains(err.Error(), "cgroup") {
		return api.Failed(api.Unsupported, "%v; pausing needs cgroups of version 2: `podtask doctor` says what this host has", err)
	}
	return err
}

// removable says why a task cannot be removed without force.
func removable(s lifecycle.State, force bool) error {
	if force || s.Goal == lifecycle.Gone || s.Status() == lifecycle.StatusStopped {
		return nil
	}
	return api.Failed(api.Conflict, "task %s has not stopped: stop it first, or remove it with `podtask rm -f %s`", shortID(s.ID), nameOf(s))
}

// nameOf is what a user types for the task.
func nameOf(s lifecycle.State) string { return firstOf(s.Name, shortID(s.ID)) }
