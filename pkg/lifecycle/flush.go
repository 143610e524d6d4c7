package lifecycle

import (
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
)

// A log router (FireLens) stops after the containers that log to it, and not before it has taken
// their last lines, for which it has as long as for its stop. ECS waits for nothing here. Like a
// preStop hook, this is an operation that a new owner repeats, and the time counts from the first
// attempt. A kill does not wait for it.

// flushes reports whether container i is a log router that lines may still wait for.
func flushes(s *State, at time.Time, i int) bool {
	c := &s.Containers[i]
	if s.Goal == Up || s.Force || c.Hooks.Flushed || c.Paused || c.Unmonitored == MonitorLost {
		return false
	}
	if taskdef.RouterOf(s.Task, s.Options.Logs) != i || flushLeft(s, at, i) <= 0 {
		return false
	}
	wrote := false
	for app := range s.Containers {
		if !taskdef.RoutedBy(s.Task, i, app) {
			continue
		}
		if !s.Containers[app].Ended {
			return false // it does not stop before the router
		}
		wrote = wrote || !s.Containers[app].StartedAt.IsZero()
	}
	return wrote
}

// flushLeft returns the rest of the time that a log router has for its last lines.
func flushLeft(s *State, at time.Time, i int) time.Duration {
	limit := s.Task.Containers[i].StopTimeout
	if since := s.Containers[i].Hooks.FlushSince; !since.IsZero() {
		return limit - max(at.Sub(since), 0)
	}
	return limit
}

func planFlush(s *State, at time.Time, i int, id OpID) Effect {
	h := &s.Containers[i].Hooks
	if h.FlushSince.IsZero() {
		h.FlushSince = at
	}
	return FlushLogs{ID: id, Index: i, Limit: flushLeft(s, at, i)}
}

// cancelFlush reports whether the last lines are not waited for any more: on a kill, and where the
// router may have ended.
func cancelFlush(s *State, i int) bool { return s.Force || s.Containers[i].Stale }

// foldFlush takes over the answer: what was not passed on is told by the owner.
func foldFlush(s *State, i int, ev OpFinished) {
	if ev.Failure.Class != Canceled {
		s.Containers[i].Hooks.Flushed = true
	}
}
