package lifecycle

import (
	"fmt"
	"time"
)

// fold writes a fact into the state. It decides nothing beyond what the fact
// itself says.
func (s *State) fold(at time.Time, ev Event) {
	switch ev := ev.(type) {
	case TimerFired:
		// Nothing but the time has changed.
	case Restarted:
		s.foldRestarted()
	case StopRequested:
		s.foldGoal(at, Down, ev.By, ev.Force)
	case RemoveRequested:
		s.foldGoal(at, Gone, ev.By, ev.Force)
	case Hinted:
		if ev.Index >= 0 && ev.Index < len(s.Containers) && s.Sandbox.Dirty && !s.Containers[ev.Index].Ended {
			s.Containers[ev.Index].Stale = true
		}
	case OpFinished:
		s.foldFinished(at, ev)
	default:
		panic(fmt.Sprintf("lifecycle: unknown event %T", ev))
	}
}

// foldRestarted forgets what was in flight and distrusts what was observed.
func (s *State) foldRestarted() {
	*s = s.Durable()
	s.Sandbox.Stale = s.Sandbox.Dirty
	for i := range s.Containers {
		s.Containers[i].Stale = s.Sandbox.Dirty && !s.Containers[i].Ended
	}
}

func (s *State) foldGoal(at time.Time, g Goal, by string, force bool) {
	if s.Sandbox.Phase == SandboxRemoved {
		return
	}
	s.lowerGoal(at, g, StopReason{Code: StopUserInitiated, Reason: "stopped by " + by})
	if force && !s.Force {
		s.Force = true
		s.Sandbox.Retry.NotUntil = time.Time{}
		for i := range s.Containers {
			s.Containers[i].Retry.NotUntil = time.Time{}
		}
	}
}

// lowerGoal moves the goal away from Up. The first reason stays.
func (s *State) lowerGoal(at time.Time, g Goal, why StopReason) {
	if s.Goal == Up {
		why.At = at
		s.Stop = why
		s.Sandbox.Retry = Retry{}
	}
	s.Goal = max(s.Goal, g)
}

// foldFinished finds the operation an answer belongs to. An answer to no
// operation in flight is late or doubled and is dropped.
func (s *State) foldFinished(at time.Time, ev OpFinished) {
	if ev.ID == 0 {
		return
	}
	ev.Failure.At = at
	if s.Sandbox.Op.ID == ev.ID {
		op := s.Sandbox.Op
		s.Sandbox.Op = Op{}
		s.foldSandbox(at, op, ev)
		return
	}
	for i := range s.Containers {
		if s.Containers[i].Op.ID == ev.ID {
			op := s.Containers[i].Op
			s.Containers[i].Op = Op{}
			s.foldContainer(at, i, op, ev)
			return
		}
	}
}

func (s *State) foldSandbox(at time.Time, op Op, ev OpFinished) {
	b := &s.Sandbox
	if ev.Failure.Class == OK {
		b.Retry, b.Stale = Retry{}, false
		switch op.Kind {
		case Prepare:
			b.Phase, b.PodID, b.Slice, b.Ports = SandboxReady, ev.Result.PodID, ev.Result.Slice, ev.Result.Ports
		case Halt:
			b.Phase = SandboxStopped
		case Remove:
			b.Phase, b.Dirty = SandboxRemoved, false
		default:
			panic("lifecycle: sandbox finished a " + op.Kind.String())
		}
		return
	}
	f := ev.Failure.named(op.Kind)
	switch {
	case f.Class == Canceled:
	case op.Kind == Prepare && (f.mayPass() && b.Retry.Attempts+1 < attemptLimit(Prepare)):
		b.Retry.postpone(at, f, b.Retry.tried(), s.jitter(-1))
	case op.Kind == Prepare:
		b.Failures = append(b.Failures[:len(b.Failures):len(b.Failures)], f)
		s.lowerGoal(at, Down, StopReason{Code: StopTaskFailedToStart, Reason: f.String()})
	case op.Kind == Remove && f.Class == Permanent:
		// Something that is not ours stands in the way. Trying again is up to the user.
		b.Failures = append(b.Failures[:len(b.Failures):len(b.Failures)], f)
		s.Goal = Down
	default:
		b.Retry.postpone(at, f, b.Retry.persisted(), s.jitter(-1))
	}
}

func (s *State) foldContainer(at time.Time, i int, op Op, ev OpFinished) {
	c := &s.Containers[i]
	if op.Kind == Probe {
		s.foldProbe(at, i, op, ev)
		return
	}
	if ev.Failure.Class != OK {
		s.foldContainerFailure(at, i, op, ev.Failure.named(op.Kind))
		return
	}
	switch op.Kind {
	case Resolve:
		c.Resolved, c.Digest, c.Retry = true, ev.Result.Digest, Retry{}
	case Pull:
		c.Pulled, c.ImageID, c.Source, c.Retry = true, ev.Result.ImageID, ev.Result.Source, Retry{}
	case Create, Start:
		if ev.Result.Seen.Presence >= Created && (op.Kind == Create || ev.Result.Seen.Presence > Created) {
			c.Retry = Retry{}
		}
		s.observe(at, i, ev.Result.Seen)
	case Stop:
		s.observe(at, i, ev.Result.Seen)
		if c.Presence == Running {
			c.Retry.postpone(at, Failure{Message: "it still runs after the stop"}, c.Retry.persisted(), s.jitter(i))
		}
	case Inspect:
		c.Retry.NotUntil = time.Time{}
		s.observe(at, i, ev.Result.Seen)
		s.judge(at, i)
	default:
		panic("lifecycle: container finished a " + op.Kind.String())
	}
}

// foldContainerFailure handles a failed operation other than a probe. A failed
// call proves nothing, so what it may have changed becomes stale.
func (s *State) foldContainerFailure(at time.Time, i int, op Op, f Failure) {
	c := &s.Containers[i]
	switch op.Kind {
	case Resolve, Pull:
		s.foldImageFailure(at, i, op.Kind, f)
	case Create, Start:
		c.Stale = true
		c.Doubt = Doubt{Kind: op.Kind, Failure: f}
	default: // Stop, Inspect: never given up
		c.Stale = true
		if f.Class != Canceled {
			c.Retry.postpone(at, f, c.Retry.persisted(), s.jitter(i))
		}
	}
}

// foldImageFailure: temporary failures are tried again; after that the pull
// behaviour says whether the task can do without (ECS: handleEventError).
func (s *State) foldImageFailure(at time.Time, i int, k Kind, f Failure) {
	c := &s.Containers[i]
	switch {
	case f.Class == Canceled:
	case f.mayPass() && f.Class != Timeout && c.Retry.Attempts+1 < attemptLimit(k):
		// The pace stays quick: a local copy may do when the registry is away.
		c.Retry.postpone(at, f, min(c.Retry.tried(), imageAttemptPace), s.jitter(i))
	case k == Resolve && s.toleratesImageFailure():
		f.Tolerated = true
		c.fail(f)
		c.Resolved, c.Retry = true, Retry{}
	default:
		c.fail(f)
		c.end(at)
		s.stopOnPullFailure(at, i, f)
	}
}

func (s *State) toleratesImageFailure() bool {
	return s.Options.Pull == PullDefault || s.Options.Pull == PullPreferCached
}

// stopOnPullFailure stops the task whether or not the container is essential,
// where the pull behaviour is strict (ECS: always and once).
func (s *State) stopOnPullFailure(at time.Time, i int, f Failure) {
	if s.toleratesImageFailure() {
		return
	}
	s.lowerGoal(at, Down, StopReason{Code: StopTaskFailedToStart, Reason: f.String(), Container: s.Task.Containers[i].Name})
}

// observe takes over what an inspection saw.
func (s *State) observe(at time.Time, i int, seen Observed) {
	c := &s.Containers[i]
	c.Stale = false
	if seen.Presence == Exited && seen.StartedAt.IsZero() {
		seen.Presence = Created // Podman's word for a start that failed
	}
	if !c.StartedAt.IsZero() && seen.Presence < Running {
		c.Presence = seen.Presence
		c.fail(Failure{Class: Permanent, Name: ErrContainerVanished, At: at, Message: vanished(seen.Presence)})
		c.end(at)
		return
	}
	c.Presence, c.ID = seen.Presence, seen.ID
	if seen.Presence < Running {
		return
	}
	if c.StartedAt.IsZero() {
		c.StartedAt = seen.StartedAt
		c.Health = s.firstCheckup(at, i)
	}
	if seen.Presence == Exited {
		c.FinishedAt = seen.FinishedAt
		c.HasExit, c.ExitCode = true, seen.ExitCode
		if seen.OOMKilled {
			c.fail(outOfMemory(at, seen.ExitCode))
		}
		c.end(at)
	}
}

// outOfMemory tells a container that was killed for memory from one that lost a
// process to it and ended by itself: Podman sets the same flag for both.
func outOfMemory(at time.Time, exitCode int) Failure {
	f := Failure{Class: Permanent, Name: ErrOutOfMemory, At: at, Message: "the container was killed for using more memory than its limit"}
	if exitCode != exitKilled {
		f.Tolerated = true
		f.Message = "a process of the container was killed for memory; the container itself ended later"
	}
	return f
}

// exitKilled is the exit code of SIGKILL.
const exitKilled = 137

// vanished says how a container that ran can be there no more.
func vanished(p Presence) string {
	if p == Created {
		return "Podman has reset the container, as after a restart of the host; its exit code is lost"
	}
	return "somebody else removed the container from Podman; its exit code is lost"
}

// judge decides about a failed create or start, now that an inspection has told
// what became of it.
func (s *State) judge(at time.Time, i int) {
	c := &s.Containers[i]
	d := c.Doubt
	c.Doubt = Doubt{}
	worked := d.Kind == Create && c.Presence >= Created || d.Kind == Start && c.Presence >= Running
	if d.Kind == Idle || worked || c.Ended || d.Failure.Class == Canceled {
		return
	}
	if d.Failure.Class == NoImage && !c.lostImage() {
		// Somebody removed the image after the pull: pull it again, once.
		d.Failure.Tolerated = true
		c.fail(d.Failure)
		c.Pulled, c.ImageID = false, ""
		return
	}
	if d.Failure.mayPass() && c.Retry.Attempts+1 < attemptLimit(d.Kind) {
		c.Retry.postpone(at, d.Failure, c.Retry.tried(), s.jitter(i))
		return
	}
	c.fail(d.Failure)
	c.end(at)
}

// lostImage reports whether the image has vanished under a create before.
func (c *Container) lostImage() bool {
	for _, f := range c.Failures {
		if f.Class == NoImage {
			return true
		}
	}
	return false
}

// fail adds to the list of what went wrong, without touching older states.
func (c *Container) fail(f Failure) {
	c.Failures = append(c.Failures[:len(c.Failures):len(c.Failures)], f)
}

// end marks the container as stopped for good.
func (c *Container) end(at time.Time) {
	c.Ended, c.EndedAt = true, at
	c.Stale, c.Retry, c.Doubt = false, Retry{}, Doubt{}
}
