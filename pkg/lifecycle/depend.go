package lifecycle

import (
	"cmp"
	"fmt"
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
)

// answer is the verdict of one dependency on a start.
type answer uint8

const (
	pending answer = iota
	satisfied
	impossible
)

// dependencies reports whether the dependencies of container i are satisfied, and if
// they never can be, why. It follows the ECS agent's ordering conditions, with one
// difference: a container that never ran satisfies nothing.
func dependencies(s *State, at time.Time, i int) (answer, Failure) {
	out := satisfied
	for _, d := range s.Task.Containers[i].DependsOn {
		switch a, why := condition(s, at, d); a {
		case impossible:
			return impossible, neverStarted(s, at, d, why)
		case pending:
			out = pending
		}
	}
	return out, Failure{}
}

// neverStarted is the failure of container i that its dependency on a container keeps from
// its first start. If that never started either, the cause is the same.
func neverStarted(s *State, at time.Time, d taskdef.Dependency, why string) Failure {
	name, c := s.Task.Containers[d.Container].Name, s.Containers[d.Container]
	f := Failure{Class: Permanent, Name: ErrCannotStart, At: at, Dependency: name, Message: fmt.Sprintf("dependency %s (%s) %s", name, d.Condition, why)}
	if n := len(c.Failures); n > 0 && c.StartedAt.IsZero() {
		f.Dependency = cmp.Or(c.Failures[n-1].Dependency, name)
	}
	return f
}

// Unsatisfied returns the dependencies that still keep container i from its first start;
// none once it has started or ended, or the task is stopping.
func (s State) Unsatisfied(i int) (waits []taskdef.Dependency) {
	if c := s.Containers[i]; c.Ended || !c.StartedAt.IsZero() || s.Goal != Up {
		return nil
	}
	for _, d := range s.Task.Containers[i].DependsOn {
		if a, _ := condition(&s, time.Time{}, d); a != satisfied {
			waits = append(waits, d)
		}
	}
	return waits
}

// condition reports whether one dependency is satisfied.
func condition(s *State, at time.Time, d taskdef.Dependency) (answer, string) {
	c := &s.Containers[d.Container]
	if c.Ended && c.StartedAt.IsZero() {
		if len(c.Failures) > 0 {
			return impossible, "never started: " + c.lastFailure()
		}
		return impossible, "never started"
	}
	limit, deadline := s.Task.Containers[d.Container].StartTimeout, startDeadline(s, d.Container)
	late := !deadline.IsZero() && !at.Before(deadline)
	if late && c.StartedAt.IsZero() {
		return impossible, fmt.Sprintf("did not start within its startTimeout of %s and %s for its image", limit, pullAllowance)
	}
	switch d.Condition {
	case taskdef.Start:
		if up(s, d.Container) {
			return satisfied, ""
		}
		if c.Ended {
			return impossible, "ended before its start was complete"
		}
	case taskdef.Complete, taskdef.Success:
		switch {
		case !c.Ended:
		case !c.HasExit:
			return impossible, "ended without an exit code"
		case d.Condition == taskdef.Success && c.ExitCode != 0:
			return impossible, fmt.Sprintf("exited with code %d", c.ExitCode)
		default:
			return satisfied, ""
		}
	case taskdef.Healthy:
		if c.Ended {
			return impossible, "stopped before it was healthy"
		}
		if c.HealthStatus() == HealthHealthy && !c.Stale {
			return satisfied, ""
		}
	}
	if late {
		return impossible, fmt.Sprintf("did not meet the condition within its startTimeout of %s", limit)
	}
	return pending, ""
}

// pullAllowance is added to the startTimeout of a container that has not started: time for a slow pull, but not for one
// that hangs.
const pullAllowance = 10 * time.Minute

// startDeadline returns the time at which dependants of container i stop waiting for it; zero for never. It counts from
// the container's own first start (ECS startTimeout). The ECS agent has no bound for one that does not start at all;
// here it counts from the container's turn, with pullAllowance on top.
func startDeadline(s *State, i int) time.Time {
	c, limit := &s.Containers[i], s.Task.Containers[i].StartTimeout
	switch {
	case limit == 0 || c.Ended:
		return time.Time{}
	case !c.FirstStartedAt.IsZero():
		return c.FirstStartedAt.Add(limit)
	case !c.TurnAt.IsZero():
		return c.TurnAt.Add(limit + pullAllowance)
	}
	return time.Time{}
}

// noteTurns notes for each container that has a startTimeout when its turn came:
// its own dependencies are met and every digest is known.
func noteTurns(s *State, at time.Time) {
	if s.Goal != Up || !allResolved(s) {
		return
	}
	for i := range s.Containers {
		c := &s.Containers[i]
		if s.Task.Containers[i].StartTimeout == 0 || !c.TurnAt.IsZero() || !c.StartedAt.IsZero() || c.Ended {
			continue
		}
		if a, _ := dependencies(s, at, i); a == satisfied {
			c.TurnAt = at
		}
	}
}
