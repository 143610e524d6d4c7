package connect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/agent"
	"github.com/podtask/podtask/internal/console"
	"github.com/podtask/podtask/internal/owner"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/state"
)

// Connector finds the process that owns a task and talks to it, or takes the task over.
type Connector struct {
	Agent *agent.Agent
	Log   *slog.Logger
	// warnf prints a warning for the user.
	Warnf func(format string, args ...any)
	// stateDir holds the records and runtimeDir the sockets; agentSocket is the agent's.
	StateDir, RuntimeDir, AgentSocket string
	// version is this program's.
	ProgramVersion string
	// patience is how long a task may be locked without having a socket: an owner takes
	// the lock first and releases it last.
	Patience time.Duration
}

// Socket is where the owner of a task listens.
func (s *Connector) Socket(id string) string {
	return filepath.Join(s.RuntimeDir, "tasks", id+".sock")
}

// Task is a task that can be sent requests: through the process that owns it, or directly
// because this process owns it.
type Task interface {
	// Stop and Remove take who asks, for the stopped reason.
	Stop(ctx context.Context, by string, force bool) error
	Remove(ctx context.Context, by string, force bool) error
	Update(ctx context.Context, q lifecycle.Quota) error
	Pause(ctx context.Context, pause bool) error
	// Watch calls fn with the task and after each change, until fn returns false, ctx ends
	// or no change can follow. It is called once. A LocalTask runs only during Watch.
	Watch(ctx context.Context, fn func(api.Task) bool) error
	// Close ends the connection, or gives up the ownership.
	Close()
}

// Connect finds the owner of a task: the agent, else an owner of its own. If neither is
// alive, this process takes the task over.
func (s *Connector) Connect(ctx context.Context, id string) (Task, error) {
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
			return &RemoteTask{Client: c, Id: id}, nil
		}
		if !errors.Is(err, api.ErrNoServer) && wait.Err() == nil {
			s.Log.Debug("the owner's socket", "error", err)
		}
		o, err := s.Agent.Owners.Own(id)
		if err == nil {
			return &LocalTask{Connector: s, Owner: o}, nil
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
			return nil, Unreachable(id, err)
		}
	}
}

func Unreachable(id string, err error) error {
	var locked *state.LockedError
	if errors.As(err, &locked) && locked.Holder.PID != 0 {
		return fmt.Errorf("task %s is owned by process %d (%s), which does not answer: end it with `kill -9 %d`, the task runs on, and try again",
			console.ShortID(id), locked.Holder.PID, locked.Holder.Command, locked.Holder.PID)
	}
	return fmt.Errorf("task %s is owned by a process that does not answer: %w", console.ShortID(id), err)
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
func (s *Connector) connectAgent(ctx context.Context, id string) Task {
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
	return &RemoteTask{Client: c, Id: id}
}

// RemoteTask is a task that another process owns.
type RemoteTask struct {
	Client *api.Client
	Id     string
}

func (r *RemoteTask) Stop(ctx context.Context, by string, force bool) error {
	return r.Client.Stop(ctx, r.Id, by, force)
}

func (r *RemoteTask) Remove(ctx context.Context, by string, force bool) error {
	return r.Client.Remove(ctx, r.Id, by, force)
}

func (r *RemoteTask) Update(ctx context.Context, q lifecycle.Quota) error {
	return r.Client.Update(ctx, r.Id, q)
}

func (r *RemoteTask) Pause(ctx context.Context, pause bool) error {
	return r.Client.Pause(ctx, r.Id, pause)
}

func (r *RemoteTask) Watch(ctx context.Context, fn func(api.Task) bool) error {
	return r.Client.Watch(ctx, r.Id, fn)
}

func (r *RemoteTask) Close() { r.Client.Close() }

// LocalTask is a task that this process owns. It is driven while it is watched.
type LocalTask struct {
	*Connector
	Owner *owner.Owner
}

func (l *LocalTask) Stop(ctx context.Context, by string, force bool) error {
	return OwnerBackend{Owner: l.Owner}.Stop(ctx, "", by, force)
}

func (l *LocalTask) Remove(ctx context.Context, by string, force bool) error {
	return OwnerBackend{Owner: l.Owner}.Remove(ctx, "", by, force)
}

func (l *LocalTask) Update(ctx context.Context, q lifecycle.Quota) error {
	return OwnerBackend{Owner: l.Owner}.Update(ctx, "", q)
}

func (l *LocalTask) Pause(ctx context.Context, pause bool) error {
	return OwnerBackend{Owner: l.Owner, History: History{l.Connector.Agent}}.Pause(ctx, "", pause)
}

func (l *LocalTask) Watch(ctx context.Context, fn func(api.Task) bool) error {
	run, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var failed error
	wg.Go(func() {
		defer stop() // ends the watch too, should Run have failed early
		failed = l.Drive(run, l.Owner, l.Listen(l.Owner.State().ID))
	})
	asked := l.Owner.State().Goal
	watched := l.Owner.Watch(ctx, func(s lifecycle.State) bool {
		asked = max(asked, s.Goal)
		return fn(withDisk(l.FromState(s), l.Owner))
	})
	if goal := l.Owner.State().Goal; goal == lifecycle.Up || goal < asked {
		stop() // on its way down it is brought to the end, unless that was given up
	}
	wg.Wait()
	if failed != nil && !errors.Is(failed, context.Canceled) {
		return failed
	}
	return watched
}

func (l *LocalTask) Close() {
	if err := l.Owner.Close(); err != nil {
		l.Log.Warn("cannot release the task", "error", err)
	}
}

// FromState returns a recorded task with the owner that holds its lock.
func (s *Connector) FromState(st lifecycle.State) api.Task {
	t := api.FromState(st)
	if st.Goal == lifecycle.Up && st.Sandbox.Reservation == lifecycle.ReservationRequested && t.Queue == "" {
		t.Queue = s.Agent.Queue.Waiting()[st.ID].String()
	}
	if holder, held := s.Agent.Tasks.Holder(st.ID); held {
		t.Owner = api.Owner{PID: holder.PID, Alive: true}
	}
	return t
}

// errOwnersKeepEnding means that one owner after the other exited.
var ErrOwnersEnd = errors.New("its owners keep ending")

// retryStep is added to each pause before the next owner is looked for.
const retryStep = 200 * time.Millisecond

// Ask sends a task a request and watches it until done returns true or an error. If the
// owner exits before that, the next owner gets the request again. If the task is removed
// meanwhile, IsGone reports true for the error.
func (s *Connector) Ask(ctx context.Context, id string, ask func(Task) error, done func(api.Task) (bool, error)) error {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for round := range 6 {
		// An owner that has done its work answers until its process ends.
		pause.Reset(time.Duration(round) * retryStep)
		select {
		case <-pause.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		finished, err := s.askOnce(ctx, id, ask, done)
		if finished || err != nil {
			return err
		}
	}
	return fmt.Errorf("task %s: %w: try again", console.ShortID(id), ErrOwnersEnd)
}

func (s *Connector) askOnce(ctx context.Context, id string, ask func(Task) error, done func(api.Task) (bool, error)) (finished bool, err error) {
	r, err := s.Connect(ctx, id)
	if err != nil {
		return false, err
	}
	defer r.Close()
	_, local := r.(*LocalTask)
	if ask != nil {
		if err := ask(r); err != nil {
			if local || errors.As(err, new(*api.Failure)) {
				return false, err
			}
			s.Log.Debug("the owner went away", "task", id, "error", err)
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
	case local:
		return false, err
	case err != nil:
		s.Log.Debug("the owner went away", "task", id, "error", err)
	}
	return false, nil
}
