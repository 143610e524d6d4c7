package schedule

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/podtask/podtask/internal/engine/run/schedule"
	"github.com/podtask/podtask/pkg/cgroups"
)

func (o call) pause(ctx context.Context, names []string) error {
	return o.each(ctx, names, func(m *cgroups.User, s schedule.State) error {
		s.Paused = true
		if err := o.store.Put(s); err != nil {
			return err
		}
		return o.units.Uninstall(ctx, m, s.Name)
	})
}

func (o call) resume(ctx context.Context, names []string) error {
	return o.each(ctx, names, func(m *cgroups.User, s schedule.State) error {
		if s.Paused {
			s.Paused, s.Decided = false, time.Now().UTC()
			if err := o.store.Put(s); err != nil {
				return err
			}
		}
		return o.units.Install(ctx, m, s)
	})
}

func (o call) rm(ctx context.Context, names []string) error {
	return o.each(ctx, names, func(m *cgroups.User, s schedule.State) error {
		s, active, err := o.fold(ctx, s)
		if err != nil {
			return err
		}
		if active && !o.c.Bool("force") {
			return errors.New("a run has not ended: stop it, or give --force")
		}
		if err := o.units.Uninstall(ctx, m, s.Name); err != nil {
			return err
		}
		for _, r := range s.Runs {
			if err := o.stopRun(ctx, r, "podtask schedule rm"); err != nil {
				return err
			}
		}
		return o.store.Delete(s.Name)
	})
}

// each changes schedules while it holds their locks, and prints their names. It goes on after an error.
func (o call) each(ctx context.Context, names []string, change func(*cgroups.User, schedule.State) error) error {
	manager, err := o.manager(ctx)
	if err != nil {
		return err
	}
	defer manager.Close()
	var errs []error
	for _, name := range names {
		if err := o.one(ctx, name, func(s schedule.State) error { return change(manager, s) }); err != nil {
			errs = append(errs, fmt.Errorf("schedule %s: %w", name, err))
			continue
		}
		fmt.Fprintln(o.out, name)
	}
	return errors.Join(errs...)
}

func (o call) one(ctx context.Context, name string, change func(schedule.State) error) error {
	lock, err := o.store.LockWait(ctx, name)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	s, err := o.store.Get(name)
	if err != nil {
		return err
	}
	return change(s)
}
