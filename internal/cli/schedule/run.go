package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/run/owner"
	"github.com/podtask/podtask/internal/engine/run/schedule"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// run runs a schedule now, or with --due if its time has come.
func (o call) run(ctx context.Context, args []string) error {
	lock, err := o.store.LockWait(ctx, args[0])
	if err != nil {
		return err
	}
	defer lock.Unlock()
	s, err := o.store.Get(args[0])
	if errors.As(err, new(*schedule.NotFoundError)) && o.c.Bool("due") {
		return nil // removed since the timer elapsed; a failure would start this again
	}
	if err != nil {
		return err
	}
	if o.c.Bool("due") {
		return o.runDue(ctx, s)
	}
	s, active, err := o.fold(ctx, s)
	if err != nil {
		return err
	}
	if active && s.Overlap == schedule.Forbid {
		return fmt.Errorf("a run of %s has not ended, and its rule for overlaps is forbid: `podtask schedule history %s` shows it", s.Name, s.Name)
	}
	s = schedule.ByHand(s, time.Now().UTC(), record.NewID())
	if err := o.store.Put(s); err != nil {
		return err
	}
	last := s.Runs[len(s.Runs)-1]
	if _, err := o.start(ctx, s, len(s.Runs)-1); err != nil {
		return err
	}
	_, err = fmt.Fprintln(o.out, last.Task)
	return err
}

// runDue starts what a process before has decided and not started, then decides and starts what is due. A timer that
// elapses meanwhile starts no second process, so it looks again until nothing is due.
func (o call) runDue(ctx context.Context, s schedule.State) error {
	for {
		var err, pending error
		if s, _, err = o.fold(ctx, s); err != nil {
			return err
		}
		s, pending = o.startPending(ctx, s)
		_, _, active := schedule.Fold(s, o.tasks.Lookup)
		now := time.Now().UTC()
		due, err := o.calendar.Between(ctx, s.Calendar, s.Decided, now)
		if err != nil {
			return errors.Join(err, pending)
		}
		next, changed := schedule.Decide(s, now, due, active)
		if !changed {
			return pending
		}
		if err := o.save(ctx, s, next); err != nil {
			return err
		}
		s = next
	}
}

// startPending starts the runs whose task is to be created. The error is the last one.
func (o call) startPending(ctx context.Context, s schedule.State) (_ schedule.State, failed error) {
	for i := range s.Runs {
		if s.Runs[i].Status != schedule.Starting {
			continue
		}
		if _, found := o.tasks.Lookup(s.Runs[i].Task); !found {
			if late, changed := schedule.GiveUp(s, i, time.Now()); changed {
				if err := o.save(ctx, s, late); err != nil {
					return s, err
				}
				s = late
				continue
			}
		}
		var err error
		if s, err = o.start(ctx, s, i); err != nil && s.Runs[i].Status == schedule.Starting {
			failed = fmt.Errorf("start the run of %s: %w", s.Runs[i].Due, err)
		}
	}
	return s, failed
}

// settleLimit bounds the wait until a task whose owner is gone, as after a reboot, is recorded as stopped.
const settleLimit = 10 * time.Second

// fold notes which tasks have ended. A task without an owner gets one: it has not begun yet, or ended with the host.
func (o call) fold(ctx context.Context, s schedule.State) (_ schedule.State, active bool, err error) {
	s, changed, active := schedule.Fold(s, o.tasks.Lookup)
	if changed {
		if err := o.store.Put(s); err != nil {
			return s, active, err
		}
	}
	orphans := 0
	for _, r := range s.Runs {
		if t, found := o.tasks.Lookup(r.Task); r.Status == schedule.Running && found && !t.Settled() && !o.tasks.Owned(r.Task) {
			if err := o.adopt(ctx, r.Task); err != nil {
				return s, active, err
			}
			orphans++
			limited, cancel := context.WithTimeout(ctx, settleLimit)
			_ = o.tasks.Watch(limited, r.Task, func(lifecycle.State) bool { return true }) // it may run on
			cancel()
		}
	}
	if orphans > 0 {
		s, changed, active = schedule.Fold(s, o.tasks.Lookup)
		if changed {
			err = o.store.Put(s)
		}
	}
	return s, active, err
}

// adopt gives a task that exists an owner, unless it has one.
func (o call) adopt(ctx context.Context, id string) error {
	own, err := o.owners.Own(id)
	if errors.Is(err, state.ErrLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	return o.launcher.HandOver(ctx, own)
}

// start creates the task of a run, notes that, and gives the task an owner. That order lets no run get lost, and
// none begin twice: a task without an owner has not begun, and one that is noted is not created again.
func (o call) start(ctx context.Context, s schedule.State, i int) (schedule.State, error) {
	r := s.Runs[i]
	if _, found := o.tasks.Lookup(r.Task); found {
		s.Runs[i].Status = schedule.Running
		if err := o.store.Put(s); err != nil {
			return s, err
		}
		return s, o.adopt(ctx, r.Task)
	}
	if s.Overlap == schedule.Replace {
		if err := o.stopEarlier(ctx, s, i); err != nil {
			return o.failed(ctx, s, i, err)
		}
	}
	for name, value := range s.Files {
		o.secrets.Provide(name, value)
	}
	own, err := o.creator.Launch(ctx, owner.Launch{ID: r.Task, Task: s.Task, Name: s.TaskName(r), NameOptional: true, Options: s.Options})
	if err != nil {
		return o.failed(ctx, s, i, err)
	}
	s.Runs[i].Status, s.Runs[i].Reason = schedule.Running, ""
	if err := o.store.Put(s); err != nil {
		return s, errors.Join(err, own.Close())
	}
	return s, o.launcher.HandOver(ctx, own)
}

// failed notes why a run could not be started.
func (o call) failed(ctx context.Context, s schedule.State, i int, cause error) (schedule.State, error) {
	next, _ := schedule.StartFailed(s, i, time.Now(), cause)
	return next, errors.Join(cause, o.save(ctx, s, next))
}

// save saves a schedule, and before that adds to the event log which runs were missed or have failed to begin: after a
// kill in between, that is there twice rather than never.
func (o call) save(ctx context.Context, before, next schedule.State) error {
	for _, r := range next.Runs {
		status := map[schedule.Status]string{schedule.Missed: record.RunMissed, schedule.Failed: record.RunFailed}[r.Status]
		if status == "" || slices.ContainsFunc(before.Runs, func(b schedule.Run) bool { return b.Due.Equal(r.Due) && b.Manual == r.Manual && b.Status == r.Status }) {
			continue
		}
		t := lifecycle.Transition{At: time.Now().UTC(), Status: status, Reason: r.Reason}
		if err := o.events.Report(ctx, record.ScheduledRun, next.Name, "", t); err != nil {
			o.warn("%v", err)
		}
	}
	return o.store.Put(next)
}

// stopEarlier stops the tasks of earlier runs.
func (o call) stopEarlier(ctx context.Context, s schedule.State, i int) error {
	for _, r := range s.Runs[:i] {
		if err := o.stopRun(ctx, r, "the next run of schedule "+s.Name); err != nil {
			return err
		}
	}
	return nil
}

// stopRun stops the task of a run if it has not ended.
func (o call) stopRun(ctx context.Context, r schedule.Run, by string) error {
	if r.Status != schedule.Running {
		return nil
	}
	t, found := o.tasks.Lookup(r.Task)
	if !found || t.Status() == lifecycle.StatusStopped {
		return nil
	}
	if err := o.launcher.StopTask(ctx, r.Task, by, false, func(api.Task) {}); err != nil {
		return fmt.Errorf("stop the run of %s: %w", r.Due.Format(time.RFC3339), err)
	}
	return nil
}
