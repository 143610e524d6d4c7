package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/pkg/admission"
	"github.com/podtask/podtask/pkg/taskdef"
)

// fold writes a fact into the state. It decides nothing beyond what the fact
// itself says.
func fold(s *State, at time.Time, ev Event) {
	switch ev := ev.(type) {
	case TimerFired:
		// Nothing but the time has changed.
	case Restarted:
		foldRestarted(s)
		setFaults(s, at, nil, "the process that owned the task has ended")
	case QueueMoved:
		if s.Queued() {
			s.Sandbox.Retry.NotUntil = time.Time{}
		}
	case StopRequested:
		if !ev.Spare || !at.Before(s.ProtectedUntil) {
			foldGoal(s, at, Down, cmp.Or(ev.Reason, "stopped by "+ev.By), ev.Force)
		}
	case ProtectionRequested:
		s.ProtectedUntil = ev.Until // Step drops what is no protection
	case FaultsChanged:
		setFaults(s, at, ev.Faults, ev.Reason)
	case RemoveRequested:
		foldGoal(s, at, Gone, "stopped by "+ev.By, ev.Force)
	case LimitsRequested:
		foldLimits(s, ev.Quota)
	case ResourcesRequested:
		foldResources(s, ev.Resources)
	case RestartRequested:
		foldRestart(s, ev.Container)
	case Hinted:
		foldHint(s, ev.Index, ev.Early)
	case OpFinished:
		foldFinished(s, at, ev)
	default:
		panic(fmt.Sprintf("lifecycle: unknown event %T", ev))
	}
}

// foldRestarted forgets what was in flight and distrusts what was observed.
func foldRestarted(s *State) {
	*s = s.Durable()
	s.Sandbox.Stale = s.Sandbox.Dirty
	if s.Sandbox.Reservation == ReservationGranted {
		s.Sandbox.Reservation = ReservationRequested
	}
	for i := range s.Containers {
		s.Containers[i].Stale = s.Sandbox.Dirty && !s.Containers[i].Ended
		s.Containers[i].Paused = false // until it is seen again
	}
}

// foldHint distrusts what is known of a container.
func foldHint(s *State, i int, early bool) {
	if i == InfraIndex {
		foldInfraHint(s, early)
		return
	}
	if i < 0 || i >= len(s.Containers) || !s.Sandbox.Dirty || s.Containers[i].Ended {
		return
	}
	c := &s.Containers[i]
	c.Stale, c.Op.Outdated = true, c.Op.Kind == Inspect
	if early && c.Presence == Running {
		c.Unmonitored.suspect()
	}
}

// foldLimits applies other limits.
func foldLimits(s *State, q Quota) {
	before := s.Need()
	q.ImplicitShares = s.Options.Quota.ImplicitShares
	q.CountContainers = s.Options.Quota.CountContainers
	s.Options.Quota = q
	foldNeed(s, before)
}

// foldResources applies other resources.
func foldResources(s *State, r Resources) {
	if !r.Fits(s.Task) || r.Equal(s.Task) {
		return
	}
	changed := r.Apply(s.Task)
	if changed.Check() != nil {
		return // the record could not be loaded again
	}
	before := s.Need()
	s.Task = changed
	s.Resizes++
	for _, i := range r.Restart {
		c := &s.Containers[i]
		c.Resizing = c.Presence == Running && !c.Ended && s.Task.Containers[i].Restart != nil
	}
	foldNeed(s, before)
}

// foldRestart requests the restart of a container.
func foldRestart(s *State, i int) {
	if i < 0 || i >= len(s.Containers) || s.Goal != Up {
		return
	}
	c := &s.Containers[i]
	c.RestartRequested = c.Presence == Running && !c.Ended
}

// foldNeed requests the reservation of the task again if the task needs other things from the
// host than before; a task that has begun gets it even without room.
func foldNeed(s *State, before admission.Need) {
	b := &s.Sandbox
	if s.Goal != Up || b.Reservation == ReservationNeeded || s.Need().Equal(before) {
		return
	}
	b.Reservation = ReservationRequested
	b.Retry.NotUntil = time.Time{}
	if b.Op.Kind == Admit {
		b.Op.Canceled = true // its answer is about the need of before
	}
}

func foldGoal(s *State, at time.Time, g Goal, reason string, force bool) {
	if s.Sandbox.Phase == SandboxRemoved {
		return
	}
	if g == Gone && s.Goal != Gone {
		// What a removal may take is counted from here.
		for i := range s.Containers {
			s.Containers[i].Retry.Persist, s.Containers[i].Retry.NotUntil = 0, time.Time{}
		}
		s.Sandbox.Retry.Persist, s.Sandbox.Retry.NotUntil = 0, time.Time{}
	}
	lowerGoal(s, at, g, StopReason{Code: StopUserInitiated, Reason: reason})
	if force && !s.Force {
		s.Force = true
		s.Sandbox.Retry.NotUntil = time.Time{}
		for i := range s.Containers {
			s.Containers[i].Retry.NotUntil = time.Time{}
		}
	}
}

// lowerGoal moves the goal away from Up. The first reason stays.
func lowerGoal(s *State, at time.Time, g Goal, why StopReason) {
	if s.Goal == Up {
		if why.At = at; s.Queued() {
			why.Reason = strings.TrimPrefix(why.Reason+"; ", "; ") + "it was queued and waited for " + s.Sandbox.Queue
		}
		s.Stop = why
		s.Sandbox.Retry, s.Sandbox.Queue = Retry{}, ""
	}
	s.Goal = max(s.Goal, g)
}

// foldFinished finds the operation an answer belongs to. An answer to no
// operation in flight is late or doubled and is dropped.
func foldFinished(s *State, at time.Time, ev OpFinished) {
	if ev.ID == 0 {
		return
	}
	ev.Failure.At = at
	if s.Sandbox.Op.ID == ev.ID {
		op := s.Sandbox.Op
		s.Sandbox.Op = Op{}
		noteAnswer(s, at, op.Kind, ev.Failure)
		foldSandbox(s, at, op, ev)
		return
	}
	for i := range s.Containers {
		if s.Containers[i].Op.ID == ev.ID {
			op := s.Containers[i].Op
			s.Containers[i].Op = Op{}
			noteAnswer(s, at, op.Kind, ev.Failure)
			foldContainer(s, at, i, op, ev)
			return
		}
	}
}

// useImageCheck gives a container whose definition asks for it the health check of its
// image. From then on the task is as if it had been written so.
func useImageCheck(s *State, i int, check *taskdef.HealthCheck) {
	if def := s.Task.Containers[i]; check == nil || def.HasHealth() || !def.Extensions.ImageHealthCheck {
		return
	}
	s.Task.Containers = slices.Clone(s.Task.Containers)
	s.Task.Containers[i].HealthCheck = check
}

func foldContainer(s *State, at time.Time, i int, op Op, ev OpFinished) {
	c := &s.Containers[i]
	switch op.Kind {
	case Probe:
		foldProbe(s, at, i, op, ev)
		return
	case PostStart, PreStop:
		foldHook(s, at, i, op, ev)
		return
	case Flush:
		foldFlush(s, i, ev)
		return
	}
	if ev.Failure.Class != OK {
		foldContainerFailure(s, at, i, op, ev.Failure.named(op.Kind))
		return
	}
	switch op.Kind {
	case Resolve:
		c.Resolved, c.Digest, c.Retry = true, ev.Result.Digest, Retry{}
	case Pull:
		c.Pulled, c.ImageID, c.Source, c.Retry = true, ev.Result.ImageID, ev.Result.Source, Retry{}
		if c.Source == SourceCache && !c.Pinned {
			c.Digest = ev.Result.Digest // what runs, which need not be what the registry has
		}
		useImageCheck(s, i, ev.Result.HealthCheck)
	case Create:
		if ev.Result.Seen.Presence >= Created {
			c.Retry = Retry{}
		}
		observe(s, at, i, ev.Result.Seen)
		c.Stale = c.Stale || op.Outdated && !c.Ended
	case Start:
		if f := ev.Result.Tolerated; f.Class != OK {
			f.Tolerated, f.At = true, at
			c.fail(f)
		}
		// Podman has said yes; what it shows decides, as after a failure.
		c.Unconfirmed = Unconfirmed{Kind: Start, Failure: Failure{Class: Temporary, At: at, Message: "it does not run after the start"}.named(Start)}
		observe(s, at, i, ev.Result.Seen)
		judge(s, at, i)
	case Stop:
		observe(s, at, i, ev.Result.Seen)
		if c.Presence == Running {
			retryStop(s, i)
			c.Retry.postpone(at, Failure{Message: "it still runs after the stop"}, c.Retry.persisted(), jitter(s, i))
		}
	case Inspect:
		c.Retry.NotUntil = time.Time{}
		observe(s, at, i, ev.Result.Seen)
		judge(s, at, i)
		c.Stale = c.Stale || op.Outdated && !c.Ended
	default:
		panic("lifecycle: container finished a " + op.Kind.String())
	}
}

// foldContainerFailure handles a failed operation other than a probe. A failed
// call proves nothing, so what it may have changed becomes stale.
func foldContainerFailure(s *State, at time.Time, i int, op Op, f Failure) {
	c := &s.Containers[i]
	switch op.Kind {
	case Resolve, Pull:
		foldImageFailure(s, at, i, op, f)
	case Create, Start:
		c.Stale = true
		if op.Outdated {
			f.Class = Canceled // by the discard of its pod: it does not count
		}
		c.Unconfirmed = Unconfirmed{Kind: op.Kind, Failure: f}
	default: // Stop, Inspect: never given up, but in the end left to a removal
		c.Stale = true
		if f.Class != Canceled {
			if op.Kind == Stop {
				retryStop(s, i)
			}
			if c.Retry.excuse(s, at, f, i) {
				return
			}
			c.Retry.postpone(at, f, c.Retry.persisted(), jitter(s, i))
		}
		if s.Goal == Gone && c.Retry.Persist >= removalAttempts {
			c.fail(f)
			c.Abandoned = true
		}
	}
}

// foldImageFailure: temporary failures are tried again, so often and for so long; after
// that the pull behavior says whether the task can do without (ECS: handleEventError).
func foldImageFailure(s *State, at time.Time, i int, op Op, f Failure) {
	c, k := &s.Containers[i], op.Kind
	if c.Retry.excuse(s, at, f, i) {
		return
	}
	again := c.Retry
	if again.Since.IsZero() {
		again.Since = op.Since
	}
	// A person who waits gets an answer soon; a task that nobody waits for keeps trying.
	attempts := again.tried()
	if !s.Options.Persistent {
		attempts = min(attempts, imageAttemptPace)
	}
	again.postpone(at, f, attempts, jitter(s, i))
	late := k == Resolve && again.NotUntil.Sub(again.Since) >= s.Options.ResolveLimit()
	switch {
	case f.Class == Canceled:
	case s.Options.Persistent && f.mayPass():
		c.Retry = again
	case f.mayPass() && f.Class != Timeout && !late && again.Attempts < imageAttemptLimit(s, i, k, f):
		c.Retry = again
	case k == Resolve && toleratesImageFailure(s, i):
		f.Tolerated = true
		c.fail(f)
		c.Resolved, c.Retry = true, Retry{}
	default:
		c.fail(f)
		c.end(at)
		stopOnPullFailure(s, at, i, f)
	}
}

func toleratesImageFailure(s *State, i int) bool {
	b := s.Options.Pull.Or(s.Task.Containers[i].Extensions.Kube.Pull)
	return b == PullDefault || b == PullPreferCached
}

// stopOnPullFailure stops the task whether or not the container is essential,
// where the pull behavior is strict (ECS: always and once).
func stopOnPullFailure(s *State, at time.Time, i int, f Failure) {
	if toleratesImageFailure(s, i) {
		return
	}
	lowerGoal(s, at, Down, StopReason{Code: StopTaskFailedToStart, Reason: f.String(), Container: s.Task.Containers[i].Name})
}

// settleForced leaves the containers to the removal of the pod, which kills them, if the
// task is removed by force: one call takes less time than one for each container.
func settleForced(s *State) (changed bool) {
	if s.Goal != Gone || !s.Force {
		return false
	}
	for i := range s.Containers {
		if c := &s.Containers[i]; c.Presence == Running && !c.Ended && !c.Abandoned && !c.Stale && !c.Op.Busy() {
			c.Abandoned, changed = true, true
		}
	}
	return changed
}

// endAbandoned ends what a removal has taken along. The exit code of a container that a
// forced removal killed is that of SIGKILL: what Podman had to say is removed as well.
func endAbandoned(s *State, at time.Time) {
	for i := range s.Containers {
		if c := &s.Containers[i]; !c.Ended {
			if s.Force && c.Presence == Running {
				c.HasExit, c.ExitCode, c.FinishedAt = true, exitKilled, at
			}
			c.end(at)
		}
	}
}

// resumeAbandoned takes up again what a failed removal had been left: it may have ended
// some.
func resumeAbandoned(s *State) {
	for i := range s.Containers {
		if c := &s.Containers[i]; c.Abandoned {
			c.Abandoned, c.Stale, c.Retry = false, true, Retry{}
		}
	}
}

// observe takes over what an inspection saw.
func observe(s *State, at time.Time, i int, seen Observed) {
	c := &s.Containers[i]
	c.Stale, c.Paused = false, seen.Presence == Running && seen.Paused
	if seen.Presence == Exited && seen.StartedAt.IsZero() {
		seen.Presence = Created // Podman's word for a start that failed
	}
	ran := !c.StartedAt.IsZero()
	switch {
	case ran && (seen.Presence == Absent || seen.Presence == Created && !c.awaitsRestart()):
		c.Presence = seen.Presence
		c.fail(Failure{Class: Permanent, Name: ErrContainerVanished, At: at, Message: c.vanished()})
		c.end(at)
		return
	case c.awaitsRestart() && (seen.Presence == Created || seen.Presence == Exited && seen.StartedAt.Equal(c.StartedAt)):
		c.Presence = seen.Presence // it has not been started again
		return
	}
	c.Presence, c.ID, c.Ports, c.Addresses = seen.Presence, seen.ID, seen.Ports, seen.Addresses
	if observeMonitor(s, at, i, seen) {
		return
	}
	if seen.Presence < Running {
		return
	}
	switch {
	case !ran:
		c.FirstStartedAt = seen.StartedAt
		beginRun(s, at, i, seen.StartedAt)
	case !seen.StartedAt.Equal(c.StartedAt): // by podtask or by a user
		c.Restarts++
		beginRun(s, at, i, seen.StartedAt)
	}
	switch {
	case seen.Presence == Exited:
		endRun(s, at, i, seen)
	case c.Paused:
		watchPaused(s, at, i)
	}
}

// vanished returns a description of how a container that ran can have disappeared.
func (c *Container) vanished() string {
	lost := "; its exit code is lost"
	if c.HasExit {
		lost = ", before it was seen to run again"
	}
	if c.Presence == Created {
		return "Podman has reset the container, as after a restart of the host" + lost
	}
	return "another program removed the container from Podman" + lost
}

// judge decides about a failed create or start, now that an inspection has told
// what became of it.
func judge(s *State, at time.Time, i int) {
	c := &s.Containers[i]
	d := c.Unconfirmed
	c.Unconfirmed = Unconfirmed{}
	worked := d.Kind == Create && c.Presence >= Created || d.Kind == Start && c.Presence >= Running && !c.awaitsRestart()
	if d.Kind == Idle || worked || c.Ended || d.Failure.Class == Canceled || c.Retry.excuse(s, at, d.Failure, i) {
		return
	}
	if d.Failure.Class == NoImage && !c.lostImage() {
		// The image was removed after the pull: pull it again, once.
		d.Failure.Tolerated = true
		c.fail(d.Failure)
		c.Pulled, c.ImageID = false, ""
		return
	}
	if d.Failure.mayPass() && c.Retry.Attempts+1 < attemptLimit(s, d.Kind, d.Failure) {
		c.Retry.postpone(at, d.Failure, c.Retry.tried(), jitter(s, i))
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
	c.Stale, c.Paused, c.Abandoned, c.Retry, c.Unconfirmed = false, false, false, Retry{}, Unconfirmed{}
	c.TurnAt, c.RestartAt, c.Resizing, c.RestartRequested = time.Time{}, time.Time{}, false, false
}
