package serve

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"time"

	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/define"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/network/nodenames"
	"github.com/podtask/podtask/internal/engine/run/fleet"
	"github.com/podtask/podtask/internal/engine/run/owner"
	"github.com/podtask/podtask/internal/engine/run/services"
	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/internal/serve/ownerapi"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// AgentBackend serves every task of the user: the api.Backend, api.Adopter, api.Creator,
// api.Publisher, api.PullWatcher and api.ServiceBackend of an agent.
type AgentBackend struct {
	ownerapi.Host
	ownerapi.History
	ServiceBackend
	fleet *fleet.Fleet
}

// Owned returns the owner of a task in this process; nil if it is not owned here.
func (b AgentBackend) Owned(id string) *owner.Owner { return b.fleet.Owner(id) }

// wire returns the wire form of a recorded task, from its owner if this process owns it.
func (b AgentBackend) wire(s lifecycle.State) api.Task {
	if o := b.fleet.Owner(s.ID); o != nil {
		return ownerapi.OwnedBy(os.Getpid(), o, o.State())
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
		return api.Task{}, ownerapi.Failure(err)
	}
	return ownerapi.WithOutage(b.withNames(ownerapi.WithPulls(ownerapi.WithLogs(b.wire(s), b.Engine.Delivery, s, time.Now()), b.Engine.Pulls, s), s), b.Engine.Podman), nil
}

// Stop implements api.Backend.
func (b AgentBackend) Stop(ctx context.Context, id, by string, force bool) error {
	s, err := b.Engine.Tasks.Find(id)
	if err != nil || s.Settled() {
		return ownerapi.Failure(err)
	}
	return b.AskToEnd(ctx, id, lifecycle.StopRequested{By: by, Force: force}, lifecycle.Down, func(c *api.Client) error { return c.Stop(ctx, id, by, force) })
}

// Remove implements api.Backend.
func (b AgentBackend) Remove(ctx context.Context, id, by string, force bool) error {
	s, err := b.Engine.Tasks.Find(id)
	if err != nil {
		return ownerapi.Failure(err)
	}
	if err := ownerapi.Removable(s, force); err != nil {
		return err
	}
	err = b.AskToEnd(ctx, id, lifecycle.RemoveRequested{By: by, Force: force}, lifecycle.Gone, func(c *api.Client) error { return c.Remove(ctx, id, by, force) })
	if api.Is(err, api.NotFound) { // it was there: an owner that was just ending, or another request, has removed it
		return nil
	}
	return err
}

// Update implements api.Backend.
func (b AgentBackend) Update(ctx context.Context, id string, q lifecycle.Quota) error {
	s, err := b.Engine.Tasks.Find(id)
	if err != nil {
		return ownerapi.Failure(err)
	}
	if err := ownerapi.Limitable(s); err != nil {
		return err
	}
	if err := b.Engine.Preflight.CheckLimits(s, q); err != nil {
		return api.Failed(api.Conflict, "%v", err)
	}
	return b.Ask(ctx, id, lifecycle.LimitsRequested{Quota: q}, func(c *api.Client) error { return c.Update(ctx, id, q) })
}

// Resize implements api.PodResizer.
func (b AgentBackend) Resize(ctx context.Context, id string, to api.PodResources) error {
	s, err := b.Engine.Tasks.Find(id)
	if err != nil {
		return ownerapi.Failure(err)
	}
	r, err := ownerapi.Resized(b.Engine, s, to)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, ownerapi.PatienceFor(s, r, b.Patience))
	defer cancel()
	err = b.Ask(ctx, s.ID, lifecycle.ResourcesRequested{Resources: r}, func(c *api.Client) error { return api.Resize(ctx, c, s.ID, to) })
	if err != nil {
		return err
	}
	return ownerapi.ApplyResources(ctx, b.Engine, s.ID, r)
}

// SetNodeNames implements api.NodeNamer.
func (b AgentBackend) SetNodeNames(_ context.Context, node string, n api.NodeNames) error {
	if err := nodenames.Check(node, n); err != nil {
		return api.Failed(api.BadRequest, "%v", err)
	}
	return b.Engine.NodeNames.Set(node, n)
}

// RestartContainer implements api.Backend.
func (b AgentBackend) RestartContainer(ctx context.Context, id, container string) error {
	s, err := b.Engine.Tasks.Find(id)
	if err != nil {
		return ownerapi.Failure(err)
	}
	ev, err := ownerapi.RestartOf(s, container)
	if err != nil {
		return err
	}
	return b.Ask(ctx, id, ev, func(c *api.Client) error { return c.RestartContainer(ctx, id, container) })
}

// Pause implements api.Backend.
func (b AgentBackend) Pause(ctx context.Context, id string, pause bool) error {
	s, err := b.Engine.Tasks.Find(id)
	if err != nil {
		return ownerapi.Failure(err)
	}
	if err := ownerapi.Pausable(s); err != nil {
		return err
	}
	hints, err := b.Engine.Pauser.Pause(ctx, s, pause)
	if err != nil {
		return ownerapi.PauseFailure(err)
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
			return ownerapi.Failure(err)
		}
		if c, dialErr := api.Dial(ctx, b.Socket(id)); dialErr == nil {
			defer c.Close()
			return pass(c)
		}
		select {
		case <-retry.C: // an owner takes the lock first and releases it last
		case <-ctx.Done():
			return ownerapi.Failure(ownerapi.Unreachable(id, err))
		}
	}
}

// AskToEnd is Ask for an event that sets a goal, and returns when the task has that goal or a later one, so that who gets the answer sees
// the task so, also after the end of this process.
func (b AgentBackend) AskToEnd(ctx context.Context, id string, ev lifecycle.Event, goal lifecycle.Goal, pass func(*api.Client) error) error {
	err := b.Ask(ctx, id, ev, pass)
	if o := b.Owned(id); err == nil && o != nil {
		err = o.Watch(ctx, func(s lifecycle.State) bool { return s.Goal < goal })
	}
	return err
}

// Watch implements api.Backend.
func (b AgentBackend) Watch(ctx context.Context, id string, fn func(api.Task) bool) error {
	owner := func() ownerapi.Owner {
		if o := b.Owned(id); o != nil {
			return o
		}
		return nil
	}
	recorded := func(see func(lifecycle.State) bool) error { return b.Engine.Tasks.Watch(ctx, id, see) }
	err := follow(ctx, owner, recorded, func(o ownerapi.Owner, s lifecycle.State) bool {
		if o == nil {
			return fn(b.FromState(s))
		}
		return fn(ownerapi.OwnedBy(os.Getpid(), o, s))
	})
	if errors.As(err, new(*record.NotFoundError)) {
		return nil
	}
	return err
}

// follow shows the states of a task through its owner if that is in this process, else through its
// record. A task that gets an owner here is shown through it from then on: when a record has
// changed, State of the owner may still be the one before.
func follow(ctx context.Context, owner func() ownerapi.Owner, record func(see func(lifecycle.State) bool) error, show func(ownerapi.Owner, lifecycle.State) bool) error {
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
		return ownerapi.Failure(err)
	}
	err = b.fleet.Adopt(ctx, id)
	if errors.Is(err, state.ErrLocked) {
		return api.Failed(api.Conflict, "task %s: %v; it is taken on when that process ends", lifecycle.ShortID(id), err)
	}
	return ownerapi.Failure(err)
}

// Pod implements api.PodShower.
func (b AgentBackend) Pod(ctx context.Context, id string) (json.RawMessage, error) {
	if o := b.fleet.Owner(id); o != nil {
		return ownerapi.PodOf(ctx, b.Engine, o.State())
	}
	return b.History.Pod(ctx, id)
}

// Take takes over a new task from its creator, together with its lock.
func (b AgentBackend) Take(ctx context.Context, o *owner.Owner) error {
	return ownerapi.Failure(b.fleet.Take(ctx, o))
}

// Create implements api.Creator. The ID of the task follows from the client token, so that a task is made once however
// often it is asked for: before it is made by looking, and while it is made by the lock of the ID.
func (b AgentBackend) Create(ctx context.Context, n api.NewTask) (api.Task, error) {
	id := record.NewID()
	if n.ClientToken != "" {
		id = api.TaskID(n.ClientToken)
		if t, made, err := b.madeBefore(id); made || err != nil {
			return t, err
		}
	}
	task, options, err := b.define(ctx, n)
	if err != nil {
		return api.Task{}, err
	}
	options.Once, options.GiveUp, options.Persistent = n.ClientToken != "", n.GiveUp, !n.GiveUp
	o, err := b.Engine.Creator.Launch(ctx, owner.Launch{ID: id, Task: task, Name: n.Name, Options: options})
	switch {
	case err == nil:
	case errors.Is(err, record.ErrNameTaken), errors.As(err, new(*owner.UnfitError)):
		return api.Task{}, api.Failed(api.Conflict, "%v", err)
	case options.Once && (errors.Is(err, record.ErrMade) || errors.Is(err, record.ErrRemoved) || errors.Is(err, state.ErrLocked)):
		if t, made, err := b.madeBefore(id); made || err != nil {
			return t, err
		}
		return api.Task{}, api.Failed(api.Busy, "another request with this client token is carried out: repeat this one")
	default:
		return api.Task{}, err
	}
	s := o.State()
	if err := b.Take(ctx, o); err != nil {
		return api.Task{}, err
	}
	return b.wire(s), nil
}

// Void implements api.Creator.
func (b AgentBackend) Void(_ context.Context, clientToken string) error {
	err := b.Engine.Creator.Void(api.TaskID(clientToken))
	switch {
	case errors.Is(err, record.ErrMade):
		return api.Failed(api.Conflict, "the task of this client token exists: stop it, or remove it")
	case errors.Is(err, state.ErrLocked):
		return api.Failed(api.Busy, "a request with this client token is carried out: repeat this one")
	}
	return err
}

// madeBefore returns the task of an earlier request with the same client token. If it has run and was removed, the error is Gone.
func (b AgentBackend) madeBefore(id string) (t api.Task, made bool, err error) {
	s, err := b.Engine.Tasks.Get(id)
	switch {
	case err == nil:
		return b.wire(s), true, nil
	case !errors.As(err, new(*record.NotFoundError)):
		return t, false, err
	}
	if err = b.Engine.Tasks.NotRemoved(id); errors.Is(err, record.ErrRemoved) {
		err = api.Failed(api.Gone, "%v", err)
	}
	return t, false, err
}

// define makes the task of a request.
func (b AgentBackend) define(ctx context.Context, n api.NewTask) (taskdef.Task, lifecycle.Options, error) {
	changes, err := ChangesOf(n.TaskSettings, n.TaskOptions)
	if err != nil {
		return taskdef.Task{}, lifecycle.Options{}, err
	}
	if n.Name != "" && !ValidTaskName(n.Name) {
		return taskdef.Task{}, lifecycle.Options{}, api.Failed(api.BadRequest, "a name has letters, digits, dots, dashes and underscores, and begins with a letter or a digit")
	}
	if n.Namespace != "" && !taskdef.NamespaceName(n.Namespace) {
		return taskdef.Task{}, lifecycle.Options{}, api.Failed(api.BadRequest, "namespace: %q is not letters, digits, dots, dashes and underscores that begin and end with a letter or a digit", n.Namespace)
	}
	changes.Lenient, changes.Adjustments.Namespace = n.Lenient, n.Namespace
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

// ValidTaskName reports whether a task may have the name.
func ValidTaskName(name string) bool { return len(name) <= 255 && taskName.MatchString(name) }

var taskName = lazy.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`)

// NewAgentBackend returns the backend of an agent, which serves all tasks and services.
func NewAgentBackend(h ownerapi.Host, settings *config.Settings, fleet *fleet.Fleet, services *services.Services) AgentBackend {
	return AgentBackend{
		Host: h, fleet: fleet,
		History: ownerapi.NewHistory(h.Engine), ServiceBackend: ServiceBackend{Controller: services, stateDir: h.StateDir, reader: define.Reader{Settings: settings}, secrets: h.Engine.Secrets, images: h.Engine.Images},
	}
}

var (
	_ api.PodShower = AgentBackend{}
	_ api.NodeNamer = AgentBackend{}
)
