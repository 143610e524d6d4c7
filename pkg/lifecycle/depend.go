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
	limit, deadline := s.Task.Containers[d.Container].StartTimeout, s.startDeadline(d.Container)
	late := !deadline.IsZero() && !at.Before(deadline)
	if late && c.StartedAt.IsZero() {
		return never, fmt.Sprintf("did not start within its startTimeout of %s and %s for its image", limit, pullAllowance)
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
	if late {
		return never, fmt.Sprintf("did not get there within its startTimeout of %s", limit)
	}
	return wait, ""
}

// pullAllowance is what a container that has not started has beyond its
// startTimeout: time for a slow pull, and not for one that hangs.
const pullAllowance = 10 * time.Minute

// startDeadline is when dependants of container i stop waiting for it; zero for
// never. It counts from the container's own first start (ECS startTimeout). The ECS
// agent has no bound for one that does not start at all; here it counts from the
// container's turn, with pullAllowance on top.
func (s *State) startDeadline(i int) time.Time {
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
func (s *State) noteTurns(at time.Time) {
	if s.Goal != Up || !s.allResolved() {
		return
	}
	for i := range s.Containers {
		c := &s.Containers[i]
		if s.Task.Containers[i].StartTimeout == 0 || !c.TurnAt.IsZero() || !c.StartedAt.IsZero() || c.Ended {
			continue
		}
		if a, _ := s.verdict(at, i); a == ready {
			c.TurnAt = at
		}
	}
}
