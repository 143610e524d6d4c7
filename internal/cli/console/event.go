package console

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// TaskEvent is an event of a task, in everyday words.
type TaskEvent struct {
	At time.Time
	// Of are the containers, or (task), or (pod).
	Of, What, Reason string
	// Failed: it is a failure.
	Failed bool
}

// taskEvents has the words for what a status of a container means that was reached.
var taskEvents = map[string]string{
	lifecycle.StatusManifestPulled.String(): "image resolved", lifecycle.StatusPulled.String(): "image pulled",
	lifecycle.StatusResourcesProvisioned.String(): "ready",
}

// follows are the statuses that a task has when its containers have them, and the pod before they do.
var follows = []string{
	lifecycle.StatusManifestPulled.String(), lifecycle.StatusPulled.String(), lifecycle.StatusCreated.String(), lifecycle.StatusRunning.String(),
	lifecycle.StatusResourcesProvisioned.String(),
}

// TaskEvents returns what happened in a task, the oldest first. What follows from something else is left out, and containers to
// which the same happens one after the other share an event.
func TaskEvents(history []api.Transition) (events []TaskEvent) {
	for _, h := range history {
		if (h.Container == "" || h.Container == lifecycle.Infra) && h.Reason == "" && slices.Contains(follows, h.Status) {
			continue
		}
		e := TaskEvent{At: h.At, Of: Label(h.Container), Reason: term.Line(h.Reason), What: taskEvents[h.Status], Failed: h.Status == lifecycle.HealthUnhealthy.String()}
		switch {
		case e.What != "":
		case strings.HasPrefix(h.Reason, lifecycle.StopTaskFailedToStart), h.Container != "" && h.Status == lifecycle.StatusStopped.String() && h.ExitCode == nil && h.Reason != "":
			e.What, e.Failed = "failed", true
		case h.ExitCode != nil:
			e.What, e.Failed = fmt.Sprintf("exited (%s)", h.ExitCode), *h.ExitCode != 0
		default:
			e.What = strings.ToLower(strings.ReplaceAll(term.Line(h.Status), "_", " "))
		}
		if n := len(events) - 1; n >= 0 && h.Container != "" && h.ExitCode == nil && events[n].What == e.What && events[n].Reason == e.Reason {
			events[n].Of += ", " + e.Of
			continue
		}
		events = append(events, e)
	}
	return events
}
