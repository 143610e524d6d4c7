package schedule

import (
	"fmt"
	"time"

	"github.com/podtask/podtask/pkg/api"
)

// TimerName is the name of the systemd timer that wakes a schedule.
func TimerName(schedule string) string { return "podtask-schedule-" + schedule + ".timer" }

// The codes of reasons of a schedule. Scripts rely on them.
const (
	WhyPaused   = "paused"   // a user has paused it
	WhyNoTimer  = "no-timer" // systemd does not wake it
	WhyStarting = "starting" // the task of a run is to be created
	WhyRunning  = "running"  // a run has not ended
	WhyWaiting  = "waiting"  // it waits for its next time
	WhyNever    = "never"    // it is never due again
	WhyLast     = "last"     // what became of its latest run; comes after the others
)

// Explain says what a schedule waits for, and what became of its latest run. Next is when it is due next, zero for
// never; timer says whether systemd has its timer. The first reason is the one that the others wait for; there is always one.
func Explain(s State, next time.Time, timer bool) []api.Reason {
	var all []api.Reason
	add := func(r api.Reason) { all = append(all, r) }
	for _, r := range s.Runs {
		switch {
		case r.Status == Starting && r.Reason != "":
			add(api.Reason{Code: WhyStarting, Text: fmt.Sprintf("podtask could not create the task of the run of %s and keeps trying: %s", stamp(r.Due), r.Reason), Since: r.Begun})
		case r.Status == Starting:
			add(api.Reason{Code: WhyStarting, Text: fmt.Sprintf("podtask is about to create the task of the run of %s", stamp(r.Due)), Since: r.Begun})
		case r.Status == Running:
			text := fmt.Sprintf("the run of %s is still running (task %.12s)", stamp(r.Due), r.Task)
			switch s.Overlap {
			case Forbid:
				text += "; other runs are skipped until it ends"
			case Replace:
				text += "; the next run stops it"
			case Allow:
			}
			add(api.Reason{Code: WhyRunning, Text: text, Since: r.Begun})
		}
	}
	switch {
	case s.Paused:
		add(api.Reason{Code: WhyPaused, Text: fmt.Sprintf("missed runs are not caught up; resume it with `podtask schedule resume %s`", s.Name)})
	case !timer:
		add(api.Reason{Code: WhyNoTimer, Text: fmt.Sprintf("its systemd timer is missing; create it with `podtask schedule resume %s`", s.Name)})
	case next.IsZero():
		add(api.Reason{Code: WhyNever, Text: "no time is left in " + s.Source})
	default:
		add(api.Reason{Code: WhyWaiting, Text: "it waits for its next run (" + s.Source + ")", Until: next, Then: "it runs"})
	}
	if n := len(s.Runs); n > 0 {
		if text := outcome(s.Runs[n-1]); text != "" {
			add(api.Reason{Code: WhyLast, Text: text})
		}
	}
	return all
}

// outcome says what became of a run; empty for one that is not over.
func outcome(r Run) string {
	text := ""
	switch r.Status {
	case Starting, Running:
		return ""
	case Ended:
		text = fmt.Sprintf("the last run (%s) ended", stamp(r.Due))
		if r.ExitCode != nil {
			text += fmt.Sprintf(" with exit code %d", *r.ExitCode)
		}
	case Skipped:
		text = fmt.Sprintf("the run of %s was skipped", stamp(r.Due))
	case Missed:
		text = fmt.Sprintf("the run of %s was missed", stamp(r.Due))
	case Failed:
		text = fmt.Sprintf("the last run (%s) could not be started", stamp(r.Due))
	}
	if r.Reason != "" {
		text += ": " + r.Reason
	}
	return text
}

// stamp writes a due time as UTC, which is the same everywhere.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
