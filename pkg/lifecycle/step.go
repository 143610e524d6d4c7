package lifecycle

import "time"

// Step returns the state after ev and what to do now. It neither reads nor
// changes anything else; s stays valid. at is the time of the event. It may be before that
// of an earlier one, because clocks are set: then no timer is later than it can be.
func Step(s State, at time.Time, ev Event) (State, []Effect) {
	wasUp := s.Goal == Up
	s = clone(s)
	limitTimers(&s, at)
	fold(&s, at, ev)
	settle(&s, at)
	if s.Goal != Up || !at.Before(s.ProtectedUntil) {
		s.ProtectedUntil = time.Time{}
	}
	endFaults(&s, at)
	effects := plan(&s, at)
	record(&s, at, wasUp)
	return s, effects
}

// limitTimers brings timers nearer that are further off than they are ever set: the clock
// was set back since.
func limitTimers(s *State, at time.Time) {
	limit := func(timer *time.Time, most time.Duration) {
		if latest := at.Add(most); timer.After(latest) {
			*timer = latest
		}
	}
	limit(&s.ProtectedUntil, MaxProtection)
	limitFaults(s, at)
	limit(&s.Sandbox.Retry.NotUntil, backoffCap)
	for i := range s.Containers {
		c := &s.Containers[i]
		limit(&c.Retry.NotUntil, backoffCap)
		limit(&c.RestartAt, maxRestartPause)
		for k := range numProbeKind {
			check, found := checkOf(s, i, k)
			if !found {
				continue
			}
			limit(&c.health(k).Since, check.delay)
			limit(&c.health(k).Next, max(check.delay, check.interval))
			if c.Op.Probe == k {
				limit(&c.Op.Overdue, max(check.interval, check.timeout))
			}
		}
	}
}

// Wake is the earliest moment after the given one at which the state wants
// TimerFired; the zero time means that no timer is needed.
func (s State) Wake(after time.Time) time.Time {
	var wake time.Time
	consider := func(t time.Time) {
		if t.After(after) && (wake.IsZero() || t.Before(wake)) {
			wake = t
		}
	}
	if s.Goal == Up {
		consider(s.deadline())
		consider(s.ProtectedUntil)
	}
	for _, f := range s.Faults {
		consider(f.Until)
	}
	if !s.Sandbox.Op.Busy() && !s.Settled() {
		consider(s.Sandbox.Retry.NotUntil)
	}
	for i, c := range s.Containers {
		switch {
		case c.Ended, c.Abandoned:
		case c.Op.Busy():
			consider(c.Op.Overdue)
		default:
			consider(c.Retry.NotUntil)
			if s.Goal == Up {
				consider(c.RestartAt)
			}
			if c.Presence == Running && s.Goal == Up {
				consider(nextLook(&s, i))
			}
		}
		if s.Goal == Up && c.StartedAt.IsZero() && !c.Ended {
			for _, d := range s.Task.Containers[i].DependsOn {
				consider(startDeadline(&s, d.Container))
			}
		}
	}
	return wake
}
