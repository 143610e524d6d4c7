package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/owner"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/state"
)

// reached is a task that can be asked for things: through the process that owns
// it, or because we own it now.
type reached interface {
	// By says who asks, for the stopped reason.
	Stop(ctx context.Context, by string, force bool) error
	Remove(ctx context.Context, by string, force bool) error
	Update(ctx context.Context, q lifecycle.Quota) error
	Pause(ctx context.Context, pause bool) error
	// Watch is called once. A task that is ours moves only while it is watched. It calls fn with the task and each
	// change, until fn returns false, ctx ends or no change can come.
	Watch(ctx context.Context, fn func(api.Task) bool) error
	// Close lets go of the task.
	Close()
}

// reach finds who owns a task: an agent, then an owner; if neither lives, it is us.
func (s *session) reach(ctx context.Context, id string) (reached, error) {
	if r := s.reachAgent(ctx, id); r != nil {
		return r, nil
	}
	wait, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	retry := time.NewTicker(50 * time.Millisecond)
	defer retry.Stop()
	for {
		c, err := api.Dial(wait, s.socket(id))
		if err == nil {
			return &remoteTask{client: c, id: id}, nil
		}
		if !errors.Is(err, api.ErrNoServer) && wait.Err() == nil {
			s.log.Debug("the owner's socket", "error", err)
		}
		o, err := s.host.Owners.Own(id)
		if err == nil {
			return &localTask{session: s, owner: o}, nil
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
			return nil, unreachable(id, err)
		}
	}
}

func unreachable(id string, err error) error {
	var locked *state.LockedError
	if errors.As(err, &locked) && locked.Holder.PID != 0 {
		return fmt.Errorf("task %s is owned by process %d (%s), which does not answer: end it with `kill -9 %d`, the task runs on, and try again",
			shortID(id), locked.Holder.PID, locked.Holder.Command, locked.Holder.PID)
	}
	return fmt.Errorf("task %s is owned by a process that does not answer: %w", shortID(id), err)
}

// dialAgent connects to the agent; nil if there is none.
func (s *session) dialAgent(ctx context.Context) *api.Client {
	c, err := api.Dial(ctx, s.agentSocket())
	if err != nil {
		if !errors.Is(err, api.ErrNoServer) {
			s.log.Debug("the agent's socket", "error", err)
		}
		return nil
	}
	return c
}

// reachAgent asks the agent, if there is one that knows the task, unless another
// process owns it.
func (s *session) reachAgent(ctx context.Context, id string) reached {
	c := s.dialAgent(ctx)
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
	return &remoteTask{client: c, id: id}
}

// remoteTask is a task that another process owns.
type remoteTask struct {
	client *api.Client
	id     string
}

func (r *remoteTask) Stop(ctx context.Context, by string, force bool) error {
	return r.client.Stop(ctx, r.id, by, force)
}

func (r *remoteTask) Remove(ctx context.Context, by string, force bool) error {
	return r.client.Remove(ctx, r.id, by, force)
}

func (r *remoteTask) Update(ctx context.Context, q lifecycle.Quota) error {
	return r.client.Update(ctx, r.id, q)
}

func (r *remoteTask) Pause(ctx context.Context, pause bool) error {
	return r.client.Pause(ctx, r.id, pause)
}

func (r *remoteTask) Watch(ctx context.Context, fn func(api.Task) bool) error {
	return r.client.Watch(ctx, r.id, fn)
}

func (r *remoteTask) Close() { r.client.Close() }

// localTask is a task without a living owner that we took over. It is driven
// while it is watched.
type localTask struct {
	*session
	owner *owner.Owner
}

func (l *localTask) Stop(ctx context.Context, by string, force bool) error {
	return ownedTask{taskOwner: l.owner}.Stop(ctx, "", by, force)
}

func (l *localTask) Remove(ctx context.Context, by string, force bool) error {
	return ownedTask{taskOwner: l.owner}.Remove(ctx, "", by, force)
}

func (l *localTask) Update(ctx context.Context, q lifecycle.Quota) error {
	return ownedTask{taskOwner: l.owner}.Update(ctx, "", q)
}

func (l *localTask) Pause(ctx context.Context, pause bool) error {
	return ownedTask{taskOwner: l.owner, history: history{l.host}}.Pause(ctx, "", pause)
}

func (l *localTask) Watch(ctx context.Context, fn func(api.Task) bool) error {
	run, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var failed error
	wg.Go(func() {
		defer stop() // ends the watch too, should Run have failed early
		failed = l.carry(run, l.owner, l.listen(l.owner.State().ID))
	})
	asked := l.owner.State().Goal
	watched := l.owner.Watch(ctx, func(s lifecycle.State) bool {
		asked = max(asked, s.Goal)
		return fn(l.fromState(s))
	})
	if goal := l.owner.State().Goal; goal == lifecycle.Up || goal < asked {
		stop() // on its way down it is brought to the end, unless that was given up
	}
	wg.Wait()
	if failed != nil && !errors.Is(failed, context.Canceled) {
		return failed
	}
	return watched
}

func (l *localTask) Close() {
	if err := l.owner.Close(); err != nil {
		l.log.Warn("let go of the task", "error", err)
	}
}

// fromState is a recorded task with the owner that its lock tells of.
func (s *session) fromState(st lifecycle.State) api.Task {
	t := api.FromState(st)
	if st.Goal == lifecycle.Up && st.Sandbox.Reservation == lifecycle.ReservationRequested && t.Queue == "" {
		t.Queue = s.host.Queue.Waiting()[st.ID].String()
	}
	if holder, held := s.host.Tasks.Holder(st.ID); held {
		t.Owner = api.Owner{PID: holder.PID, Alive: true}
	}
	return t
}

// errHandedOn: a task changed hands again and again.
var errHandedOn = errors.New("its owners keep ending")

// handOn is how much longer each pause is before the next owner is looked for.
const handOn = 200 * time.Millisecond

// until asks a task for something and watches it until done is satisfied or gives
// an error. When the owner ends before, whoever owns the task next is asked again.
// A task that is removed meanwhile gives an error that isGone knows.
func (s *session) until(ctx context.Context, id string, ask func(reached) error, done func(api.Task) (bool, error)) error {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for round := range 6 {
		// An owner that has done its work answers until its process ends.
		pause.Reset(time.Duration(round) * handOn)
		select {
		case <-pause.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		finished, err := s.untilHandedOn(ctx, id, ask, done)
		if finished || err != nil {
			return err
		}
	}
	return fmt.Errorf("task %s: %w: try again", shortID(id), errHandedOn)
}

func (s *session) untilHandedOn(ctx context.Context, id string, ask func(reached) error, done func(api.Task) (bool, error)) (finished bool, err error) {
	r, err := s.reach(ctx, id)
	if err != nil {
		return false, err
	}
	defer r.Close()
	_, local := r.(*localTask)
	if ask != nil {
		if err := ask(r); err != nil {
			if local || errors.As(err, new(*api.Failure)) {
				return false, err
			}
			s.log.Debug("the owner went away", "task", id, "error", err)
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
		s.log.Debug("the owner went away", "task", id, "error", err)
	}
	return false, nil
}
