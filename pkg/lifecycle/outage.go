package lifecycle

import "time"

// An outage of Podman is not a failure of the task. A move that fails because Podman is away, or was cut off in
// the middle, is tried again after a short pause and does not count as an attempt. The failure after a call that was
// cut off does not count either: it may be about what that call left, such as a name in Podman's storage. Each move
// has this for OutageLimit at most, so that a task whose call makes Podman crash each time fails, although Podman
// answers in between. After that its failures count as temporary ones do.

// OutageLimit bounds the failures of one move that do not count because of outages.
const OutageLimit = 2 * time.Minute

// outagePause is the longest pause between two attempts while Podman is away.
const outagePause = 4 * time.Second

// noteAnswer notes whether Podman has answered an operation that failed so.
func noteAnswer(s *State, at time.Time, k Kind, f Failure) {
	switch {
	case f.Class != Outage:
		if k.asksPodman() && f.Class != Canceled && f.Class != Timeout {
			s.OutageSince = time.Time{}
		}
	case s.OutageSince.IsZero() || s.OutageSince.After(at): // the clock was set back
		s.OutageSince = at
	}
}

// asksPodman reports whether the answer to an operation is one of Podman.
func (k Kind) asksPodman() bool {
	switch k {
	case Resolve, Admit, Release, Flush:
		return false
	}
	return true
}

// excuse reports whether a failed attempt does not count because of an outage, and sets the next one. index
// is the container's; -1 for the sandbox.
func (r *Retry) excuse(s *State, at time.Time, f Failure, index int) bool {
	after := r.CutOff
	r.CutOff = f.Class == Outage
	if !r.CutOff && (!after || f.Class != Temporary) {
		return false
	}
	if r.AwaySince.IsZero() || r.AwaySince.After(at) { // the clock was set back
		r.AwaySince = at
	}
	if at.Sub(r.AwaySince) >= OutageLimit {
		return false
	}
	pause := backoffBase
	if !s.OutageSince.IsZero() {
		pause = min(max(at.Sub(s.OutageSince), pause), outagePause)
	}
	r.NotUntil = at.Add(pause - time.Duration(jitter(s, index)%uint64(pause/5)))
	r.Last = f.Message
	return true
}

// explainOutage returns the reason of a task while Podman is away; found is false if it is not, as far as is known.
func explainOutage(s State) (r Reason, found bool) {
	if s.OutageSince.IsZero() {
		return r, false
	}
	return Reason{
		Code: WhyOutage, Text: "Podman does not answer; podtask asks again, and what fails meanwhile is no failure of the task",
		Since: s.OutageSince, Until: s.OutageSince.Add(OutageLimit), Then: "what fails counts",
	}, true
}
