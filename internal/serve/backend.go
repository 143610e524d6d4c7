package serve

import (
	"context"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/define"
	"github.com/podtask/podtask/internal/engine"
	"github.com/podtask/podtask/internal/engine/fleet"
	"github.com/podtask/podtask/internal/engine/imagestore"
	"github.com/podtask/podtask/internal/engine/observe"
	"github.com/podtask/podtask/internal/engine/owner"
	"github.com/podtask/podtask/internal/engine/record"
	"github.com/podtask/podtask/internal/engine/services"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/images"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Owner is what this package needs of an owner.Owner.
type Owner interface {
	State() lifecycle.State
	Unsaved() bool
	Send(lifecycle.Event) bool
	Watch(context.Context, func(lifecycle.State) bool) error
}

// OwnerBackend serves the one task of an owner: an api.Backend.
type OwnerBackend struct {
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
	return observe.Complete(h.from.Logs.Read(ctx, s, q.Container, opts, func(l observe.LogLine) error { return fn(api.LogLine(l)) }))
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

// ownedBy is the wire form of a task that a living process owns.
func ownedBy(pid int, o Owner, s lifecycle.State) api.Task {
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
func (b OwnerBackend) Tasks(context.Context) ([]api.Task, error) {
	return []api.Task{ownedBy(b.Pid, b.Owner, b.State())}, nil
}

// Task implements api.Backend.
func (b OwnerBackend) Task(_ context.Context, ref string) (api.Task, error) {
	s := b.State()
	if ref == "" || !strings.HasPrefix(s.ID, ref) && s.Name != ref {
		return api.Task{}, api.Failed(api.NotFound, "no task %q here: this process owns %s only", ref, s.ID)
	}
	return WithLogs(ownedBy(b.Pid, b.Owner, s), b.from.Delivery, s, time.Now()), nil
}

// Stop implements api.Backend.
func (b OwnerBackend) Stop(_ context.Context, _, by string, force bool) error {
	b.Send(lifecycle.StopRequested{By: by, Force: force})
	return nil
}

// Remove implements api.Backend.
func (b OwnerBackend) Remove(_ context.Context, _, by string, force bool) error {
	if err := Removable(b.State(), force); err != nil {
		return err
	}
	b.Send(lifecycle.RemoveRequested{By: by, Force: force})
	return nil
}

// Update implements api.Backend.
func (b OwnerBackend) Update(_ context.Context, _ string, q lifecycle.Quota) error {
	if err := limitable(b.State()); err != nil {
		return err
	}
	b.Send(lifecycle.LimitsRequested{Quota: q})
	return nil
}

// Pause implements api.Backend.
func (b OwnerBackend) Pause(ctx context.Context, _ string, pause bool) error {
	s := b.State()
	if err := Pausable(s); err != nil {
		return err
	}
	hints, err := b.from.Pauser.Pause(ctx, s, pause)
	for _, h := range hints {
		b.Send(h)
	}
	return pauseFailure(err)
}

// Watch implements api.Backend.
func (b OwnerBackend) Watch(ctx context.Context, _ string, fn func(api.Task) bool) error {
	return b.Owner.Watch(ctx, func(s lifecycle.State) bool { return fn(ownedBy(b.Pid, b.Owner, s)) })
}

// AgentBackend serves every task of the user: the api.Backend, api.Adopter, api.Creator,
// api.Publisher, api.PullWatcher and api.ServiceKeeper of an agent.
type AgentBackend struct {
	Host
	History
	ServiceBackend
	fleet *fleet.Fleet
}

// Owned returns the owner of a task in this process; nil if it is not owned here.
func (b AgentBackend) Owned(id string) *owner.Owner { return b.fleet.Owner(id) }

// wire returns the wire form of a recorded task, from its owner if this process owns it.
func (b AgentBackend) wire(s lifecycle.State) api.Task {
	if o := b.fleet.Owner(s.ID); o != nil {
		return ownedBy(os.Getpid(), o, o.State())
	}
	return b.FromState(s)
}

// Tasks implements api.Backend. Unreadable records are skipped and logged.
func (b AgentBackend) Tasks(context.Context) ([]api.Task, error) {
	states, errs := b.Engine.Tasks.States()
	for _, err := range errs {
		b.Log.Warn("a record cannot be read", "error", err)
	}
	tasks := make([]api.Task, len(states))
	for i, s := range states {
		tasks[i] = b.wire(s)
	}
	return tasks, nil
}

// Task implements api.Backend.
func (b AgentBackend) Task(_ context.Context, ref string) (api.Task, error) {
	s, err := b.Engine.Tasks.Find(ref)
	if err != nil {
		return api.Task{}, Failure(err)
	}
	return WithLogs(b.wire(s), b.Engine.Delivery, s, time.Now()), nil
}

// Stop implements api.Backend.
func (b AgentBackend) Stop(ctx context.Context, id, by string, force bool) error {
	s, err := b.Engine.Tasks.Find(id)
	if err != nil || s.Settled() {
		return Failure(err)
	}
	return b.Ask(ctx, id, lifecycle.StopRequested{By: by, Force: force}, func(c *api.Client) error { return c.Stop(ctx, id, by, force) })
}

// Remove implements api.Backend.
func (b AgentBackend) Remove(ctx context.Context, id, by string, force bool) error {
	s, err := b.Engine.Tasks.Find(id)
	if err != nil {
		return Failure(err)
	}
	if err := Removable(s, force); err != nil {
		return err
	}
	return b.Ask(ctx, id, lifecycle.RemoveRequested{By: by, Force: force}, func(c *api.Client) error { return c.Remove(ctx, id, by, force) })
}

// Update implements api.Backend.
func (b AgentBackend) Update(ctx context.Context, id string, q lifecycle.Quota) error {
	s, err := b.Engine.Tasks.Find(id)
	if err != nil {
		return Failure(err)
	}
	if err := limitable(s); err != nil {
		return err
	}
	if err := b.Engine.Preflight.CheckLimits(s, q); err != nil {
		return api.Failed(api.Conflict, "%v", err)
	}
	return b.Ask(ctx, id, lifecycle.LimitsRequested{Quota: q}, func(c *api.Client) error { return c.Update(ctx, id, q) })
}

// Pause implements api.Backend.
func (b AgentBackend) Pause(ctx context.Context, id string, pause bool) error {
	s, err := b.Engine.Tasks.Find(id)
	if err != nil {
		return Failure(err)
	}
	if err := Pausable(s); err != nil {
		return err
	}
	hints, err := b.Engine.Pauser.Pause(ctx, s, pause)
	if err != nil {
		return pauseFailure(err)
	}
	for _, h := range hints {
		if err := b.Ask(ctx, id, h, func(c *api.Client) error { return c.Pause(ctx, id, pause) }); err != nil {
			return err
		}
	}
	return nil
}

// Ask sends an event to a task of this process or one without an owner, and forwards the
// request if another process owns the task.
func (b AgentBackend) Ask(ctx context.Context, id string, ev lifecycle.Event, pass func(*api.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, b.Patience)
	defer cancel()
	retry := time.NewTicker(50 * time.Millisecond)
	defer retry.Stop()
	for {
		err := b.fleet.Send(ctx, id, ev)
		if !errors.Is(err, state.ErrLocked) {
			return Failure(err)
		}
		if c, dialErr := api.Dial(ctx, b.Socket(id)); dialErr == nil {
			defer c.Close()
			return pass(c)
		}
		select {
		case <-retry.C: // an owner takes the lock first and releases it last
		case <-ctx.Done():
			return Failure(Unreachable(id, err))
		}
	}
}

// Watch implements api.Backend.
func (b AgentBackend) Watch(ctx context.Context, id string, fn func(api.Task) bool) error {
	owner := func() Owner {
		if o := b.Owned(id); o != nil {
			return o
		}
		return nil
	}
	recorded := func(see func(lifecycle.State) bool) error { return b.Engine.Tasks.Watch(ctx, id, see) }
	err := follow(ctx, owner, recorded, func(o Owner, s lifecycle.State) bool {
		if o == nil {
			return fn(b.FromState(s))
		}
		return fn(ownedBy(os.Getpid(), o, s))
	})
	if errors.As(err, new(*record.NotFoundError)) {
		return nil
	}
	return err
}

// follow shows the states of a task through its owner if that is in this process, else through its
// record. A task that gets an owner here is shown through it from then on: when a record has
// changed, State of the owner may still be the one before.
func follow(ctx context.Context, owner func() Owner, record func(see func(lifecycle.State) bool) error, show func(Owner, lifecycle.State) bool) error {
	for {
		if o := owner(); o != nil {
			return o.Watch(ctx, func(s lifecycle.State) bool { return show(o, s) })
		}
		ours := false
		err := record(func(s lifecycle.State) bool {
			ours = owner() != nil
			return !ours && show(nil, s)
		})
		if !ours {
			return err
		}
	}
}

// Adopt implements api.Adopter. A client that owns the task hands it over with its lock.
func (b AgentBackend) Adopt(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, b.Patience)
	defer cancel()
	o, err := b.Engine.Owners.Receive(ctx, id, b.OfferSocket(id))
	if !errors.Is(err, owner.ErrNotOffered) {
		if err == nil {
			err = b.fleet.Take(ctx, o)
		}
		return Failure(err)
	}
	err = b.fleet.Adopt(ctx, id)
	if errors.Is(err, state.ErrLocked) {
		return api.Failed(api.Conflict, "task %s: %v; it is taken on when that process ends", lifecycle.ShortID(id), err)
	}
	return Failure(err)
}

// Take takes over a new task from its creator, together with its lock.
func (b AgentBackend) Take(ctx context.Context, o *owner.Owner) error {
	return Failure(b.fleet.Take(ctx, o))
}

// Create implements api.Creator.
func (b AgentBackend) Create(ctx context.Context, n api.NewTask) (api.Task, error) {
	task, options, err := b.define(ctx, n)
	if err != nil {
		return api.Task{}, err
	}
	if err := b.Engine.Preflight.Check(ctx, task, options); err != nil {
		return api.Task{}, api.Failed(api.Conflict, "%v", err)
	}
	o, err := b.Engine.Creator.CreateOwned(ctx, task, n.Name, options)
	if errors.Is(err, record.ErrNameTaken) {
		return api.Task{}, api.Failed(api.Conflict, "%v", err)
	}
	if err != nil {
		return api.Task{}, err
	}
	s := o.State()
	if err := b.Take(ctx, o); err != nil {
		return api.Task{}, err
	}
	return b.wire(s), nil
}

// define makes the task of a request.
func (b AgentBackend) define(ctx context.Context, n api.NewTask) (taskdef.Task, lifecycle.Options, error) {
	changes, err := changesOf(n.TaskSettings, n.TaskOptions)
	if err != nil {
		return taskdef.Task{}, lifecycle.Options{}, err
	}
	if n.Name != "" && !ValidTaskName(n.Name) {
		return taskdef.Task{}, lifecycle.Options{}, api.Failed(api.BadRequest, "a name has letters, digits, dots, dashes and underscores, and begins with a letter or a digit")
	}
	changes.Lenient = n.Lenient
	task, options, err := b.Define(ctx, define.Document{Source: n.Definition}, changes)
	options.Remove = n.Remove
	return task, options, err
}

// Define makes a task of a document, ready to be created. Errors about the document are those of the API.
func (b AgentBackend) Define(ctx context.Context, doc define.Document, changes define.Changes) (taskdef.Task, lifecycle.Options, error) {
	d, err := read(b.reader, doc, changes)
	if err != nil {
		return d.Task, d.Options, err
	}
	for _, line := range d.Lowered {
		b.Log.Warn(line)
	}
	task, err := d.Prepare(ctx, b.Engine.Secrets)
	if err != nil {
		err = api.Failed(api.Conflict, "%v", err)
	}
	d.Options.Persistent = true
	return task, d.Options, err
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

// limitable returns an error if new limits for a task have no effect.
func limitable(s lifecycle.State) error {
	if s.Goal == lifecycle.Up {
		return nil
	}
	return api.Failed(api.Conflict, "task %s is stopping or has stopped: only a running task can have other limits", lifecycle.ShortID(s.ID))
}

// Pausable returns an error if a task cannot be paused.
func Pausable(s lifecycle.State) error {
	if s.Goal == lifecycle.Up && s.Status() == lifecycle.StatusRunning {
		return nil
	}
	return api.Failed(api.Conflict, "task %s is %s: only a task that is RUNNING, and not on its way down, can be paused", s.DisplayName(), s.Status())
}

// pauseFailure adds what is missing on a host where Podman cannot pause.
func pauseFailure(err error) error {
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

func NewEvent(e record.Event) api.Event {
	return api.Event{
		Seq: e.Seq, At: e.At, Task: e.Task, Name: e.Name, Family: e.Family,
		Container: e.Container, Status: e.Status, Digest: e.Digest, ExitCode: (*api.ExitCode)(e.ExitCode), Reason: e.Reason,
	}
}

// ValidTaskName reports whether a task may have the name.
func ValidTaskName(name string) bool { return len(name) <= 255 && taskName.MatchString(name) }

var taskName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`)

// NewAgentBackend returns the backend of an agent, which serves all tasks and services.
func NewAgentBackend(h Host, settings *config.Settings, fleet *fleet.Fleet, services *services.Services) AgentBackend {
	return AgentBackend{
		Host: h, fleet: fleet,
		History: History{h.Engine}, ServiceBackend: ServiceBackend{Controller: services, stateDir: h.StateDir, reader: define.Reader{Settings: settings}, secrets: h.Engine.Secrets},
	}
}
