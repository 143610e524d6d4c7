package lifecycle

import (
	"time"
)

// StopReason says why and when a task's goal left Up.
type StopReason struct {
	// Code is one of the Stop* codes.
	Code   string    `json:"code,omitempty"`
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at,omitzero"`
	// Container names the container that decided, if one did.
	Container string `json:"container,omitempty"`
}

// Stop codes of the ECS model (TaskStopCode).
const (
	// StopTaskFailedToStart: an essential container, or one whose image is strictly
	// wanted, never ran.
	StopTaskFailedToStart = "TaskFailedToStart"
	// StopEssentialContainerExited: one ran and ended.
	StopEssentialContainerExited = "EssentialContainerExited"
	StopUserInitiated            = "UserInitiated"
	// StopServiceScheduler: the task asked to be stopped when a container or a
	// dependency is no longer well. On ECS the service's scheduler does that.
	StopServiceScheduler = "ServiceSchedulerInitiated"
	// StopInfrastructureHealth: containers ran, and the pod they need could not be made
	// again, or lost the network they share.
	StopInfrastructureHealth = "InfrastructureHealth"
	// StopDeadlineExceeded: the task ran for as long as it may (Kubernetes' word).
	StopDeadlineExceeded = "DeadlineExceeded"
)

// ByAgent is who stops tasks when an agent ends that takes its tasks with it, as at a shutdown of the host.
// StoppedByAgent is their stopped reason.
const (
	ByAgent        = "the end of the agent"
	StoppedByAgent = "stopped by " + ByAgent
)

// StoppedAt is when the task was reported STOPPED; zero before.
func (s State) StoppedAt() time.Time {
	for k := len(s.History) - 1; k >= 0; k-- {
		if t := s.History[k]; t.Container == "" && t.Status == StatusStopped.String() {
			return t.At
		}
	}
	return time.Time{}
}

// Settled reports whether the task has reached its goal for good: stopped with
// nothing running when the goal is Down, removed when it is Gone, and its share
// given back.
func (s State) Settled() bool {
	switch s.Goal {
	case Down:
		return allEnded(&s) && s.Sandbox.Phase == SandboxStopped && s.Sandbox.Reservation == ReservationNone
	case Gone:
		return s.Sandbox.Phase == SandboxRemoved && s.Sandbox.Reservation == ReservationNone
	default:
		return false
	}
}

// ExitCode is the exit code of the task: that of the essential container that ran
// and ended first. A task in which none ever ran gives 126 or 127 when a command
// could not be invoked or found, else 125. Of a task that runs until the last of its
// containers has ended, it is that of the first that failed.
func (s State) ExitCode() int {
	code, best, fallback := 0, time.Time{}, 125
	for i, c := range s.Containers {
		if !s.Task.Containers[i].Essential {
			continue
		}
		for _, f := range c.Failures {
			if f.ExitCode != 0 {
				fallback = f.ExitCode
			}
		}
		end := c.FinishedAt
		if end.IsZero() {
			end = c.EndedAt
		}
		decided := s.Task.Containers[i].Name == s.Stop.Container
		ran := c.HasExit && !c.StartedAt.IsZero()
		if ran && s.Task.Extensions.UntilLast && code != 0 && c.ExitCode == 0 {
			continue
		}
		worse := s.Task.Extensions.UntilLast && code == 0 && c.ExitCode != 0
		if ran && (best.IsZero() || worse || end.Before(best) || end.Equal(best) && decided) {
			code, best = c.ExitCode, end
		}
	}
	switch {
	case best.IsZero():
		return fallback
	case s.Stop.Code == StopDeadlineExceeded && code == 0:
		return exitDeadline
	}
	return code
}

// exitDeadline is the exit code of a task that ended well only because its deadline had
// passed, that of timeout(1).
const exitDeadline = 124
