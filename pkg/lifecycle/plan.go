package lifecycle

import "time"

// plan turns what is missing into effects, at most one for each container and one
// for the sandbox.
func (s *State) plan(at time.Time) []Effect {
	var out []Effect
	for i := range s.Containers {
		if e := s.planContainer(at, i); e != nil {
			out = append(out, e)
		}
	}
	if e := s.planSandbox(at); e != nil {
		out = append(out, e)
	}
	return out
}

func (s *State) planContainer(at time.Time, i int) Effect {
	c := &s.Containers[i]
	switch {
	case c.Ended, c.Abandoned:
		return nil
	case c.Op.Busy():
		return s.planCancel(at, i)
	case at.Before(c.Retry.NotUntil):
		return nil
	case c.Stale:
		return InspectContainer{ID: s.begin(at, &c.Op, Inspect), Index: i}
	case s.Goal == Up:
		return s.planUp(at, i)
	default:
		return s.planDown(at, i)
	}
}

// planUp moves a container one step towards running. No image is pulled and
// nothing is created before every digest of the task is known and the task has its
// share of the host; pulls and creates do not wait for dependencies, starts do.
func (s *State) planUp(at time.Time, i int) Effect {
	c, def := &s.Containers[i], &s.Task.Containers[i]
	sandbox := s.Sandbox.Phase == SandboxReady && !s.Sandbox.Stale
	switch {
	case c.Presence == Running:
		if def.HealthCheck != nil && !at.Before(c.Health.Next) && c.Paused {
			return InspectContainer{ID: s.begin(at, &c.Op, Inspect), Index: i}
		}
		if def.HealthCheck != nil && !at.Before(c.Health.Next) {
			id := s.begin(at, &c.Op, Probe)
			c.Op.Overdue = at.Add(def.HealthCheck.Timeout)
			return CheckHealth{ID: id, Index: i}
		}
	case c.awaitsRestart():
		if !at.Before(c.RestartAt) && sandbox {
			return StartContainer{ID: s.begin(at, &c.Op, Start), Index: i, Restart: c.Restarts + 1}
		}
	case c.Presence == Created:
		if a, _ := s.verdict(at, i); a == ready && sandbox {
			return StartContainer{ID: s.begin(at, &c.Op, Start), Index: i}
		}
	case !c.Resolved:
		return ResolveImage{ID: s.begin(at, &c.Op, Resolve), Index: i, Ref: def.Image}
	case !s.allResolved() || !s.admitted():
	case !c.Pulled:
		return PullImage{ID: s.begin(at, &c.Op, Pull), Index: i, Ref: def.Image, Digest: c.Digest}
	case sandbox:
		return CreateContainer{ID: s.begin(at, &c.Op, Create), Index: i, Image: c.ImageID}
	}
	return nil
}

// planDown stops a running container once everything that depends on it has ended.
func (s *State) planDown(at time.Time, i int) Effect {
	c := &s.Containers[i]
	if c.Presence != Running {
		return nil
	}
	if !s.Force {
		for _, d := range s.Task.Dependants(i) {
			if !s.Containers[d].Ended {
				return nil
			}
		}
	}
	e := StopContainer{ID: s.begin(at, &c.Op, Stop), Index: i}
	if !s.Force {
		e.Grace = s.Task.Containers[i].StopTimeout
		c.Op.Gentle = true
	}
	return e
}

// planCancel gives up an operation nobody needs any more.
func (s *State) planCancel(at time.Time, i int) Effect {
	c := &s.Containers[i]
	if c.Op.Canceled {
		return nil
	}
	unwanted := false
	switch c.Op.Kind {
	case Resolve, Pull:
		a, _ := s.verdict(at, i)
		unwanted = s.Goal != Up || a == never
	case Probe:
		unwanted = s.Goal != Up || c.Stale
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
func (s *State) begin(at time.Time, op *Op, k Kind) OpID {
	if op.Busy() {
		panic("lifecycle: " + k.String() + " would overlap " + op.Kind.String())
	}
	id := s.NextOp
	s.NextOp++
	*op = Op{ID: id, Kind: k, Since: at}
	return id
}
