package schedule

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/engine/run/schedule"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/podtask/podtask/pkg/lifecycle"
)

func newRun(r schedule.Run, now time.Time) console.ScheduleRun {
	out := console.ScheduleRun{Due: r.Due, Manual: r.Manual, Status: string(r.Status), ExitCode: r.ExitCode, Task: r.Task, Missed: r.Missed, Reason: r.Reason}
	end := r.Ended
	if r.Status == schedule.Running {
		end = now
	}
	if !end.IsZero() {
		seconds := float64(end.Sub(r.Begun).Milliseconds()) / 1000
		out.Seconds = &seconds
	}
	return out
}

func took(r console.ScheduleRun) string {
	if r.Seconds == nil {
		return command.NoValue
	}
	return console.Span(time.Duration(*r.Seconds * float64(time.Second)))
}

func code(r console.ScheduleRun) string {
	if r.ExitCode == nil {
		return command.NoValue
	}
	return strconv.Itoa(*r.ExitCode)
}

func note(r console.ScheduleRun) string {
	switch {
	case r.Missed > 0 && r.Reason != "":
		return fmt.Sprintf("%s; %d earlier times had no run", r.Reason, r.Missed)
	case r.Missed > 0:
		return fmt.Sprintf("%d earlier times had no run", r.Missed)
	case r.Reason == "" && r.Manual:
		return "by hand"
	}
	return r.Reason
}

func stamp(t *time.Time) string {
	if t == nil {
		return command.NoValue
	}
	return t.Local().Format("Mon 2006-01-02 15:04:05")
}

// lister lists schedules. It is not safe for concurrent use.
type lister struct {
	store    *schedule.Store
	find     func(id string) (lifecycle.State, bool)
	manager  func(ctx context.Context) (*cgroups.User, error)
	calendar schedule.SystemdCalendar
	// next has the next times that were asked for before, by the calendars: the answer is a process of systemd.
	next map[string]time.Time
}

// list returns the schedules, and those of a problem with as much as is known.
func (l *lister) list(ctx context.Context, now time.Time) (rows []console.Schedule, err error) {
	all, err := l.store.All()
	if len(all) == 0 {
		return []console.Schedule{}, err
	}
	manager, dialErr := l.manager(ctx)
	if dialErr == nil {
		defer manager.Close()
	}
	for _, s := range all {
		s, _, _ = schedule.Fold(s, l.find)
		r := console.Schedule{Name: s.Name, State: "active", At: s.Source, Overlap: string(s.Overlap), CatchUp: s.CatchUp, Family: s.Task.Family}
		if n := len(s.Runs); n > 0 {
			last := newRun(s.Runs[n-1], now)
			r.Last = &last
		}
		switch {
		case s.Paused:
			r.State = "paused"
		case dialErr != nil:
			r.State = "no-timer"
		default:
			if state, stateErr := manager.ActiveState(ctx, schedule.TimerName(s.Name)); stateErr != nil || state != "active" {
				r.State = "no-timer"
			}
		}
		if !s.Paused {
			next, nextErr := l.nextOf(ctx, s.Calendar, now)
			err = errors.Join(err, nextErr)
			if !next.IsZero() {
				r.Next = &next
			}
		}
		rows = append(rows, r)
	}
	return rows, err
}

func (l *lister) nextOf(ctx context.Context, calendar []string, now time.Time) (time.Time, error) {
	key := strings.Join(calendar, "\n")
	if next, known := l.next[key]; known && now.Before(next) {
		return next, nil
	}
	next, err := l.calendar.Next(ctx, calendar, now)
	if err == nil && l.next != nil {
		l.next[key] = next
	}
	return next, err
}

// newBeside returns a function that lists the schedules of this host for a view of it.
func newBeside(m *command.Machine) func(ctx context.Context) (console.Beside, error) {
	store, err := schedule.Open(m.Connector.StateDir, state.OS{})
	if err != nil {
		return func(context.Context) (b console.Beside, _ error) { return b, err }
	}
	getenv := m.Program.Getenv
	l := &lister{store, m.Engine.Tasks.Lookup, func(ctx context.Context) (*cgroups.User, error) { return cgroups.Dial(ctx, getenv) }, schedule.SystemdCalendar{Path: getenv("PATH")}, map[string]time.Time{}}
	return func(ctx context.Context) (b console.Beside, err error) {
		b.Schedules, err = l.list(ctx, time.Now())
		return b, err
	}
}

func (o call) list(ctx context.Context, _ []string) error {
	if err := command.CheckFormat(o.c); err != nil {
		return err
	}
	l := lister{o.store, o.tasks.Lookup, o.manager, o.calendar, nil}
	rows, err := l.list(ctx, time.Now())
	type row = console.Schedule
	return errors.Join(command.Listing[row]{Items: rows, ID: func(r row) string { return r.Name }, Hints: o.errOut, None: "There are no schedules. Create one with `podtask schedule create NAME FILE --at TIME`.", Columns: []command.Column[row]{
		{Head: "NAME", Cell: func(r row) string { return r.Name }},
		{Head: "STATE", Cell: func(r row) string { return r.State }},
		{Head: "AT", Cell: func(r row) string { return r.At }},
		{Head: "NEXT", Cell: func(r row) string { return stamp(r.Next) }},
		{Head: "LAST", Cell: func(r row) string {
			if r.Last == nil {
				return command.NoValue
			}
			return stamp(&r.Last.Due)
		}},
		{Head: "RESULT", Cell: console.Schedule.Result},
		{Head: "FAMILY", Cell: func(r row) string { return r.Family }, Wide: true, Repeats: func(r row) bool { return r.Family == r.Name }},
		{Head: "OVERLAP", Cell: func(r row) string { return r.Overlap }, Wide: true},
		{Head: "CATCH-UP", Cell: func(r row) string { return strconv.FormatBool(r.CatchUp) }, Wide: true},
	}}.Print(o.out, o.c), err)
}

func (o call) history(_ context.Context, args []string) error {
	if err := command.CheckFormat(o.c); err != nil {
		return err
	}
	s, err := o.store.Get(args[0])
	if err != nil {
		return err
	}
	s, _, _ = schedule.Fold(s, o.tasks.Lookup)
	type run = console.ScheduleRun
	rows := []run{}
	for i := len(s.Runs) - 1; i >= 0; i-- {
		rows = append(rows, newRun(s.Runs[i], time.Now()))
	}
	return command.Listing[run]{Items: rows, Hints: o.errOut, Columns: []command.Column[run]{
		{Head: "DUE", Cell: func(r run) string { return stamp(&r.Due) }, Order: func(a, b run) int { return a.Due.Compare(b.Due) }},
		{Head: "STATUS", Cell: func(r run) string { return r.Status }},
		{Head: "EXIT CODE", Cell: code},
		{Head: "TOOK", Cell: took},
		{Head: "TASK", Cell: shortTask},
		{Head: "NOTE", Cell: note},
	}}.Print(o.out, o.c)
}

func shortTask(r console.ScheduleRun) string {
	if r.Task == "" {
		return command.NoValue
	}
	return r.Task[:12]
}
