package lifecycle

import (
	"fmt"
	"slices"
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
)

// StopReason is the reason for which a task's goal left Up, and the time.
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

// StoppedAt returns the time at which the task was reported STOPPED; zero before.
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
// and ended first. Of a task that runs until the last of its containers has ended, it is
// that of the first that failed. It is 0 only if the task has done all its work: a task of which
// an essential container could not start has 126 or 127 when a command could not be invoked or
// found, else 125. One whose containers ended with 0 only because the task had another failure
// has 125, or 124 if its deadline had passed.
func (s State) ExitCode() int {
	if i, failed := s.failedStart(); failed {
		return s.startCode(i)
	}
	code, ran := s.firstExit()
	switch {
	case !ran:
		return s.startCode(-1)
	case code != 0:
		return code
	}
	switch s.Stop.Code {
	case StopDeadlineExceeded:
		return exitDeadline
	case StopServiceScheduler, StopInfrastructureHealth:
		return exitFailed
	}
	return 0
}

// firstExit is the exit code of the essential container that ran and ended first.
func (s State) firstExit() (code int, ran bool) {
	best := time.Time{}
	for i, c := range s.Containers {
		if !s.Task.Containers[i].Essential || !c.HasExit || c.StartedAt.IsZero() {
			continue
		}
		if ran && s.Task.Extensions.UntilLast && code != 0 && c.ExitCode == 0 {
			continue
		}
		end := c.FinishedAt
		if end.IsZero() {
			end = c.EndedAt
		}
		decided := s.Task.Containers[i].Name == s.Stop.Container
		worse := s.Task.Extensions.UntilLast && code == 0 && c.ExitCode != 0
		if !ran || worse || end.Before(best) || end.Equal(best) && decided {
			code, best, ran = c.ExitCode, end, true
		}
	}
	return code, ran
}

// failedStart reports whether the task has failed because a container never started, and which; -1
// if it was none of them. If an essential container has failed before that, its exit code is the task's.
func (s State) failedStart() (i int, failed bool) {
	switch s.Stop.Code {
	case StopTaskFailedToStart:
		return slices.IndexFunc(s.Task.Containers, func(c taskdef.Container) bool { return c.Name == s.Stop.Container }), true
	case StopEssentialContainerExited:
		if code, _ := s.firstExit(); code != 0 {
			return -1, false
		}
		for _, i := range essential(&s) {
			if c := s.Containers[i]; c.StartedAt.IsZero() && c.HasExit && c.ExitCode == exitDependency {
				return i, true
			}
		}
	}
	return -1, false
}

// startCode is the exit code of a task in which container i could not start, or any essential one if
// that is -1.
func (s State) startCode(i int) int {
	which := []int{i}
	if i < 0 {
		which = essential(&s)
	}
	code := exitFailed
	for _, i := range which {
		for _, f := range s.Containers[i].Failures {
			if f.ExitCode != 0 {
				code = f.ExitCode
			}
		}
	}
	return code
}

// FailedStart says in a few words what kept the task from starting completely, such as "migrate exited 1";
// empty if that is not why it ended.
func (s State) FailedStart() string {
	i, failed := s.failedStart()
	switch {
	case !failed:
		return ""
	case i < 0:
		return "to start"
	}
	name := s.Task.Containers[i].Name
	for _, f := range slices.Backward(s.Containers[i].Failures) {
		d := slices.IndexFunc(s.Task.Containers, func(c taskdef.Container) bool { return c.Name == f.Dependency })
		switch {
		case d < 0:
			continue
		case s.Containers[d].StartedAt.IsZero():
			return f.Dependency + " did not start"
		case s.Containers[d].failedBy(f.At):
			return fmt.Sprintf("%s exited %d", f.Dependency, s.Containers[d].ExitCode)
		}
		return fmt.Sprintf("%s waited for %s", name, f.Dependency)
	}
	return name + " did not start"
}

// failedBy reports whether the container had ended with a failure at that time.
func (c Container) failedBy(at time.Time) bool {
	return c.Ended && c.HasExit && c.ExitCode != 0 && !c.EndedAt.After(at)
}

const (
	// exitFailed is the exit code of a task that failed although no container did.
	exitFailed = 125
	// exitDeadline is the exit code of a task that ended well only because its deadline had
	// passed, that of timeout(1).
	exitDeadline = 124
)
