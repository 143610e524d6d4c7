package supervise

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// phase is the state of the service, as the service manager distinguishes it.
type phase int

const (
	starting  phase = iota
	ready           // as Unit.Ready requires
	unhealthy       // not ready, because a health check fails: the start timeout may expire
	stopping        // also to make room for the next task
)

// phaseOf returns the phase of a service whose task must meet a condition.
func phaseOf(t api.Task, condition connect.Condition) phase {
	if condition == ReadyNo {
		condition = connect.UntilRunning
	}
	if t.Goal != lifecycle.Up.String() {
		return stopping
	}
	if met, _ := condition.Met(t); met {
		return ready
	}
	if t.Health == lifecycle.HealthUnhealthy.String() {
		return unhealthy
	}
	return starting
}

// statusLine describes a task in one line, for `systemctl status`.
func statusLine(t api.Task) string {
	count := func(fits func(api.Container) bool) (n int) {
		for _, c := range t.Containers {
			if fits(c) {
				n++
			}
		}
		return n
	}
	if t.Goal != lifecycle.Up.String() {
		return "stopping: " + term.Line(cmp.Or(t.StoppedReason, "as asked"))
	}
	for _, c := range t.Containers {
		if c.Retry != nil {
			return fmt.Sprintf("%s: podtask tries again after an error: %s", c.Name, term.Line(c.Retry.Error))
		}
	}
	all := len(t.Containers)
	if n := count(func(c api.Container) bool { return c.Status == lifecycle.StatusNone.String() }); n > 0 {
		return fmt.Sprintf("looking up images: %d of %d found", all-n, all)
	}
	if n := count(func(c api.Container) bool { return c.Status == lifecycle.StatusManifestPulled.String() }); n > 0 {
		return fmt.Sprintf("pulling images: %d of %d done", all-n, all)
	}
	for _, c := range t.Containers {
		if len(c.WaitingFor) > 0 {
			return fmt.Sprintf("%s waits for %s %s", c.Name, c.WaitingFor[0].ContainerName, taskdef.Condition(c.WaitingFor[0].Condition).Words())
		}
	}
	running := count(func(c api.Container) bool { return c.Status == lifecycle.StatusRunning.String() })
	line := fmt.Sprintf("%d of %d containers up", running, all)
	if t.Health != lifecycle.HealthUnknown.String() {
		line += ", " + strings.ToLower(t.Health)
	}
	return line
}

func endLine(st lifecycle.State, missing string) string {
	line := fmt.Sprintf("stopped, exit code %d: %s", st.ExitCode(), term.Line(cmp.Or(st.Stop.Reason, "unknown reason")))
	if missing != "" { // the journal, whose limit the lines exceeded, may drop a warning too
		line += "; " + missing
	}
	return line
}
