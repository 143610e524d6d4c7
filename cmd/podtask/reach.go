package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/agent"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/state"
)

// reached is a task that can be asked for things: through the process that owns
// it, or because we own it now.
type reached interface {
	Stop(ctx context.Context, force bool) error
	Remove(ctx context.Context, force bool) error
	// Watch is called once, after the above. It calls fn with the task and each
	// change, until fn returns false, ctx ends or no change can come.
	Watch(ctx context.Context, fn func(api.Task) bool) error
	// Close lets go of the task.
	Close()
}

// reach finds who owns a task: an agent, then an owner; if neither lives, it is us.
func (s *session) reach(ctx context.Context, id, by string) (reached, error) {
	if r := s.reachAgent(ctx, id, by); r != nil {
		return r, nil
	}
	wait, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	retry := time.NewTicker(50 * time.Millisecond)
	defer retry.Stop()
	for {
		c, err := api.Dial(wait, s.socket(id))
		if err == nil {
			return &remoteTask{client: c, id: id, by: by}, nil
		}
		if !errors.Is(err, api.ErrNoServer) && wait.Err() == nil {
			s.log.Debug("the owner's socket", "error", err)
		}
		o, err := s.host.Own(id)
		if err == nil {
			return &localTask{session: s, owner: o, by: by}, nil
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

// reachAgent asks the agent, if there is one and the task is its.
func (s *session) reachAgent(ctx context.Context, id, by string) reached {
	c, err := api.Dial(ctx, s.agentSocket())
	if err != nil {
		return nil
	}
	if _, err := c.Task(ctx, id); err != nil {
		c.Close()
		return nil
	}
	return &remoteTask{client: c, id: id, by: by}
}

// remoteTask is a task that another process owns.
type remoteTask struct {
	client *api.Client
	id, by string
}

func (r *remoteTask) Stop(ctx context.Context, force bool) error {
	return r.client.Stop(ctx, r.id, r.by, force)
}

func (r *remoteTask) Remove(ctx context.Context, force bool) error {
	return r.client.Remove(ctx, r.id, r.by, force)
}

func (r *remoteTask) Watch(ctx context.Context, fn func(api.Task) bool) error {
	return r.client.Watch(ctx, r.id, fn)
}

func (r *remoteTask) Close() { r.client.Close() }

// localTask is a task without a living owner that we took over. It is driven
// while it is watched.
type localTask struct {
	*session
	owner *agent.Owner
	by    string
}

func (l *localTask) Stop(ctx context.Context, force bool) error {
	return ownedTask{l.owner}.Stop(ctx, "", l.by, force)
}

func (l *localTask) Remove(ctx context.Context, force bool) error {
	return ownedTask{l.owner}.Remove(ctx, "", l.by, force)
}

func (l *localTask) Watch(ctx context.Context, fn func(api.Task) bool) error {
	run, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var failed error
	wg.Go(func() {
		defer stop() // ends the watch too, should Run have failed early
		failed = l.carry(run, l.owner, l.listen(l.owner.State().ID))
	})
	watched := l.owner.Watch(ctx, func(s lifecycle.State) bool { return fn(l.fromState(s)) })
	if l.owner.State().Goal == lifecycle.Up {
		stop() // on its way down it is brought to the end
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
	if holder, held := s.host.Holder(st.ID); held {
		t.Owner = api.Owner{PID: holder.PID, Alive: true}
	}
	return t
}

// errHandedOn: a task changed hands again and again.
var errHandedOn = errors.New("its owners keep ending")

// until asks a task for something and watches it until done is satisfied or gives
// an error. When the owner ends before, whoever owns the task next is asked again.
// A task that is removed meanwhile gives an error that isGone knows.
func (s *session) until(ctx context.Context, id, by string, ask func(reached) error, done func(api.Task) (bool, error)) error {
	for range 5 {
		finished, err := s.untilHandedOn(ctx, id, by, ask, done)
		if finished || err != nil {
			return err
		}
	}
	return fmt.Errorf("task %s: %w: try again", shortID(id), errHandedOn)
}

func (s *session) untilHandedOn(ctx context.Context, id, by string, ask func(reached) error, done func(api.Task) (bool, error)) (finished bool, err error) {
	r, err := s.reach(ctx, id, by)
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
