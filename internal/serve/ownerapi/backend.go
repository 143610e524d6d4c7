package ownerapi

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/engine"
	"github.com/podtask/podtask/internal/engine/act/imagestore"
	"github.com/podtask/podtask/internal/engine/act/observe"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/images"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// Owner is what this package needs of an owner.Owner.
type Owner interface {
	State() lifecycle.State
	Unsaved() bool
	Send(lifecycle.Event) bool
	Watch(context.Context, func(lifecycle.State) bool) error
}

// Backend serves the one task of an owner: an api.Backend.
type Backend struct {
	Owner
	History
	Pid int // of the process
}

// History is the api.Publisher and api.PullWatcher of a host.
type History struct{ from *engine.Engine }

// NewHistory returns that of a host.
func NewHistory(from *engine.Engine) History { return History{from} }

// Events implements api.Publisher.
func (h History) Events(ctx context.Context, q api.EventQuery, fn func(api.Event) error) error {
	return h.from.Events.Read(ctx, q.After, q.Follow, func(e record.Event) error {
		if q.Task != "" && q.Task != e.Task {
			return nil
		}
		return fn(NewEvent(e))
	})
}

// Logs implements api.Publisher.
func (h History) Logs(ctx context.Context, id string, q api.LogQuery, fn func(api.LogLine) error) error {
	s, err := h.from.Tasks.Find(id)
	if err != nil {
		return Failure(err)
	}
	opts := observe.LogOptions{Follow: q.Follow, Since: q.Since, Until: q.Until, Tail: q.Tail, Timestamps: true}
	return observe.Complete(h.from.Logs.Read(ctx, s, q.Container, opts, func(l observe.LogLine) error {
		return fn(api.LogLine{Container: l.Container, Stream: l.Stream, Time: l.Time, Text: l.Text})
	}))
}

// Pulls implements api.PullWatcher.
func (h History) Pulls(ctx context.Context, id string, follow bool, fn func(api.Pull) error) error {
	s, err := h.from.Tasks.Find(id)
	if err != nil {
		return Failure(err)
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
		return fn(NewPull(p))
	})
}

// OwnedBy is the wire form of a task that a living process owns.
func OwnedBy(pid int, o Owner, s lifecycle.State) api.Task {
	t := api.FromState(s)
	t.Owner = api.Owner{PID: pid, Alive: true}
	return WithDiskFull(t, o)
}

// WithDiskFull adds to the reasons of a task that its owner waits for disk space.
func WithDiskFull(t api.Task, o Owner) api.Task {
	if o.Unsaved() {
		full := api.Reason{Code: api.WhyDiskFull, Text: "the disk of the state directory is full or read-only, so podtask cannot save what it does next; it continues when it can be written"}
		if t.Goal != lifecycle.Up.String() {
			full.Text = "the disk of the state directory is full or read-only: the task stops, and podtask records it when it can"
		}
		t.Why = slices.Insert(slices.Clone(t.Why), 0, full)
	}
	return t
}

// Tasks implements api.Backend.
func (b Backend) Tasks(context.Context) ([]api.Task, error) {
	return []api.Task{OwnedBy(b.Pid, b.Owner, b.State())}, nil
}

// Task implements api.Backend.
func (b Backend) Task(_ context.Context, ref string) (api.Task, error) {
	s := b.State()
	if ref == "" || !strings.HasPrefix(s.ID, ref) && s.Name != ref {
		return api.Task{}, api.Failed(api.NotFound, "no task %q here: this process owns %s only", ref, s.ID)
	}
	return WithOutage(WithPulls(WithLogs(OwnedBy(b.Pid, b.Owner, s), b.from.Delivery, s, time.Now()), b.from.Pulls, s), b.from.Podman), nil
}

// Stop implements api.Backend.
func (b Backend) Stop(_ context.Context, _, by string, force bool) error {
	b.Send(lifecycle.StopRequested{By: by, Force: force})
	return nil
}

// Remove implements api.Backend.
func (b Backend) Remove(_ context.Context, _, by string, force bool) error {
	if err := Removable(b.State(), force); err != nil {
		return err
	}
	b.Send(lifecycle.RemoveRequested{By: by, Force: force})
	return nil
}

// Update implements api.Backend.
func (b Backend) Update(_ context.Context, _ string, q lifecycle.Quota) error {
	if err := Limitable(b.State()); err != nil {
		return err
	}
	b.Send(lifecycle.LimitsRequested{Quota: q})
	return nil
}

// RestartContainer implements api.Backend.
func (b Backend) RestartContainer(_ context.Context, _, container string) error {
	ev, err := RestartOf(b.State(), container)
	if err != nil {
		return err
	}
	b.Send(ev)
	return nil
}

// Pause implements api.Backend.
func (b Backend) Pause(ctx context.Context, _ string, pause bool) error {
	s := b.State()
	if err := Pausable(s); err != nil {
		return err
	}
	hints, err := b.from.Pauser.Pause(ctx, s, pause)
	for _, h := range hints {
		b.Send(h)
	}
	return PauseFailure(err)
}

// Watch implements api.Backend.
func (b Backend) Watch(ctx context.Context, _ string, fn func(api.Task) bool) error {
	return b.Owner.Watch(ctx, func(s lifecycle.State) bool { return fn(OwnedBy(b.Pid, b.Owner, s)) })
}

// Failure converts an error to one of the API.
func Failure(err error) error {
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

// Limitable returns an error if new limits for a task have no effect.
func Limitable(s lifecycle.State) error {
	if s.Goal == lifecycle.Up {
		return nil
	}
	return api.Failed(api.Conflict, "task %s is stopping or has stopped: only a running task can have other limits", lifecycle.ShortID(s.ID))
}

// RestartOf returns the request to restart a container, or an error if it does not run.
func RestartOf(s lifecycle.State, container string) (lifecycle.RestartRequested, error) {
	i, err := observe.ExecContainer(s, container)
	if err != nil {
		return lifecycle.RestartRequested{}, api.Failed(api.NotFound, "%v", err)
	}
	c := s.Containers[i]
	switch {
	case s.Goal != lifecycle.Up:
		return lifecycle.RestartRequested{}, api.Failed(api.Conflict, "task %s is stopping or has stopped: `podtask restart %[1]s` runs it again", s.DisplayName())
	case c.Presence != lifecycle.Running || c.Ended:
		return lifecycle.RestartRequested{}, api.Failed(api.Conflict, "container %s of task %s is %s: only a container that runs can be restarted", container, s.DisplayName(), c.Status())
	case c.Paused:
		return lifecycle.RestartRequested{}, api.Failed(api.Conflict, "container %s is paused: `podtask unpause %s` resumes it", container, s.DisplayName())
	}
	return lifecycle.RestartRequested{Container: i}, nil
}

// Pausable returns an error if a task cannot be paused.
func Pausable(s lifecycle.State) error {
	if s.Goal == lifecycle.Up && s.Status() == lifecycle.StatusRunning {
		return nil
	}
	return api.Failed(api.Conflict, "task %s is %s: only a task that is RUNNING, and not on its way down, can be paused", s.DisplayName(), s.Status())
}

// PauseFailure adds what is missing on a host where Podman cannot pause.
func PauseFailure(err error) error {
	if err != nil && strings.Contains(err.Error(), "cgroup") {
		return api.Failed(api.Unsupported, "%v; pausing needs cgroups of version 2: `podtask doctor` says what this host has", err)
	}
	return err
}

// Removable returns an error if a task cannot be removed without force.
func Removable(s lifecycle.State, force bool) error {
	if force || s.Goal == lifecycle.Gone || s.Status() == lifecycle.StatusStopped {
		return nil
	}
	return api.Failed(api.Conflict, "task %s has not stopped: stop it first, or remove it with `podtask rm -f %s`", lifecycle.ShortID(s.ID), s.DisplayName())
}

// NewPull is the wire form of a step.
func NewPull(p imagestore.Progress) api.Pull {
	return api.Pull{
		Image: p.Image, Phase: string(p.Phase), Layer: p.Step.Layer, Current: p.Step.Current, Total: p.Step.Total,
		Done: p.Step.Done, Existed: p.Step.Existed, Text: p.Step.Line,
	}
}

// NewEvent is the wire form of an event.
func NewEvent(e record.Event) api.Event {
	return api.Event{
		Seq: e.Seq, At: e.At, Task: e.Task, Name: e.Name, Family: e.Family,
		Container: e.Container, Status: e.Status, Digest: e.Digest, ExitCode: (*api.ExitCode)(e.ExitCode), Reason: e.Reason,
	}
}
