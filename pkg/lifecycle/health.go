package lifecycle

import (
	"slices"
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
)

// A container has up to three checks, with the rules of Kubernetes. The startup check
// passes once in each run; before it the others are not made. The readiness check decides
// whether the container is HEALTHY. A container whose startup or liveness check fails is
// stopped, and its restart policy starts it again. The health check of ECS is a readiness
// check, and with ActionRestart a liveness check as well.
//
// Checks are podtask's own: Podman is only asked to run a command once, never to schedule
// it. All checks have early probes: until the first interval has passed the check is also
// made soon after the start, at growing distances. An early success counts at once, an
// early failure does not count, so a container is never worse off and its dependants need
// not wait out an interval of 30 s.
const earlyProbe = 100 * time.Millisecond

// ProbeKind selects a check of a container.
type ProbeKind uint8

// The checks of a container.
const (
	Readiness ProbeKind = iota // or the health check of ECS
	Startup
	Liveness
	numProbeKind
)

var probeKindNames = [numProbeKind]string{"readiness", "startup", "liveness"}

func (k ProbeKind) String() string               { return name(probeKindNames[:], int(k)) }
func (k ProbeKind) MarshalText() ([]byte, error) { return text(probeKindNames[:], k) }

// UnmarshalText reads the name that MarshalText writes.
func (k *ProbeKind) UnmarshalText(b []byte) error { return untext(probeKindNames[:], b, k) }

// HealthState is the running account of a check in the present run of its container.
type HealthState struct {
	Status Health `json:"status"`
	// Since is from when on the check is made: the container was seen to have started, its
	// delay has passed, and what comes before it is done. Grace periods count from it.
	// Zero: there is no such check, or it is not made yet.
	Since time.Time `json:"since,omitzero"`
	// Streak counts failures in a row, Passes successes.
	Streak int       `json:"streak,omitempty"`
	Passes int       `json:"passes,omitempty"`
	Next   time.Time `json:"next,omitzero"`
	// ExitCode and Output (at most 1024 bytes) are the latest probe's.
	ExitCode int    `json:"exitCode,omitempty"`
	Output   string `json:"output,omitempty"`
	// Reported is the container's health in History; only of Container.Health.
	Reported Health `json:"reported,omitempty"`
}

// check is the schedule of a check, and the failures that count.
type check struct {
	delay, interval, timeout time.Duration
	// startPeriod is the time in which failures do not count, unless the check has passed before.
	startPeriod         time.Duration
	successes, failures int
}

// checkOf returns a check of container i; found is false if there is none.
func checkOf(s *State, i int, k ProbeKind) (c check, found bool) {
	def := &s.Task.Containers[i]
	if h := def.HealthCheck; h != nil {
		return check{interval: h.Interval, timeout: h.Timeout, startPeriod: h.StartPeriod, successes: 1, failures: h.Retries}, k == Readiness
	}
	p := probeOf(def, k)
	if p == nil {
		return c, false
	}
	return check{delay: p.InitialDelay, interval: p.Period, timeout: p.Timeout, successes: p.SuccessThreshold, failures: p.FailureThreshold}, true
}

func probeOf(def *taskdef.Container, k ProbeKind) *taskdef.Probe {
	switch k {
	case Startup:
		return def.Extensions.Probes.Startup
	case Liveness:
		return def.Extensions.Probes.Liveness
	default:
		return def.Extensions.Probes.Readiness
	}
}

// health is the account of a check.
func (c *Container) health(k ProbeKind) *HealthState {
	switch k {
	case Startup:
		return &c.Startup
	case Liveness:
		return &c.Liveness
	default:
		return &c.Health
	}
}

// HealthStatus is the container's health, from all its checks: UNHEALTHY while one has
// failed, and UNKNOWN until the startup and the readiness check have passed. Without a
// readiness check it is HEALTHY from the start, or the pass of the startup check, as
// Kubernetes would have it ready.
func (c Container) HealthStatus() Health {
	switch {
	case !c.Startup.Since.IsZero() && c.Startup.Status != HealthHealthy:
		return c.Startup.Status
	case c.Liveness.Status == HealthUnhealthy:
		return HealthUnhealthy
	case !c.Health.Since.IsZero() || c.Startup.Since.IsZero() && c.Liveness.Since.IsZero():
		return c.Health.Status
	}
	return HealthHealthy
}

// HealthCheck is the account of the check that HealthStatus follows: one that failed, or
// the one that is to pass.
func (c Container) HealthCheck() HealthState {
	h := c.Health
	switch {
	case !c.Startup.Since.IsZero() && c.Startup.Status != HealthHealthy:
		h = c.Startup
	case c.Liveness.Status == HealthUnhealthy, c.Health.Since.IsZero() && !c.Liveness.Since.IsZero():
		h = c.Liveness
	}
	h.Status = c.HealthStatus()
	return h
}

// healthReason returns the reason for which the container is UNHEALTHY, with the probe that failed.
func (c Container) healthReason() string {
	reason := c.HealthCheck().reason()
	switch {
	case reason == "":
		return ""
	case c.Startup.Status == HealthUnhealthy:
		return "startup probe: " + reason
	case c.Liveness.Status == HealthUnhealthy:
		return "liveness probe: " + reason
	}
	return reason
}

// Up reports whether the present run of container i has begun in the sense of Kubernetes:
// its hook is done and its startup check has passed.
func (s State) Up(i int) bool { return up(&s, i) }

func up(s *State, i int) bool {
	c, def := &s.Containers[i], &s.Task.Containers[i]
	return !c.StartedAt.IsZero() && !awaitsHook(s, i) && (def.Extensions.Probes.Startup == nil || c.Startup.Status == HealthHealthy)
}

// beginChecks begins the checks of a run whose turn has come: the startup check, or else
// the others.
func beginChecks(s *State, at time.Time, i int) {
	c := &s.Containers[i]
	if awaitsHook(s, i) {
		return
	}
	kinds := []ProbeKind{Readiness, Liveness}
	if _, found := checkOf(s, i, Startup); found && c.Startup.Status != HealthHealthy {
		kinds = []ProbeKind{Startup}
	}
	for _, k := range kinds {
		if check, found := checkOf(s, i, k); found {
			since := at
			if due := c.StartedAt.Add(check.delay); due.After(at) {
				since = due
			}
			*c.health(k) = HealthState{Since: since, Next: since.Add(earlyProbe), Reported: c.health(k).Reported}
		}
	}
}

// nextCheck returns the check of a container that runs that is made next; found is false
// if there is none.
func nextCheck(s *State, i int) (k ProbeKind, found bool) {
	c := &s.Containers[i]
	for other := range numProbeKind {
		h := c.health(other)
		if h.Since.IsZero() || other == Startup && h.Status == HealthHealthy {
			continue
		}
		if !found || h.Next.Before(c.health(k).Next) {
			k, found = other, true
		}
	}
	return k, found
}

// nextLook returns the time of the next check of a running container. While it is paused it is inspected instead.
func nextLook(s *State, i int) time.Time {
	c := &s.Containers[i]
	if k, found := nextCheck(s, i); found && !c.Paused {
		return c.health(k).Next
	}
	return c.Health.Next
}

// pausedInterval is the interval in which a paused container without a check is inspected.
const pausedInterval = 10 * time.Second

// watchPaused has a paused container looked at again that is to be checked once it continues.
func watchPaused(s *State, at time.Time, i int) {
	pause := pausedInterval
	if k, found := nextCheck(s, i); found {
		check, _ := checkOf(s, i, k)
		pause = check.interval
	} else if !awaitsHook(s, i) {
		return
	}
	s.Containers[i].Health.Next = at.Add(pause)
}

// foldProbe takes over the answer to a probe. One that overran has counted as
// failed already.
func foldProbe(s *State, at time.Time, i int, op Op, ev OpFinished) {
	c := &s.Containers[i]
	check, found := checkOf(s, i, op.Probe)
	h := c.health(op.Probe)
	if !found || h.Since.IsZero() {
		return // it is of an earlier run
	}
	switch {
	case op.Overran && ev.Failure.Class != OK && ev.Failure.Class != Canceled && ev.Failure.Class != Timeout:
		// It took long because Podman did, which says nothing about the container.
		h.Streak = max(0, h.Streak-op.Overruns)
		c.Stale = true
	case op.Overran || ev.Failure.Class == Canceled:
	case ev.Failure.Class == Timeout:
		// Podman says itself that the check took too long.
		h.ExitCode, h.Output = -1, overran(check)
		h.countFailure(at, check)
	case ev.Failure.Class != OK:
		// Podman could not run it. That says nothing about the container's
		// health, but maybe something about its life.
		c.Stale = true
	case ev.Result.Probe.Healthy:
		h.ExitCode, h.Output, h.Streak = 0, ev.Result.Probe.Output, 0
		h.Passes++
		if h.Passes >= check.successes {
			h.Status = HealthHealthy
		}
	default:
		h.ExitCode, h.Output = ev.Result.Probe.ExitCode, ev.Result.Probe.Output
		h.countFailure(at, check)
	}
	h.Next = h.next(at, check)
	if op.Probe == Startup && h.Status == HealthHealthy {
		beginChecks(s, at, i)
	}
}

// next is one interval on, or sooner while early probes last: twice the time since the
// check is made.
func (h *HealthState) next(at time.Time, check check) time.Time {
	regular := at.Add(check.interval)
	first := h.Since.Add(check.interval)
	if h.Status != HealthUnknown || h.Passes > 0 || !at.Before(first) {
		return regular
	}
	early := at.Add(max(at.Sub(h.Since), earlyProbe))
	if early.After(first) {
		return first
	}
	return early
}

// countFailure counts a failed probe unless it came early or within the
// start period.
func (h *HealthState) countFailure(at time.Time, check check) {
	grace := max(check.startPeriod, check.interval)
	h.Passes = 0
	if h.Status == HealthUnknown && at.Before(h.Since.Add(grace)) {
		return
	}
	h.Streak++
	if h.Streak >= check.failures {
		h.Status = HealthUnhealthy
	}
}

// countOverdueProbes counts a probe that takes longer than its timeout as
// failed, and once more for every interval it continues. The next probe waits
// until it is gone.
func countOverdueProbes(s *State, at time.Time) {
	for i := range s.Containers {
		op := &s.Containers[i].Op
		if op.Kind != Probe || at.Before(op.Overdue) {
			continue
		}
		check, _ := checkOf(s, i, op.Probe)
		h := s.Containers[i].health(op.Probe)
		op.Overran = true
		op.Overdue = at.Add(check.interval)
		h.ExitCode, h.Output = -1, overran(check)
		before, counts := h.Streak, h.Status != HealthUnhealthy // later failures change nothing
		h.countFailure(at, check)
		if counts {
			op.Overruns += h.Streak - before
		}
	}
}

func overran(check check) string {
	return "the health check did not end within its timeout of " + check.timeout.String()
}

// failedHealth reports whether the container is to be restarted: a check that says so, or
// its hook, has failed.
func failedHealth(s *State, i int) bool {
	c, check := &s.Containers[i], s.Task.Containers[i].HealthCheck
	return check != nil && check.Action == taskdef.ActionRestart && c.Health.Status == HealthUnhealthy ||
		c.Startup.Status == HealthUnhealthy || c.Liveness.Status == HealthUnhealthy || c.Hooks.Failed != ""
}

// graceOf is the stop timeout of container i. A failed check may have one of its own.
func graceOf(s *State, i int) time.Duration {
	c, def := &s.Containers[i], &s.Task.Containers[i]
	for _, k := range []ProbeKind{Startup, Liveness} {
		if p := probeOf(def, k); s.Goal == Up && p != nil && p.Grace > 0 && c.health(k).Status == HealthUnhealthy {
			return p.Grace
		}
	}
	return def.StopTimeout
}

// Health is the task's: the worst of its essential containers that have a
// check, in the ECS agent's order UNHEALTHY, UNKNOWN, HEALTHY.
func (s State) Health() Health {
	if !HasHealthCheck(s.Task) {
		return HealthUnknown
	}
	worst := HealthHealthy
	for i, c := range s.Containers {
		if def := s.Task.Containers[i]; !def.Essential || !def.HasHealth() {
			continue
		}
		switch c.HealthStatus() {
		case HealthUnhealthy:
			return HealthUnhealthy
		case HealthUnknown:
			worst = HealthUnknown
		}
	}
	return worst
}

// HasHealthCheck reports whether the health of a task is checked: an essential container
// has a check.
func HasHealthCheck(t taskdef.Task) bool {
	return slices.ContainsFunc(t.Containers, func(c taskdef.Container) bool { return c.Essential && c.HasHealth() })
}
