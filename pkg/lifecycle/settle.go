package lifecycle

import (
	"fmt"
	"slices"
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
)

// settle draws every conclusion that needs no call, until nothing follows any more.
func settle(s *State, at time.Time) {
	countOverdueProbes(s, at)
	for settleContainers(s, at) || settleEssential(s, at) || settleDeadline(s, at) || settleWatches(s, at) || settleInfra(s, at) || settleForced(s) || settleSandbox(s) {
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
			c.fail(why)
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
	for _, i := range ranFirst(s, essential(s)) {
		c := s.Containers[i]
		if !c.Ended || !c.StartedAt.IsZero() && awaitsLast(s) {
			continue
		}
		if s.Task.Extensions.UntilLast && !c.StartedAt.IsZero() {
			i = decisive(s)
			c = s.Containers[i]
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
		if why.Code == StopEssentialContainerExited && c.HasExit && c.ExitCode == 0 {
			why.Reason += failBlocked(s, at)
		}
		lowerGoal(s, at, Down, why)
		return true
	}
	return false
}

// ranFirst sorts those containers that have started before the others, whose dependencies they may be.
func ranFirst(s *State, containers []int) []int {
	slices.SortStableFunc(containers, func(a, b int) int {
		never := func(i int) int {
			if s.Containers[i].StartedAt.IsZero() {
				return 1
			}
			return 0
		}
		return never(a) - never(b)
	})
	return containers
}

// failBlocked fails the essential containers that wait for a dependency when the task ends: it did not
// do all its work, although what ended had success. It returns what the stopped reason says of them.
func failBlocked(s *State, at time.Time) (reason string) {
	for _, i := range essential(s) {
		c := &s.Containers[i]
		if !c.StartedAt.IsZero() || c.Op.Busy() && c.Op.Kind == Start {
			continue
		}
		if d, why, blocked := blocking(s, at, i); blocked && !c.Ended {
			c.fail(neverStarted(s, at, d, why))
			c.HasExit, c.ExitCode = true, exitDependency
		}
		if c.HasExit {
			reason += fmt.Sprintf("; essential container %s could not start: %s", s.Task.Containers[i].Name, c.lastFailure())
		}
	}
	return reason
}

// blocking returns the dependency for which container i still waits while the task ends.
func blocking(s *State, at time.Time, i int) (d taskdef.Dependency, why string, blocked bool) {
	for _, d := range s.Task.Containers[i].DependsOn {
		switch a, why := condition(s, at, d); a {
		case impossible:
			return d, why, true
		case pending:
			return d, "was not fulfilled before the task ended", true
		}
	}
	return d, "", false
}

// awaitsLast reports whether the task continues until other essential containers have ended
// as well.
func awaitsLast(s *State) bool {
	if s.Task.Extensions.FailAtOnce && slices.ContainsFunc(essential(s), func(i int) bool { return s.Containers[i].Ended && s.Containers[i].ExitCode != 0 }) {
		return false
	}
	return s.Task.Extensions.UntilLast && slices.ContainsFunc(essential(s), func(i int) bool { return !s.Containers[i].Ended })
}

// essential are the indices of the essential containers.
func essential(s *State) (all []int) {
	for i, def := range s.Task.Containers {
		if def.Essential {
			all = append(all, i)
		}
	}
	return all
}

// decisive is the essential container whose end counts among those that have ended: the first
// that failed, or else the last.
func decisive(s *State) int {
	ended := func(i int) time.Time {
		if c := &s.Containers[i]; c.HasExit && !c.FinishedAt.IsZero() {
			return c.FinishedAt
		}
		return s.Containers[i].EndedAt
	}
	failed := func(i int) bool { return !s.Containers[i].HasExit || s.Containers[i].ExitCode != 0 }
	all := slices.DeleteFunc(essential(s), func(i int) bool { return !s.Containers[i].Ended })
	best := all[0]
	for _, i := range all[1:] {
		switch {
		case failed(i) != failed(best):
			if failed(i) {
				best = i
			}
		case failed(i) == ended(i).Before(ended(best)) && !ended(i).Equal(ended(best)):
			best = i
		}
	}
	return best
}

// settleDeadline stops a task that has run for as long as it may.
func settleDeadline(s *State, at time.Time) (changed bool) {
	deadline := s.deadline()
	if s.Goal != Up || deadline.IsZero() || at.Before(deadline) {
		return false
	}
	lowerGoal(s, at, Down, StopReason{Code: StopDeadlineExceeded, Reason: fmt.Sprintf("the task was active for longer than its time limit of %s", s.Task.Extensions.Deadline)})
	return true
}

// deadline returns the time at which the task is stopped; zero for never.
func (s State) deadline() time.Time {
	if limit, began := s.Task.Extensions.Deadline, s.Began(); limit > 0 && !began.IsZero() {
		return began.Add(limit)
	}
	return time.Time{}
}

// Began returns the time at which the task got its share of the host; zero before.
func (s State) Began() time.Time {
	if s.Sandbox.AdmittedAt.IsZero() && s.Sandbox.Reservation == ReservationNone && s.Need().IsZero() {
		return s.CreatedAt
	}
	return s.Sandbox.AdmittedAt
}

func (c Container) lastFailure() string {
	if n := len(c.Failures); n > 0 {
		return c.Failures[n-1].String()
	}
	return "no reason known"
}
