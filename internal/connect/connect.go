package connect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/engine/act/effects"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/run/owner"
	"github.com/podtask/podtask/internal/serve/ownerapi"
	"github.com/podtask/podtask/internal/sleep"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/fault"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// Connector finds the process that owns a task and sends it requests, or becomes the owner.
type Connector struct {
	ownerapi.Host
	// Warnf prints a warning for the user.
	Warnf func(format string, args ...any)
	// AgentSocket is the path of the agent's socket.
	AgentSocket string
}

// Task is a task that can be sent requests: through the process that owns it, or directly
// because this process owns it.
type Task struct {
	// Owner is the owner in this process; nil if another process owns the task.
	Owner *owner.Owner
	// Client is connected to the process that owns the task; nil if this process does.
	Client *api.Client

	id        string
	connector *Connector
	requests  requests
	// leaves: a task that has stopped, but cannot be recorded on a full disk, is not waited
	// for.
	leaves bool
}

// requests are the requests that each owner answers. The second argument is the ID of the
// task.
type requests interface {
	Stop(ctx context.Context, id, by string, force bool) error
	Remove(ctx context.Context, id, by string, force bool) error
	Update(ctx context.Context, id string, q lifecycle.Quota) error
	Pause(ctx context.Context, id string, pause bool) error
	RestartContainer(ctx context.Context, id, container string) error
	api.FaultBackend
}

// Local returns a task that this process owns. It is driven while it is watched.
func Local(s *Connector, o *owner.Owner) *Task {
	return &Task{Owner: o, id: o.State().ID, connector: s, requests: ownerapi.Backend{Owner: o, History: ownerapi.NewHistory(s.Engine)}}
}

// remote returns a task that another process owns.
func remote(s *Connector, c *api.Client, id string) *Task {
	return &Task{Client: c, id: id, connector: s, requests: c}
}

// Stop asks for the end of the task. By is the stopped reason's "by".
func (t *Task) Stop(ctx context.Context, by string, force bool) error {
	return t.requests.Stop(ctx, t.id, by, force)
}

// Remove asks for the removal of the task.
func (t *Task) Remove(ctx context.Context, by string, force bool) error {
	return t.requests.Remove(ctx, t.id, by, force)
}

// Update asks for another quota.
func (t *Task) Update(ctx context.Context, q lifecycle.Quota) error {
	return t.requests.Update(ctx, t.id, q)
}

// Pause pauses or resumes the task.
func (t *Task) Pause(ctx context.Context, pause bool) error {
	return t.requests.Pause(ctx, t.id, pause)
}

// RestartContainer asks for a container that runs to be stopped and started again.
func (t *Task) RestartContainer(ctx context.Context, container string) error {
	return t.requests.RestartContainer(ctx, t.id, container)
}

// StartFault injects a fault for a time, or for 0 until it is stopped. It returns when the task has it.
func (t *Task) StartFault(ctx context.Context, f fault.Fault, duration time.Duration) error {
	if t.Owner != nil {
		return fmt.Errorf("no process owns task %s, and a fault ends with its owner: `podtask agent` becomes one", lifecycle.ShortID(t.id))
	}
	return t.requests.StartFault(ctx, t.id, f, duration)
}

// StopFaults removes the faults that like Matches. If no process owned the task, all of them are removed while it is
// watched.
func (t *Task) StopFaults(ctx context.Context, like fault.Fault) error {
	if t.Owner != nil {
		return nil
	}
	return t.requests.StopFaults(ctx, t.id, like)
}

// Watch calls fn with the task and after each change, until fn returns false, ctx ends or
// no change can follow. It is called once. A local task runs only during Watch.
func (t *Task) Watch(ctx context.Context, fn func(api.Task) bool) error {
	if t.Owner == nil {
		return t.Client.Watch(ctx, t.id, fn)
	}
	return t.drive(ctx, fn)
}

// Close ends the connection, or gives up the ownership.
func (t *Task) Close() {
	if t.Owner == nil {
		t.Client.Close()
	} else if err := t.Owner.Close(); err != nil {
		t.connector.Log.Warn("cannot release the task", "error", err)
	}
}

// drive runs the task while it is watched.
func (t *Task) drive(ctx context.Context, fn func(api.Task) bool) error {
	s, o := t.connector, t.Owner
	run, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var failed error
	wg.Go(func() {
		defer stop() // ends the watch too, should Drive fail early
		failed = s.Drive(run, o, s.Listen(o.State().ID))
	})
	asked := o.State().Goal
	watched := o.Watch(ctx, func(st lifecycle.State) bool {
		asked = max(asked, st.Goal)
		return fn(ownerapi.WithDiskFull(s.FromState(st), o))
	})
	if goal := o.State().Goal; goal == lifecycle.Up || goal < asked || t.leaves && goal == lifecycle.Down && o.Unsaved() {
		stop() // a task that is being stopped or removed is driven to its end, unless that failed or cannot be recorded
	}
	wg.Wait()
	if failed != nil && !errors.Is(failed, context.Canceled) {
		return failed
	}
	return watched
}

// Connect finds the owner of a task: the agent, else an owner of its own. If neither is
// alive, this process becomes its owner.
func (s *Connector) Connect(ctx context.Context, id string) (*Task, error) {
	if r := s.connectAgent(ctx, id); r != nil {
		return r, nil
	}
	wait, cancel := context.WithTimeout(ctx, s.Patience)
	defer cancel()
	retry := time.NewTicker(50 * time.Millisecond)
	defer retry.Stop()
	for {
		c, err := api.Dial(wait, s.Socket(id))
		if err == nil {
			return remote(s, c, id), nil
		}
		if !errors.Is(err, api.ErrNoServer) && wait.Err() == nil {
			s.Log.Debug("the owner's socket", "error", err)
		}
		o, err := s.Engine.Owners.Own(id)
		if err == nil {
			if err := s.Engine.Runtime.CheckStorage(ctx, o.State()); errors.As(err, new(*effects.ElsewhereError)) {
				return nil, errors.Join(err, o.Close())
			}
			return Local(s, o), nil
		}
		if !errors.Is(err, state.ErrLocked) {
			return nil, err
		}
		select {
		case <-retry.C:
		case <-wait.Done():
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return nil, ownerapi.Unreachable(id, err)
		}
	}
}

// RequireAgent connects to the agent for what only the agent can do. An agent on a host with much to do has four times
// as long to answer as in DialAgent, 20 seconds. The error says whether there is none or why it does not answer, and
// what to do.
func (s *Connector) RequireAgent(ctx context.Context) (*api.Client, error) {
	c, err := api.Dial(ctx, s.AgentSocket)
	for again := 0; again < 3 && errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil; again++ {
		c, err = api.Dial(ctx, s.AgentSocket)
	}
	switch {
	case err == nil:
		return c, nil
	case errors.Is(err, api.ErrNoServer):
		return nil, fmt.Errorf("the agent runs services, and none answers on %s: start it with `systemctl --user enable --now podtask.socket podtask.service` or `podtask agent`", s.AgentSocket)
	}
	return nil, fmt.Errorf("the agent runs services, and it does not answer on %s (%w): see `systemctl --user status podtask`", s.AgentSocket, err)
}

// DialAgent connects to the agent; nil if there is none.
func (s *Connector) DialAgent(ctx context.Context) *api.Client {
	c, err := api.Dial(ctx, s.AgentSocket)
	if err != nil {
		if !errors.Is(err, api.ErrNoServer) {
			s.Log.Debug("the agent's socket", "error", err)
		}
		return nil
	}
	return c
}

// connectAgent connects to the task through the agent. It returns nil if there is no agent,
// the agent does not know the task, or another process owns it.
func (s *Connector) connectAgent(ctx context.Context, id string) *Task {
	c := s.DialAgent(ctx)
	if c == nil {
		return nil
	}
	t, err := c.Task(ctx, id)
	if err == nil && t.Owner.Alive {
		var v api.Version
		if v, err = c.Version(ctx); err == nil && v.PID != t.Owner.PID {
			err = errors.New("another process owns the task")
		}
	}
	if err != nil {
		c.Close()
		return nil
	}
	return remote(s, c, id)
}

// ErrOwnersEnd means that one owner after the other exited.
var ErrOwnersEnd = errors.New("its owners exit repeatedly")

// retryStep is added to each pause before the next owner is looked for, up to maxPause.
// Owners are looked for at least minRounds times, and for at least askLimit: on a busy host
// it takes seconds until the process of an owner that has done its work has ended.
const (
	retryStep = 200 * time.Millisecond
	maxPause  = time.Second
	minRounds = 6
	askLimit  = 20 * time.Second
)

// Ask sends a task a request and watches it until done returns true or an error. If the
// owner exits before that, the next owner gets the request again. If the task is removed
// meanwhile, IsGone reports true for the error.
func (s *Connector) Ask(ctx context.Context, id string, ask func(*Task) error, done func(api.Task) (bool, error)) error {
	ended, err := eachOwner(ctx, func() (bool, error) {
		finished, err := s.askOnce(ctx, id, ask, done)
		if finished || err != nil {
			return finished, err
		}
		if _, err := s.Engine.Tasks.Store.Get(id); errors.Is(err, fs.ErrNotExist) {
			return false, &record.NotFoundError{Ref: id} // its owner ended because it is removed
		}
		return false, nil
	})
	if ended {
		return fmt.Errorf("task %s: %w: try again", lifecycle.ShortID(id), ErrOwnersEnd)
	}
	return err
}

// eachOwner calls ask for one owner after the other until it has finished or failed. Ended
// reports that all owners ended before that.
func eachOwner(ctx context.Context, ask func() (finished bool, err error)) (ended bool, err error) {
	began := time.Now()
	for round := 0; round < minRounds || time.Since(began) < askLimit; round++ {
		// An owner that has done its work answers until its process ends.
		if !sleep.For(ctx, min(time.Duration(round)*retryStep, maxPause)) {
			return false, context.Cause(ctx)
		}
		if finished, err := ask(); finished || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (s *Connector) askOnce(ctx context.Context, id string, ask func(*Task) error, done func(api.Task) (bool, error)) (finished bool, err error) {
	r, err := s.Connect(ctx, id)
	if err != nil {
		return false, err
	}
	defer r.Close()
	local := r.Owner != nil
	if ask != nil {
		if err := ask(r); err != nil {
			if local || errors.As(err, new(*api.Failure)) {
				return false, err
			}
			s.Log.Debug("the owner disconnected", "task", id, "error", err)
			return false, ctx.Err()
		}
	}
	var verdict error
	err = r.Watch(ctx, func(t api.Task) bool {
		finished, verdict = done(t)
		return !finished && verdict == nil
	})
	switch {
	case finished || verdict != nil:
		return finished, verdict
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case local, api.Is(err, api.Busy):
		return false, err
	case err != nil:
		s.Log.Debug("the owner disconnected", "task", id, "error", err)
	}
	return false, nil
}
