package schedule

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/engine/run/schedule"
)

// row is a schedule in `schedule ls`.
type row struct {
	Name string `json:"name"`
	// State is active, paused, or no-timer: systemd has no timer for it, or does not answer.
	State   string `json:"state"`
	At      string `json:"at"`
	Overlap string `json:"overlap"`
	CatchUp bool   `json:"catchUp"`
	Family  string `json:"family"`
	// Next is the next time at which the schedule is due; null if it is paused or never due again.
	Next *time.Time `json:"next"`
	// Last is its latest run; null if there is none.
	Last *runRow `json:"last"`
}

// runRow is a run in `schedule history`.
type runRow struct {
	Due    time.Time `json:"due"`
	Manual bool      `json:"manual"`
	Status string    `json:"status"`
	// ExitCode is null until its task has ended.
	ExitCode *int `json:"exitCode"`
	// Seconds is the duration of the run so far; null if nothing ran.
	Seconds *float64 `json:"seconds"`
	Task    string   `json:"task,omitempty"`
	Missed  int      `json:"missed"`
	Reason  string   `json:"reason,omitempty"`
}

func newRunRow(r schedule.Run, now time.Time) runRow {
	out := runRow{Due: r.Due, Manual: r.Manual, Status: string(r.Status), ExitCode: r.ExitCode, Task: r.Task, Missed: r.Missed, Reason: r.Reason}
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

func (r runRow) took() string {
	if r.Seconds == nil {
		return command.NoValue
	}
	return console.Span(time.Duration(*r.Seconds * float64(time.Second)))
}

func (r runRow) code() string {
	if r.ExitCode == nil {
		return command.NoValue
	}
	return strconv.Itoa(*r.ExitCode)
}

func (r runRow) note() string {
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

func (o call) list(ctx context.Context, _ []string) error {
	if err := command.CheckFormat(o.c); err != nil {
		return err
	}
	all, err := o.store.All()
	manager, dialErr := o.manager(ctx)
	if dialErr == nil {
		defer manager.Close()
	}
	now := time.Now()
	rows := []row{}
	for _, s := range all {
		s, _, _ = schedule.Fold(s, o.tasks.Lookup)
		r := row{Name: s.Name, State: "active", At: s.Source, Overlap: string(s.Overlap), CatchUp: s.CatchUp, Family: s.Task.Family}
		if n := len(s.Runs); n > 0 {
			last := newRunRow(s.Runs[n-1], now)
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
			next, nextErr := o.calendar.Next(ctx, s.Calendar, now)
			err = errors.Join(err, nextErr)
			if !next.IsZero() {
				r.Next = &next
			}
		}
		rows = append(rows, r)
	}
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
		{Head: "RESULT", Cell: row.result},
		{Head: "FAMILY", Cell: func(r row) string { return r.Family }, Wide: true},
		{Head: "OVERLAP", Cell: func(r row) string { return r.Overlap }, Wide: true},
		{Head: "CATCH-UP", Cell: func(r row) string { return strconv.FormatBool(r.CatchUp) }, Wide: true},
	}}.Print(o.out, o.c), err)
}

func (r row) result() string {
	switch {
	case r.Last == nil:
		return command.NoValue
	case r.Last.ExitCode != nil:
		return "exit code " + r.Last.code()
	}
	return r.Last.Status
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
	rows := []runRow{}
	for i := len(s.Runs) - 1; i >= 0; i-- {
		rows = append(rows, newRunRow(s.Runs[i], time.Now()))
	}
	return command.Listing[runRow]{Items: rows, Columns: []command.Column[runRow]{
		{Head: "DUE", Cell: func(r runRow) string { return stamp(&r.Due) }, Order: func(a, b runRow) int { return a.Due.Compare(b.Due) }},
		{Head: "STATUS", Cell: func(r runRow) string { return r.Status }},
		{Head: "EXIT CODE", Cell: runRow.code},
		{Head: "TOOK", Cell: runRow.took},
		{Head: "TASK", Cell: func(r runRow) string { return r.shortTask() }},
		{Head: "NOTE", Cell: runRow.note},
	}}.Print(o.out, o.c)
}

func (r runRow) shortTask() string {
	if r.Task == "" {
		return command.NoValue
	}
	return r.Task[:12]
}
