package views

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

// activities names the activities of a task in the spans of its lanes. A state says what was reached, an
// activity what was done after that.
type activities struct{ api.Task }

// The activity in each state.
var (
	taskActivities = map[string]string{
		lifecycle.StatusNone.String(): "resolve", lifecycle.StatusManifestPulled.String(): "prepare",
		lifecycle.StatusCreated.String(): "start", lifecycle.StatusRunning.String(): "run", lifecycle.FaultStarted: "fault",
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

// queued names the time in which a queued task waits: its images are known, and it has no room yet.
func (a activities) queued(l *timeline.Lane) {
	if n := len(l.Spans); a.Queue != "" && n > 0 && l.Spans[n-1].State == lifecycle.StatusManifestPulled.String() {
		l.Spans[n-1].Activity = "wait in the queue"
	}
}

func (a activities) task(l *timeline.Lane) {
	nameSpans(l, taskActivities)
	a.queued(l)
	l.Note, l.Failed = exitNote(a.ExitCode), a.failed(a.ExitCode)
	if a.FailedStart != "" {
		l.Note = "failed: " + a.FailedStart
	}
}

// pod names the spans of the pod, which is created when all digests are known.
func (a activities) pod(l *timeline.Lane) {
	nameSpans(l, podActivities)
	known, _ := a.first("", func(h api.Transition) bool { return h.Status == lifecycle.StatusManifestPulled.String() })
	if len(l.Spans) > 0 && l.Spans[0].State == lifecycle.StatusNone.String() {
		l.Spans = slices.Replace(l.Spans, 0, 1, split(l.Spans[0], []pause{{"wait for digests", known}})...)
	}
}

// container names the spans of a container. In CREATED it waits for the pod and its dependencies.
func (a activities) container(l *timeline.Lane, c api.Container) {
	nameSpans(l, containerActivities)
	a.queued(l)
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
	if i < len(l.Spans)-1 { // a later state was reached, so that every wait has ended
		pauses = slices.DeleteFunc(pauses, func(p pause) bool { return p.until.IsZero() })
	}
	l.Spans = slices.Replace(l.Spans, i, i+1, split(l.Spans[i], pauses)...)
}

// failed reports whether an exit code is a failure. That of a signal is not if a user stopped the task.
func (a activities) failed(code *api.ExitCode) bool {
	if code == nil || *code == 0 {
		return false
	}
	const bySignal = 128
	return a.StopCode != lifecycle.StopUserInitiated || *code <= bySignal
}

// metAt returns when a dependency was met; zero if it was not.
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

// first returns when a transition first happened.
func (a activities) first(container string, fits func(api.Transition) bool) (time.Time, bool) {
	for _, h := range a.History {
		if h.Container == container && fits(h) {
			return h.At, true
		}
	}
	return time.Time{}, false
}

// pause is a time of waiting; until is zero if it has not ended.
type pause struct {
	activity string
	until    time.Time
}

// split divides a span into its pauses, the earliest first, and the rest.
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
