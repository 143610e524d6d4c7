package lifecycle

import (
	"fmt"
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
)

// settleWatches stops a task that asked for it: when an essential container is
// unhealthy (stopWhenUnhealthy), or when what it depended on is no longer so
// (watchDependencies). The ECS agent does neither.
func settleWatches(s *State, at time.Time) (changed bool) {
	wanted := s.Task.Extensions
	if s.Goal != Up {
		return false
	}
	for i := range s.Containers {
		c, def := &s.Containers[i], &s.Task.Containers[i]
		if !def.Essential || c.Presence != Running {
			continue
		}
		if wanted.StopWhenUnhealthy && c.HealthStatus() == HealthUnhealthy && !failedHealth(s, i) {
			lowerGoal(s, at, Down, StopReason{
				Code: StopServiceScheduler, Container: def.Name,
				Reason: fmt.Sprintf("container %s is unhealthy: %s", def.Name, c.healthReason()),
			})
			return true
		}
		if !wanted.WatchDependencies {
			continue
		}
		for _, d := range def.DependsOn {
			if why := lostDependency(s, d); why != "" {
				on := s.Task.Containers[d.Container].Name
				lowerGoal(s, at, Down, StopReason{
					Code: StopServiceScheduler, Container: def.Name,
					Reason: fmt.Sprintf("dependency %s (%s) of %s %s", on, d.Condition, def.Name, why),
				})
				return true
			}
		}
	}
	return false
}

// lostDependency describes the loss of a dependency that was met; empty if it is still met. One that is being restarted
// is not lost.
func lostDependency(s *State, d taskdef.Dependency) string {
	c := &s.Containers[d.Container]
	switch {
	case d.Condition != taskdef.Start && d.Condition != taskdef.Healthy:
		return ""
	case c.Ended:
		return "has ended"
	case d.Condition == taskdef.Healthy && c.HealthStatus() == HealthUnhealthy && !failedHealth(s, d.Container):
		return "is unhealthy"
	}
	return ""
}
