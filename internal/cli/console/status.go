package console

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// TaskState returns what a task does in everyday words, for tables and screens: queued, starting, running, paused,
// restarting, stopping, exited (3), failed (migrate exited 1), stopped, failed to start, no owner. queuedFor is a word for what a queued task waits for. The words of ECS
// are in api.Task.Status.
func TaskState(t api.Task, queuedFor string) string {
	switch {
	case t.Status == lifecycle.StatusStopped.String() && t.FailedStart != "":
		return fmt.Sprintf("failed (%s)", t.FailedStart)
	case t.Status == lifecycle.StatusStopped.String() && t.ExitCode != nil:
		return fmt.Sprintf("exited (%s)", t.ExitCode)
	case t.Status == lifecycle.StatusStopped.String() && t.StopCode == lifecycle.StopTaskFailedToStart:
		return "failed to start"
	case t.Status == lifecycle.StatusStopped.String():
		return "stopped"
	case t.Queue != "" && queuedFor != "":
		return "queued (" + strings.TrimSuffix(queuedFor, "/tcp") + ")"
	case t.Queue != "":
		return "queued"
	}
	running, paused, restarting := 0, 0, false
	for _, c := range t.Containers {
		if c.Status == lifecycle.StatusRunning.String() && c.RestartAt.IsZero() {
			running++
		}
		if c.Paused {
			paused++
		}
		restarting = restarting || !c.RestartAt.IsZero()
	}
	switch {
	case !t.Settled && !t.Owner.Alive && t.Observed:
		return fmt.Sprintf("no owner, %d of %d containers running", running, len(t.Containers))
	case !t.Settled && !t.Owner.Alive:
		return "no owner"
	case t.DesiredStatus == lifecycle.StatusStopped.String():
		return "stopping"
	case paused > 0 && paused < running:
		return fmt.Sprintf("running (%d of %d paused)", paused, running)
	case paused > 0:
		return "paused"
	case restarting:
		return "restarting"
	case t.Status == lifecycle.StatusRunning.String():
		return "running"
	}
	return "starting"
}

// TaskHealth returns healthy, unhealthy, or checking while no check has decided; "-" for a task that has no health
// check, has stopped, or has no owner, which would run the checks.
func TaskHealth(t api.Task) string {
	if t.Status == lifecycle.StatusStopped.String() || !t.Settled && !t.Owner.Alive {
		return "-"
	}
	switch t.Health {
	case lifecycle.HealthHealthy.String():
		return "healthy"
	case lifecycle.HealthUnhealthy.String():
		return "unhealthy"
	}
	for _, c := range t.Containers {
		if c.Health != nil && c.Essential && c.Status == lifecycle.StatusRunning.String() {
			return "checking"
		}
	}
	return "-"
}

// ContainerState returns what a container does in everyday words: starting, running, paused, restarting, exited (3), failed, stopped. The health is
// healthy, unhealthy or checking; "-" without a health check, or if it does not run.
func ContainerState(c api.Container) (state, health string) {
	switch {
	case c.Status == lifecycle.StatusStopped.String() && c.ExitCode != nil:
		return fmt.Sprintf("exited (%s)", c.ExitCode), "-"
	case c.Status == lifecycle.StatusStopped.String() && len(c.Errors) > 0:
		return "failed", "-"
	case c.Status == lifecycle.StatusStopped.String():
		return "stopped", "-"
	case !c.RestartAt.IsZero():
		return "restarting", "-"
	case c.Status != lifecycle.StatusRunning.String():
		return "starting", "-"
	case c.Paused:
		state = "paused"
	default:
		state = "running"
	}
	if c.Health == nil {
		return state, "-"
	}
	switch c.Health.Status {
	case lifecycle.HealthHealthy.String():
		return state, "healthy"
	case lifecycle.HealthUnhealthy.String():
		return state, "unhealthy"
	}
	return state, "checking"
}

// TaskName returns the name of a task; its family and the beginning of its ID if it has none.
func TaskName(t api.Task) string {
	if t.Name != "" {
		return t.Name
	}
	return t.Family + " " + lifecycle.ShortID(t.ID)
}

// CopyState returns what a copy of a service does in everyday words: starting, running, stopping, stopped, failed, removing.
func CopyState(t api.ServiceTask) string {
	switch {
	case t.Phase == "LIVE" && (t.Healthy || t.Health == "UNHEALTHY"):
		return "running"
	case t.Phase == "LIVE" || t.Phase == "WANTED":
		return "starting"
	case t.Phase == "STOPPED" && t.Failed:
		return "failed"
	}
	return strings.ToLower(t.Phase)
}

// CopyHealth returns the health of a copy that runs; "-" if nothing checks it.
func CopyHealth(t api.ServiceTask) string {
	if t.Phase != "LIVE" || t.Health == "" || t.Health == "UNKNOWN" {
		return "-"
	}
	return strings.ToLower(t.Health)
}

// StageWords returns what happens in a stage of a deployment, which has the name that ECS gives it.
func StageWords(stage string) string {
	words := map[string]string{
		"RECONCILE_SERVICE": "starting copies", "PRE_SCALE_UP": "starting copies", "SCALE_UP": "starting copies",
		"POST_SCALE_UP": "testing", "TEST_TRAFFIC_SHIFT": "testing", "POST_TEST_TRAFFIC_SHIFT": "testing",
		"PRE_PRODUCTION_TRAFFIC_SHIFT": "shifting connections", "PRODUCTION_TRAFFIC_SHIFT": "shifting connections",
		"POST_PRODUCTION_TRAFFIC_SHIFT": "watching", "BAKE_TIME": "watching", "CLEAN_UP": "stopping old copies",
	}
	return cmp.Or(words[stage], strings.ToLower(strings.ReplaceAll(stage, "_", " ")))
}
