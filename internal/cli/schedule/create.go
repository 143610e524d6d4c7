package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/engine/record"
	"github.com/podtask/podtask/internal/engine/schedule"
	"github.com/podtask/podtask/pkg/taskdef"
)

// create checks the definition and the times, and records the schedule before it makes the timer.
func (o call) create(ctx context.Context, args []string) error {
	s, err := o.times(ctx, args[0])
	if err != nil {
		return err
	}
	manager, err := o.manager(ctx)
	if err != nil {
		return fmt.Errorf("no schedule without systemd's user manager, whose timers wake it: %w", err)
	}
	defer manager.Close()
	if err := o.define(ctx, args[1], &s); err != nil {
		return err
	}
	unlock, err := o.store.Lock(ctx, s.Name)
	if err != nil {
		return err
	}
	defer unlock()
	var none *schedule.NotFoundError
	if _, err := o.store.Get(s.Name); !errors.As(err, &none) {
		return errors.Join(fmt.Errorf("there is a schedule %s: `podtask schedule rm %s` removes it", s.Name, s.Name), err)
	}
	if service, _, _, err := o.unitPaths(s.Name); err != nil {
		return err
	} else if _, err := os.Lstat(service); err == nil {
		return fmt.Errorf("%s is there already: a schedule %s of another state directory, or a unit of yours", service, s.Name)
	}
	if err := o.store.Put(s); err != nil {
		return err
	}
	if err := o.install(ctx, manager, s); err != nil {
		return fmt.Errorf("the schedule is recorded, but has no timer: %w; `podtask schedule resume %s` tries again", err, s.Name)
	}
	o.warnOfLogout()
	_, err = fmt.Fprintln(o.out, s.Name)
	return err
}

// times reads the name and the flags about times.
func (o call) times(ctx context.Context, name string) (schedule.State, error) {
	path := command.Path(o.c)
	now := time.Now().UTC()
	s := schedule.State{
		ID: record.NewID(), Name: name, Overlap: schedule.Overlap(o.c.String("overlap")), CatchUp: o.c.Bool("catch-up"),
		Created: now, Decided: now, Source: strings.Join(o.c.StringSlice("at"), "; "),
	}
	if err := schedule.CheckName(name); err != nil {
		return s, command.Usagef(path, "%v", err)
	}
	if !slices.Contains(schedule.Overlaps, s.Overlap) {
		return s, command.Usagef(path, "--overlap is forbid, replace or allow, not %q", s.Overlap)
	}
	if len(o.c.StringSlice("at")) == 0 {
		return s, command.Usagef(path, "--at is missing: when is it due? --at 'Mon..Fri 03:00'")
	}
	var errs []error
	for _, at := range o.c.StringSlice("at") {
		if zone := o.c.String("timezone"); zone != "" {
			at += " " + zone
		}
		errs = append(errs, o.calendar.Check(ctx, at))
		s.Calendar = append(s.Calendar, at)
	}
	return s, errors.Join(errs...)
}

// define reads the definition of a schedule.
func (o call) define(ctx context.Context, name string, s *schedule.State) error {
	d, err := o.definition(o.c, name)
	if err != nil {
		return err
	}
	if d.Changes.Environment, err = command.ReadEnv(o.environ, command.Path(o.c), o.c.StringSlice("env-file"), o.c.StringSlice("env")); err != nil {
		return err
	}
	_, f, err := d.Read()
	if err != nil {
		return err
	}
	if !f.Runnable(o.errOut) {
		return command.ExitStatus(command.ExitOwnFailure)
	}
	o.defaults(s)
	if s.Task, s.Files, err = f.Definition.PrepareCopies(ctx, o.secrets); err != nil {
		return err
	}
	if err := checkSources(s.Task, s.Files); err != nil {
		return err
	}
	for _, w := range o.preflight.Warnings(ctx, s.Task) {
		o.warn("%s", w)
	}
	return nil
}

// checkSources refuses secrets that only this process can read: nobody is there when the schedule is due.
func checkSources(t taskdef.Task, files map[string][]byte) error {
	var errs []error
	for _, c := range t.Containers {
		for _, secret := range c.Secrets {
			name, inEnv := strings.CutPrefix(secret.Source, "env:")
			if _, provided := files[name]; inEnv && !provided {
				errs = append(errs, fmt.Errorf("container %s: the secret %s comes from the variable %s of this process, which does not exist when the schedule is due: use podman:NAME or file:PATH", c.Name, cmp.Or(secret.Name, name), name))
			}
		}
	}
	return errors.Join(errs...)
}

// warnOfLogout warns if the user manager ends with the last session.
func (o options) warnOfLogout() {
	user := o.getenv("USER")
	if user == "" {
		return
	}
	if _, err := os.Stat("/var/lib/systemd/linger/" + user); err != nil {
		o.warn("schedules are woken only while %s is logged in: `loginctl enable-linger %s`, as root, changes that", user, user)
	}
}
