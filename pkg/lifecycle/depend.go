package lifecycle

import (
	"fmt"
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
)

// answer is what dependencies say about a start.
type answer uint8

const (
	wait answer = iota
	ready
	never
)

// verdict says whether container i may start, and if never, why. It follows the
// ECS agent's ordering conditions, with one difference: a container that never
// ran satisfies nothing.
func (s *State) verdict(at time.Time, i int) (answer, string) {
	out := ready
	for _, d := range s.Task.Containers[i].DependsOn {
		switch a, why := s.conditionMet(at, d); a {
		case never:
			return never, fmt.Sprintf("dependency %s (%s) %s", s.Task.Containers[d.Container].Name, d.Condition, why)
		case wait:
			out = wait
		}
	}
	return out, ""
}

func (s *State) conditionMet(at time.Time, d taskdef.Dependency) (answer, string) {
	c := &s.Containers[d.Container]
	if c.Ended && c.StartedAt.IsZero() {
		return never, "never started"
	}
	switch d.Condition {
	case taskdef.Start:
		if !c.StartedAt.IsZero() {
			return ready, ""
		}
	case taskdef.Complete:
		if c.Ended && c.HasExit {
			return ready, ""
		}
		if c.Ended {
			return never, "ended without an exit code"
		}
	case taskdef.Success:
		if c.Ended && c.HasExit && c.ExitCode == 0 {
			return ready, ""
		}
		if c.Ended && c.HasExit {
			return never, fmt.Sprintf("exited with code %d", c.ExitCode)
		}
		if c.Ended {
			return never, "ended without an exit code"
		}
	case taskdef.Healthy:
		if c.Ended {
			return never, "stopped before it was healthy"
		}
		if c.Health.Status == HealthHealthy && !c.Stale {
			return ready, ""
		}
	}
	if deadline := s.startDeadline(d.Container); d.Condition != taskdef.Start && !deadline.IsZero() && !at.Before(deadline) {
		return never, fmt.Sprintf("did not get there within its startTimeout of %s", s.Task.Containers[d.Container].StartTimeout)
	}
	return wait, ""
}

// startDeadline is when dependants of container i stop waiting for it; zero for
// never. It counts from the container's own start (ECS startTimeout).
func (s *State) startDeadline(i int) time.Time {
	c, d := &s.Containers[i], s.Task.Containers[i].StartTimeout
	if d == 0 || c.StartedAt.IsZero() || c.Ended {
		return time.Time{}
	}
	return c.StartedAt.Add(d)
}
