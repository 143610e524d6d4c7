package lifecycle

import (
	"fmt"
	"time"
)

// settle draws every conclusion that needs no call, until nothing follows any more.
func settle(s *State, at time.Time) {
	countOverdueProbes(s, at)
	for settleContainers(s, at) || settleEssential(s, at) || settleWatches(s, at) || settleInfra(s, at) || settleSandbox(s) {
	}
	noteTurns(s, at)
}

// settleContainers ends containers that will never run (again): those whose
// dependencies have become impossible, and all that do not exist or were never
// started once the task is going down.
func settleContainers(s *State, at time.Time) (changed bool) {
	for i := range s.Containers {
		c := &s.Containers[i]
		if c.Ended || c.Op.Busy() || c.Stale || c.Presence == Running {
			continue
		}
		if s.Goal != Up {
			c.end(at) // a restart that was to come does not come
			changed = true
		} else if c.awaitsRestart() {
			continue
		} else if answer, why := dependencies(s, at, i); answer == impossible {
			c.fail(Failure{Class: Permanent, Name: ErrCannotStart, At: at, Message: why})
			c.HasExit, c.ExitCode = true, exitDependency
			c.end(at)
			changed = true
		}
	}
	return changed
}

// exitDependency is the exit code of a container that never started because of
// a dependency (ECS agent: no signal was sent, it only mimics SIGTERM's).
const exitDependency = 143

// settleEssential stops the task when an essential container has ended.
func settleEssential(s *State, at time.Time) (changed bool) {
	if s.Goal != Up {
		return false
	}
	for i, c := range s.Containers {
		if !c.Ended || !s.Task.Containers[i].Essential {
			continue
		}
		name := s.Task.Containers[i].Name
		why := StopReason{Code: StopEssentialContainerExited, Container: name}
		switch {
		case c.StartedAt.IsZero():
			why.Code = StopTaskFailedToStart
			why.Reason = fmt.Sprintf("essential container %s could not start: %s", name, c.lastFailure())
		case c.HasExit:
			why.Reason = fmt.Sprintf("essential container %s exited with code %d", name, c.ExitCode)
		default:
			why.Reason = fmt.Sprintf("essential container %s: %s", name, c.lastFailure())
		}
		lowerGoal(s, at, Down, why)
		return true
	}
	return false
}

func (c Container) lastFailure() string {
	if n := len(c.Failures); n > 0 {
		return c.Failures[n-1].String()
	}
	return "no reason known"
}
