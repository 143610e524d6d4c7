package schedule

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/define/pod"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/run/schedule"
	"github.com/podtask/podtask/internal/host/doctor"
	"github.com/podtask/podtask/pkg/taskdef"
)

// create checks the definition and the times, and records the schedule before it makes the timer.
func (o call) create(ctx context.Context, args []string) error {
	s, err := o.parse(args[0])
	if err != nil {
		return err
	}
	manager, err := o.manager(ctx)
	if err != nil {
		return fmt.Errorf("no schedule without systemd's user manager, whose timers wake it: %w", err)
	}
	defer manager.Close()
	cron, err := o.define(ctx, args[1], &s)
	if err != nil {
		return err
	}
	if err := o.times(ctx, &s, cron); err != nil {
		return err
	}
	lock, err := o.store.LockWait(ctx, s.Name)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	var none *schedule.NotFoundError
	if _, err := o.store.Get(s.Name); !errors.As(err, &none) {
		return errors.Join(fmt.Errorf("there is a schedule %s: `podtask schedule rm %s` removes it", s.Name, s.Name), err)
	}
	if err := o.units.Free(s.Name); err != nil {
		return err
	}
	if err := o.store.Put(s); err != nil {
		return err
	}
	if s.Paused {
		why := "as spec.suspend says"
		if o.c.Bool("paused") {
			why = "as --paused says"
		}
		o.warn("the schedule is paused, %s: `podtask schedule resume %s` continues it", why, s.Name)
		_, err := fmt.Fprintln(o.out, s.Name)
		return err
	}
	if err := o.units.Install(ctx, manager, s); err != nil {
		return fmt.Errorf("the schedule is recorded, but has no timer: %w; `podtask schedule resume %s` tries again", err, s.Name)
	}
	o.warnOfLogout()
	_, err = fmt.Fprintln(o.out, s.Name)
	return err
}

// parse reads the name and the flags.
func (o call) parse(name string) (schedule.State, error) {
	path := command.Path(o.c)
	now := time.Now().UTC()
	s := schedule.State{ID: record.NewID(), Name: name, Created: now, Decided: now}
	if err := schedule.CheckName(name); err != nil {
		return s, command.Usagef(path, "%v", err)
	}
	if o := o.c.String("overlap"); !slices.Contains(schedule.Overlaps, schedule.Overlap(o)) {
		return s, command.Usagef(path, "--overlap is forbid, replace or allow, not %q", o)
	}
	return s, nil
}

// times reads when a schedule is due: --at, or what the manifest of a CronJob says. All problems are reported at once.
func (o call) times(ctx context.Context, s *schedule.State, cron *pod.CronJob) error {
	t := schedule.Times{At: o.c.StringSlice("at"), Zone: o.c.String("timezone"), Paused: o.c.Bool("paused")}
	if o.c.IsSet("overlap") || cron == nil {
		t.Overlap = schedule.Overlap(o.c.String("overlap"))
	}
	if o.c.IsSet("catch-up") {
		catchUp := o.c.Bool("catch-up")
		t.CatchUp = &catchUp
	}
	if len(t.At) == 0 && cron == nil {
		return command.Usagef(command.Path(o.c), "--at is missing: when is it due? --at 'Mon..Fri 03:00'")
	}
	return t.Set(ctx, o.calendar, s, cron)
}

// define reads the definition of a schedule, and what it says about times if it is a CronJob.
func (o call) define(ctx context.Context, name string, s *schedule.State) (*pod.CronJob, error) {
	d, err := o.definition(o.c, name)
	if err != nil {
		return nil, err
	}
	_, f, err := d.Read()
	if err != nil {
		return nil, err
	}
	cron := f.Definition.Manifest.CronJob
	if cron != nil { // its warning is that podtask would run the Pod once
		f.Warnings = slices.DeleteFunc(f.Warnings, func(w taskdef.Problem) bool { return w.Pointer == "/kind" })
	}
	if !f.Runnable(o.errOut) {
		return nil, command.ExitStatus(command.ExitOwnFailure)
	}
	for _, line := range f.Definition.Lowered {
		o.warn("%s", line)
	}
	if err := f.Lock.CheckBuilt(ctx, o.images); err != nil {
		return nil, err
	}
	o.defaults(s)
	if s.Task, s.Files, err = f.Definition.PrepareCopies(ctx, o.secrets); err != nil {
		return nil, err
	}
	if err := schedule.CheckSources(s.Task, s.Files); err != nil {
		return nil, err
	}
	for _, w := range o.preflight.Warnings(ctx, s.Task) {
		o.warn("%s", w)
	}
	return cron, nil
}

// warnOfLogout warns if the user manager ends with the last session.
func (o options) warnOfLogout() {
	user := o.getenv("USER")
	if user == "" {
		return
	}
	if _, err := os.Stat(doctor.LingerFile(user)); err != nil {
		o.warn("schedules are woken only while %s is logged in: `loginctl enable-linger %s`, as root, changes that", user, doctor.LingerUser(user, os.Getuid()))
	}
}
