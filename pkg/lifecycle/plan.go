package lifecycle

import (
	"slices"
	"time"
)

// plan turns what is missing into effects, at most one for each container and one
// for the sandbox.
func plan(s *State, at time.Time) []Effect {
	var out []Effect
	for i := range s.Containers {
		if e := planContainer(s, at, i); e != nil {
			out = append(out, e)
		}
	}
	if e := planSandbox(s, at); e != nil {
		out = append(out, e)
	}
	return out
}

func planContainer(s *State, at time.Time, i int) Effect {
	c, def := &s.Containers[i], &s.Task.Containers[i]
	if c.Op.Busy() {
		return planCancel(s, at, i)
	}
	if at.Before(c.Retry.NotUntil) {
		return nil
	}
	next, _ := nextOp(s, at, i)
	switch {
	case next == Idle,
		next == Start && at.Before(c.RestartAt),
		(next == Probe || next == Inspect && !c.Stale) && at.Before(nextLook(s, i)):
		return nil
	}
	id := begin(s, at, &c.Op, next)
	switch next {
	case Resolve:
		return ResolveImage{ID: id, Index: i, Ref: def.Image}
	case Pull:
		return PullImage{ID: id, Index: i, Ref: def.Image, Digest: c.Digest}
	case Create:
		return CreateContainer{ID: id, Index: i, Image: c.ImageID}
	case Start:
		e := StartContainer{ID: id, Index: i}
		if c.awaitsRestart() {
			e.Restart = c.Restarts + 1
		}
		return e
	case Stop:
		e := StopContainer{ID: id, Index: i}
		if !s.Force {
			if c.Hooks.StopSince.IsZero() {
				c.Hooks.StopSince = at
			}
			e.Grace, c.Op.Gentle = stopGrace(s, at, i), true
		}
		return e
	case Probe:
		c.Op.Probe, _ = nextCheck(s, i)
		check, _ := checkOf(s, i, c.Op.Probe)
		c.Op.Overdue = at.Add(check.timeout)
		return CheckHealth{ID: id, Index: i, Probe: c.Op.Probe}
	case PostStart, PreStop:
		return planHook(s, at, i, id)
	case Flush:
		return planFlush(s, at, i, id)
	default:
		return InspectContainer{ID: id, Index: i}
	}
}

// nextOp returns the operation that a container without one in flight needs next, or Idle
// and the code of what it waits for. It leaves out waits that only time ends: pauses
// before a retry, a restart or a health check. planContainer adds those, and Explain
// derives its reasons from the same answer. The code is empty if the container needs
// nothing.
func nextOp(s *State, at time.Time, i int) (next Kind, waits string) {
	c := &s.Containers[i]
	mayRun := func(d int) bool { return !s.Containers[d].Ended }
	switch {
	case c.Ended, c.Abandoned:
		return Idle, ""
	case c.Stale:
		return Inspect, ""
	case s.Goal == Up:
		return nextUp(s, at, i)
	case c.Presence != Running:
		return Idle, ""
	case !s.Force && slices.ContainsFunc(s.Task.Dependants(i), mayRun):
		return Idle, WhyStopOrder
	default:
		return stopOp(s, at, i), ""
	}
}

// nextUp moves a container one step towards running. No image is pulled and nothing is
// created before every digest of the task is known and the task has its reservation;
// pulls and creates do not wait for dependencies, starts do. A create waits for the pod and for
// containers whose volumes it takes, a start for the infra container.
func nextUp(s *State, at time.Time, i int) (next Kind, waits string) {
	c := &s.Containers[i]
	podReady := s.Sandbox.Phase == SandboxReady && !s.Sandbox.Stale
	switch {
	case c.Presence == Running:
		switch {
		case c.Unmonitored == MonitorLost:
			return Stop, "" // Podman will not notice its end
		case toRestart(s, i) && !c.Paused:
			return stopOp(s, at, i), ""
		}
		_, checks := nextCheck(s, i)
		switch {
		case !checks && !awaitsHook(s, i):
			return Idle, ""
		case c.Paused:
			return Inspect, "" // its check cannot run; it may have been resumed
		case awaitsHook(s, i):
			return PostStart, ""
		default:
			return Probe, ""
		}
	case c.awaitsRestart():
		if podReady {
			return Start, ""
		}
	case c.Presence == Created:
		if a, _ := dependencies(s, at, i); a != satisfied {
			return Idle, WhyDependency
		} else if podReady {
			return Start, ""
		}
	case !c.Resolved:
		return Resolve, ""
	case !allResolved(s):
		return Idle, WhyDigests
	case !admitted(s):
		return Idle, WhyQueued
	case !c.Pulled:
		return Pull, ""
	case awaitsVolumes(s, i) >= 0:
		return Idle, WhyVolumes
	case podReady, s.Sandbox.Made && !s.Task.Containers[i].NeedsAddress():
		return Create, ""
	}
	return Idle, WhyPod
}

// awaitsVolumes returns a container that container i takes volumes from and that is not there
// yet; -1 for none. Those of its image come into being with it. One that has ended without
// having been created is not waited for.
func awaitsVolumes(s *State, i int) int {
	for _, from := range s.Task.Containers[i].VolumesFrom {
		if c := s.Containers[from.Container]; c.Presence == Absent && !c.Ended {
			return from.Container
		}
	}
	return -1
}

// planCancel cancels an operation whose result is no longer needed.
func planCancel(s *State, at time.Time, i int) Effect {
	c := &s.Containers[i]
	if c.Op.Canceled {
		return nil
	}
	unwanted := false
	switch c.Op.Kind {
	case Resolve, Pull:
		a, _ := dependencies(s, at, i)
		unwanted = s.Goal != Up || a == impossible
	case Probe:
		unwanted = s.Goal != Up || c.Stale || toRestart(s, i)
	case PostStart, PreStop:
		unwanted = cancelHook(s, i)
	case Flush:
		unwanted = cancelFlush(s, i)
	case Create, Start:
		unwanted = s.Force
	case Stop:
		unwanted = s.Force && c.Op.Gentle
	}
	if !unwanted {
		return nil
	}
	c.Op.Canceled = true
	return CancelOp{ID: c.Op.ID}
}

// begin marks an operation as in flight and returns its ID.
func begin(s *State, at time.Time, op *Op, k Kind) OpID {
	if op.Busy() {
		panic("lifecycle: " + k.String() + " would overlap " + op.Kind.String())
	}
	id := s.NextOp
	s.NextOp++
	*op = Op{ID: id, Kind: k, Since: at}
	return id
}
