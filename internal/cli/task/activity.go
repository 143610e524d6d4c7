package task

import (
	"cmp"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/podtask/podtask/internal/cli/timeline"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// formatOTLP is a format of timeline.
const formatOTLP = "otlp"

// writeTrace prints a timeline as a trace for OpenTelemetry.
func writeTrace(w io.Writer, t api.Task, chart timeline.Chart) error {
	trace, err := chart.OTLP(t.ID, map[string]string{
		"podtask.task.id": t.ID, "podtask.task.name": cmp.Or(t.Name, t.Family), "aws.ecs.task.family": t.Family, "aws.ecs.task.revision": strconv.Itoa(t.Revision),
	})
	if err != nil {
		return err
	}
	_, err = w.Write(append(trace, '\n'))
	return err
}

// activities say what a task did in the states of its lanes: a state is what was reached, an
// activity what was done next.
type activities struct{ api.Task }

// The activities in a state, which follow when it was reached.
var (
	taskActivities = map[string]string{
		lifecycle.StatusNone.String(): "resolve", lifecycle.StatusManifestPulled.String(): "prepare",
		lifecycle.StatusCreated.String(): "start", lifecycle.StatusRunning.String(): "run",
	}
	podActivities = map[string]string{
		lifecycle.StatusNone.String(): "create", lifecycle.StatusResourcesProvisioned.String(): "run",
	}
	containerActivities = map[string]string{
		lifecycle.StatusNone.String(): "resolve", lifecycle.StatusManifestPulled.String(): "pull", lifecycle.StatusPulled.String(): "create",
		lifecycle.StatusCreated.String(): "start", lifecycle.StatusRunning.String(): "run",
		lifecycle.HealthHealthy.String(): "healthy", lifecycle.HealthUnhealthy.String(): "unhealthy", lifecycle.Restarting: "restart",
	}
)

// nameSpans names the spans of a lane.
func nameSpans(l *timeline.Lane, names map[string]string) {
	for i, s := range l.Spans {
		l.Spans[i].Activity = names[s.State]
	}
}

func (a activities) task(l *timeline.Lane) {
	nameSpans(l, taskActivities)
	l.Note, l.Failed = exitNote(a.ExitCode), a.failed(a.ExitCode)
}

// pod is made once all digests are known.
func (a activities) pod(l *timeline.Lane) {
	nameSpans(l, podActivities)
	known, _ := a.first("", func(h api.Transition) bool { return h.Status == lifecycle.StatusManifestPulled.String() })
	if len(l.Spans) > 0 && l.Spans[0].State == lifecycle.StatusNone.String() {
		l.Spans = slices.Replace(l.Spans, 0, 1, split(l.Spans[0], []pause{{"wait for digests", known}})...)
	}
}

// container waits in CREATED for the pod and its dependencies, in the order in which they
// were there.
func (a activities) container(l *timeline.Lane, c api.Container) {
	nameSpans(l, containerActivities)
	l.Note, l.Failed = exitNote(c.ExitCode), a.failed(c.ExitCode)
	if c.ExitCode == nil && c.Status == lifecycle.StatusStopped.String() && len(c.Errors) > 0 {
		l.Note, l.Failed = c.Errors[len(c.Errors)-1].Name, true
	}
	for i, s := range l.Spans {
		if s.State == lifecycle.Restarting {
			_, l.Spans[i].Failed = a.first(c.Name, func(h api.Transition) bool {
				return h.Status == lifecycle.Restarting && h.At.Equal(s.From) && h.ExitCode != nil && *h.ExitCode != 0
			})
		}
	}
	i := slices.IndexFunc(l.Spans, func(s timeline.Span) bool { return s.State == lifecycle.StatusCreated.String() })
	if i < 0 {
		return
	}
	provisioned, _ := a.first(lifecycle.Infra, func(h api.Transition) bool { return h.Status == lifecycle.StatusResourcesProvisioned.String() })
	pauses := []pause{{"wait for the pod", provisioned}}
	for _, d := range c.DependsOn {
		pauses = append(pauses, pause{"wait for " + d.ContainerName, a.metAt(d)})
	}
	if i < len(l.Spans)-1 { // it went on, so that nothing was missing
		pauses = slices.DeleteFunc(pauses, func(p pause) bool { return p.until.IsZero() })
	}
	l.Spans = slices.Replace(l.Spans, i, i+1, split(l.Spans[i], pauses)...)
}

// failed reports whether an exit code is a failure: those of signals are none where a user has
// stopped the task.
func (a activities) failed(code *api.ExitCode) bool {
	if code == nil || *code == 0 {
		return false
	}
	const bySignal = 128
	return a.StopCode != lifecycle.StopUserInitiated || *code <= bySignal
}

// met is when a dependency was met; zero if it was not.
func (a activities) metAt(d api.Dependency) time.Time {
	at, _ := a.first(d.ContainerName, func(h api.Transition) bool {
		stopped := h.Status == lifecycle.StatusStopped.String() && h.ExitCode != nil
		switch d.Condition {
		case "COMPLETE":
			return stopped
		case "SUCCESS":
			return stopped && *h.ExitCode == 0
		case "HEALTHY":
			return h.Status == lifecycle.HealthHealthy.String()
		}
		return stopped || h.Status == lifecycle.StatusRunning.String()
	})
	return at
}

// first is when a transition first happened.
func (a activities) first(container string, fits func(api.Transition) bool) (time.Time, bool) {
	for _, h := range a.History {
		if h.Container == container && fits(h) {
			return h.At, true
		}
	}
	return time.Time{}, false
}

// pause is something to wait for, until a time; zero if it was never there.
type pause struct {
	activity string
	until    time.Time
}

// split divides a span into its pauses, the earliest first, and what remains of it.
func split(s timeline.Span, pauses []pause) (parts []timeline.Span) {
	slices.SortStableFunc(pauses, func(a, b pause) int {
		if a.until.IsZero() != b.until.IsZero() {
			if a.until.IsZero() {
				return 1
			}
			return -1
		}
		return a.until.Compare(b.until)
	})
	rest := s
	for _, p := range pauses {
		end := p.until
		if end.IsZero() || end.After(s.To) {
			end = s.To
		}
		if rest.From.Before(end) {
			part := rest
			part.Activity, part.To = p.activity, end
			parts = append(parts, part)
			rest.From = end
		}
	}
	if rest.From.Before(rest.To) {
		parts = append(parts, rest)
	}
	return parts
}

func exitNote(code *api.ExitCode) string {
	if code == nil {
		return ""
	}
	return "exit code " + code.String()
}
