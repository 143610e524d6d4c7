package console

import (
	"strconv"
	"time"
)

// Beside lists the schedules and stacks of a host.
type Beside struct {
	Schedules []Schedule `json:"schedules"`
	Stacks    []Stack    `json:"stacks"`
}

// Schedule is a schedule with its latest run, as `podtask schedule ls` has it.
type Schedule struct {
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
	Last *ScheduleRun `json:"last"`
}

// Result returns the result of its latest run, in a word or two: "exit code 0", skipped, failed; "-" before the first one.
func (s Schedule) Result() string {
	switch {
	case s.Last == nil:
		return "-"
	case s.Last.ExitCode != nil:
		return "exit code " + strconv.Itoa(*s.Last.ExitCode)
	}
	return s.Last.Status
}

// Kind returns the kind of the result.
func (s Schedule) Kind() Kind {
	switch {
	case s.State == "no-timer" || s.Last != nil && (s.Last.Status == "failed" || s.Last.ExitCode != nil && *s.Last.ExitCode != 0):
		return Bad
	case s.Last != nil && (s.Last.Status == "running" || s.Last.Status == "starting"):
		return Busy
	case s.Last != nil && (s.Last.Status == "skipped" || s.Last.Status == "missed"):
		return Warn
	case s.Last == nil || s.State == "paused":
		return Idle
	}
	return Good
}

// ScheduleRun is a run of a schedule.
type ScheduleRun struct {
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

// Stack is a stack with the names of what it has here.
type Stack struct {
	Name string `json:"name"`
	// Status is complete, changing, unfinished or none: none of its changes was completed.
	Status string `json:"status"`
	Change int    `json:"change"`
	// Services are names of services, Tasks the names or IDs of the tasks of its jobs.
	Services []string `json:"services"`
	Tasks    []string `json:"tasks"`
	// Ends is the end of a preview.
	Ends time.Time `json:"ends,omitzero"`
}
