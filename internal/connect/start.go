package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/run/owner"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// Launch is a task that a command starts.
type Launch struct {
	owner.Launch
	// Replace stops and removes the tasks of that name first. Name is not empty then.
	Replace bool
	// Replacing is called with a task before it is stopped; nil if nobody is to know.
	Replacing func(lifecycle.State)
}

// Start starts a task that this process owns: it checks its images, removes the tasks that it replaces, checks this
// host, and records the task. Start prints warnings about the host. The caller runs and closes the owner.
func (s *Connector) Start(ctx context.Context, l Launch) (*owner.Owner, error) {
	if err := s.Engine.Images.CheckLocal(ctx, l.Task, l.Options); err != nil {
		return nil, err // before a task makes room
	}
	if !l.Replace {
		return s.record(ctx, l)
	}
	l.ID = cmp.Or(l.ID, record.NewID())
	if err := s.removeReplaced(ctx, l); err != nil {
		return nil, err
	}
	o, err := s.record(ctx, l)
	if err != nil { // what was kept for the task is given up
		err = errors.Join(err, s.Engine.Queue.Release(context.WithoutCancel(ctx), l.ID))
	}
	return o, err
}

// record checks this host and records the task.
func (s *Connector) record(ctx context.Context, l Launch) (*owner.Owner, error) {
	if err := s.warnOfHost(ctx, l); err != nil {
		return nil, err
	}
	o, err := s.Engine.Creator.Record(ctx, l.Launch)
	if err != nil {
		return nil, err
	}
	if unapplied := o.State().Options.Unapplied; len(unapplied) > 0 {
		s.Warnf("this host cannot apply %s limits, so the task runs without them: `podtask doctor` says how to enable them, and with --limits enforce podtask refuses such tasks", strings.Join(unapplied, " and "))
	}
	return o, nil
}

// Check is the part of Start that changes nothing.
func (s *Connector) Check(ctx context.Context, l Launch) error {
	if err := s.Engine.Images.CheckLocal(ctx, l.Task, l.Options); err != nil {
		return err
	}
	return s.warnOfHost(ctx, l)
}

func (s *Connector) warnOfHost(ctx context.Context, l Launch) error {
	if err := s.Engine.Preflight.Check(ctx, l.Task, l.Options); err != nil {
		return err
	}
	for _, w := range s.Engine.Preflight.Warnings(ctx, l.Task) {
		s.Warnf("%s", w)
	}
	return nil
}

// StartAttended starts a task whose progress this process shows. The agent receives the task if one runs; else this
// process owns it. The agent does not create it, because a definition is read with the files, the environment and the
// configuration of the user's process. Unlock gives up the lock that says that the task is shown.
func (s *Connector) StartAttended(ctx context.Context, l Launch) (task *Task, st lifecycle.State, unlock func() error, err error) {
	o, err := s.Start(ctx, l)
	if err != nil {
		return nil, st, nil, err
	}
	st = o.State()
	if unlock, err = s.Engine.Tasks.LockForeground(st.ID); err != nil {
		return nil, st, nil, errors.Join(err, o.Close())
	}
	if !s.GiveToAgent(ctx, o) {
		return Local(s, o), st, unlock, nil
	}
	// Not canceled by a signal: the task must be reached to stop it.
	if task, err = s.Connect(context.WithoutCancel(ctx), st.ID); err != nil {
		return nil, st, nil, errors.Join(err, unlock())
	}
	return task, st, unlock, nil
}

// StartDetached starts a task in the background: the agent runs it, or a process that starts while the host is checked.
func (s *Launcher) StartDetached(ctx context.Context, l Launch) (lifecycle.State, error) {
	l.ID = record.NewID()
	h := s.beginHandover(ctx, l.ID)
	defer h.close()
	o, err := s.Start(ctx, l)
	if err != nil {
		return lifecycle.State{}, err
	}
	st := o.State()
	if err := h.give(ctx, o); err != nil {
		return st, fmt.Errorf("task %s is recorded, but has no owner: %w; `podtask rm -f %s` forgets it", lifecycle.ShortID(st.ID), err, st.DisplayName())
	}
	return st, nil
}

// removeReplaced stops and removes the tasks whose name a new one gets. Their ports and shares of the host are kept for
// the new one, also if others wait for them.
func (s *Connector) removeReplaced(ctx context.Context, l Launch) error {
	const by = "podtask run --replace"
	states, _ := s.Engine.Tasks.States()
	for _, st := range states {
		if st.Name != l.Name {
			continue
		}
		if st.Status() != lifecycle.StatusStopped {
			if l.Replacing != nil {
				l.Replacing(st)
			}
			if err := s.Engine.Queue.Bequeath(ctx, st.ID, l.ID); err != nil {
				return err
			}
			if err := s.StopTask(ctx, st.ID, by, false, func(api.Task) {}); err != nil {
				return errors.Join(fmt.Errorf("stop the task that is to be replaced: %w", err), s.Engine.Queue.Bequeath(context.WithoutCancel(ctx), st.ID, ""))
			}
		}
		if err := s.Remove(ctx, st.ID, by, true, func(api.Task) {}); err != nil {
			return fmt.Errorf("remove the task that is to be replaced: %w", err)
		}
	}
	return nil
}
