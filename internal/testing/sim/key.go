package sim

import (
	"slices"
	"time"

	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// key appends what tells worlds apart by their future. Times matter by their
// order only: unset, past, or which of the future ones comes first.
func (w *World) key(b []byte) []byte {
	k := keyer{b: b, now: w.now}
	s, l := &w.state, &w.left
	k.ints(l.Faults, l.Splits, l.Lates, l.Exits, l.Vanishes, l.Alarms, l.Requests, l.Crashes, l.Reboots, l.Clocks, l.Queues, l.Meddles, l.Outages)
	k.ints(int(s.Goal), int(s.Sandbox.Phase), int(s.Reported), int(w.pod), int(s.Sandbox.Reservation), int(w.share), s.Sandbox.Retry.Attempts)
	wake := w.wake()
	k.bools(s.Force, s.Sandbox.Dirty, s.Sandbox.Stale, s.Sandbox.Queue != "", !wake.IsZero() && !wake.After(w.now))
	if s.Goal == lifecycle.Gone {
		k.ints(s.Sandbox.Retry.Persist) // bounds the removal
	}
	k.bools(w.lasting, s.Sandbox.Retry.CutOff, pastOutage(w, s.Sandbox.Retry), s.OutageSince.IsZero())
	if limit, began := s.Task.Extensions.Deadline, s.Began(); limit > 0 && !began.IsZero() {
		k.time(began.Add(limit))
	}
	run := s.Sandbox.InfraStartedAt
	k.bools(s.Sandbox.Lost, run.IsZero(), run.Equal(epoch.Add(w.podStarted)), w.podKilled, w.podRuns > 0, w.made, s.Sandbox.Made)
	k.op(&s.Sandbox.Op)
	k.pause(s.Sandbox.Retry.NotUntil)
	for i := range s.Containers {
		containerKey(w, &k, i)
	}
	// Flights are told apart by their slot, of which each has at most one.
	for slot := sandbox; slot < len(s.Containers); slot++ {
		if f := w.flightOf(slot); f != nil {
			k.ints(100+slot, int(f.kind))
			k.bools(f.canceled, f.gentle, f.begun, f.result != nil)
			if r := f.result; r != nil {
				k.ints(int(r.Seen.Presence), r.Seen.ExitCode)
				k.bools(r.Probe.Healthy, slot == sandbox && r.Seen.StartedAt.Equal(epoch.Add(w.podStarted)))
			}
		}
	}
	for i := range w.late {
		k.ints(99, int(w.late[i].Failure.Class), int(w.late[i].Result.Seen.Presence), w.late[i].Result.Seen.ExitCode)
	}
	return k.finish()
}

// pastOutage reports whether failures of a move count again, because it has had its time without.
func pastOutage(w *World, r lifecycle.Retry) bool {
	return !r.AwaySince.IsZero() && w.now.Sub(r.AwaySince) >= lifecycle.OutageLimit
}

func containerKey(w *World, k *keyer, i int) {
	c, def, t := &w.state.Containers[i], &w.state.Task.Containers[i], &w.truth[i]
	k.bools(c.Resolved, c.Pulled, c.Stale, c.Ended, c.HasExit, c.StartedAt.IsZero(), t.healthy, t.vanished, t.unhealthy)
	k.bools(c.Digest == "", lostImage(c), t.paused, c.Paused, c.Abandoned, epoch.Add(t.started).Equal(c.StartedAt))
	k.bools(t.podRun == w.podRuns, c.StartedAt.Before(w.state.Sandbox.InfraStartedAt), c.Retry.CutOff, pastOutage(w, c.Retry))
	k.ints(int(c.Presence), c.ExitCode, int(c.Unconfirmed.Kind), int(c.Unconfirmed.Failure.Class), c.Retry.Attempts)
	k.ints(int(t.presence), t.code, t.runs)
	k.op(&c.Op)
	k.pause(c.Retry.NotUntil)
	if w.state.Goal == lifecycle.Gone {
		k.ints(c.Retry.Persist)
	}
	if c.Ended {
		return
	}
	if !c.Resolved && !c.Retry.Since.IsZero() {
		k.time(c.Retry.Since.Add(lifecycle.ResolveLimit))
	}
	if def.StartTimeout != 0 && isWaitedFor(w, i) {
		k.time(c.FirstStartedAt)
		k.time(c.FirstStartedAt.Add(def.StartTimeout))
		k.time(c.TurnAt)
	}
	if def.Restart != nil {
		k.ints(c.Restarts, c.QuickExits)
		k.time(c.RestartAt)
		k.time(aged(w, i))
	}
	if check := def.HealthCheck; check != nil && !c.Health.Since.IsZero() {
		k.check(&c.Health, check.Retries, max(check.Interval, check.StartPeriod))
	}
	x := def.Extensions
	for _, p := range []struct {
		is *taskdef.Probe
		h  *lifecycle.HealthState
	}{{x.Probes.Startup, &c.Startup}, {x.Probes.Readiness, &c.Health}, {x.Probes.Liveness, &c.Liveness}} {
		if p.is != nil {
			k.bools(p.h.Since.IsZero())
			k.ints(min(p.h.Passes, p.is.SuccessThreshold))
			k.check(p.h, p.is.FailureThreshold, p.is.Period)
		}
	}
	if def.FireLens != nil {
		k.bools(c.Hooks.Flushed, t.flushed)
		k.time(c.Hooks.FlushSince)
		if !c.Hooks.FlushSince.IsZero() {
			k.time(c.Hooks.FlushSince.Add(def.StopTimeout))
		}
	}
	if x.Hooks != (taskdef.Hooks{}) {
		k.bools(c.Hooks.Started, c.Hooks.Failed != "", c.Hooks.Stopped, t.stopHook, t.hooked == t.runs)
		k.time(c.Hooks.StopSince)
		if !c.Hooks.StopSince.IsZero() {
			k.time(c.Hooks.StopSince.Add(def.StopTimeout))
		}
	}
	if x.Probes.Startup != nil {
		k.bools(t.startedUp == t.runs)
	}
}

// check is the account of a check, with its failure threshold and the time in which
// failures do not count.
func (k *keyer) check(h *lifecycle.HealthState, failures int, grace time.Duration) {
	k.ints(int(h.Status), min(h.Streak, failures))
	k.time(h.Next)
	if h.Status == lifecycle.HealthUnknown && !h.Since.IsZero() {
		k.time(h.Since.Add(grace))
	}
}

// isWaitedFor reports whether a container that is still to start depends on i.
func isWaitedFor(w *World, i int) bool {
	for j := range w.state.Containers {
		c := &w.state.Containers[j]
		if c.StartedAt.IsZero() && !c.Ended && dependsOn(&w.state.Task, j, i) {
			return true
		}
	}
	return false
}

type keyer struct {
	b     []byte
	now   time.Time
	n     int
	times [160]time.Duration // after now; at most 15 for each of 10 containers
}

// The times that need no rank.
const (
	unset time.Duration = iota - 1
	past
)

func (k *keyer) ints(v ...int) {
	for _, n := range v {
		k.b = append(k.b, byte(n))
	}
}

func (k *keyer) bools(v ...bool) {
	var n byte
	for _, b := range v {
		n <<= 1
		if b {
			n |= 1
		}
	}
	k.b = append(k.b, n)
}

func (k *keyer) op(o *lifecycle.Op) {
	k.b = append(k.b, byte(o.Kind), byte(o.Probe))
	k.bools(o.Canceled, o.Gentle, o.Overran, o.Outdated)
	k.time(o.Overdue)
	k.ints(o.Overruns)
}

func (k *keyer) time(t time.Time) {
	d := unset
	if !t.IsZero() {
		d = max(past, t.Sub(k.now))
	}
	k.times[k.n] = d
	k.n++
}

// pause is a time before which nothing is done: once past it is as if unset.
func (k *keyer) pause(t time.Time) {
	if !t.After(k.now) {
		t = time.Time{}
	}
	k.time(t)
}

func (k *keyer) finish() []byte {
	sorted := k.times
	ranks := sorted[:k.n]
	slices.Sort(ranks)
	ranks = slices.Compact(ranks)
	first, _ := slices.BinarySearch(ranks, past+1)
	for _, d := range k.times[:k.n] {
		if d <= past {
			k.b = append(k.b, byte(d-unset))
			continue
		}
		rank, _ := slices.BinarySearch(ranks, d)
		k.b = append(k.b, byte(2+rank-first))
	}
	return k.b
}
