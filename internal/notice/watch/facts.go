package watch

import (
	"strings"

	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/internal/notice"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/service"
)

// Facts answers what an event is about.
type Facts struct {
	// Task returns the record of a task, if it is still there.
	Task func(id string) (lifecycle.State, bool)
	// ScheduleOf reports whether a schedule of a name has a run with the task.
	ScheduleOf func(name, task string) bool
	// StackOf returns the stack of a service, or else of a task of this name that is a job of one; empty for none.
	StackOf func(service, task string) string
	// Tags returns the tags of a task.
	Tags func(lifecycle.State) map[string]string
}

// scheduled matches the name of the task of a run: that of its schedule, and the time.
var scheduled = lazy.MustCompile(`^(.+)-[0-9]{8}T[0-9]{6}Z$`)

// About returns the subject of an event.
func (f Facts) About(e record.Event) notice.About {
	switch e.Kind {
	case record.Deployment:
		return notice.About{Kind: notice.Service, Name: e.Name, Service: e.Name, Family: e.Family, Stack: f.StackOf(e.Name, "")}
	case record.UnitUpdate:
		return notice.About{Kind: notice.Task, Name: e.Name}
	case record.ScheduledRun:
		return notice.About{Kind: notice.Schedule, Name: e.Name, Schedule: e.Name}
	}
	a := notice.About{Kind: notice.Task, Name: e.Name, Task: e.Task, Family: e.Family, Container: e.Container, Service: e.Service}
	if m := scheduled.FindStringSubmatch(e.Name); m != nil && a.Service == "" && f.ScheduleOf(m[1], e.Task) {
		a.Schedule = m[1]
	}
	a.Stack = f.StackOf(a.Service, e.Name)
	if s, found := f.Task(e.Task); found {
		a.Tags = f.Tags(s)
	}
	return a
}

// statusOf is the status of an event; empty if a user asked for what happened.
func statusOf(e record.Event) string {
	if e.Kind == record.Deployment && (e.Reason == service.Asked || e.Reason == service.Aborted) {
		return ""
	}
	return e.Status
}

// reasonOf is the reason of an event as it is told. What a program printed in a health check is left out: it may be
// anything.
func reasonOf(e record.Event) string {
	reason := e.Reason
	if e.Status == lifecycle.HealthUnhealthy.String() {
		reason, _, _ = strings.Cut(reason, ": ")
	}
	return reason
}
