package lifecycle

import (
	"slices"
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
)

// HealthState is the running account of a container's health check.
type HealthState struct {
	Status Health `json:"status"`
	// Since is when the container was seen to have started; grace periods count from it.
	Since time.Time `json:"since,omitzero"`
	// Streak counts failures in a row.
	Streak int       `json:"streak,omitempty"`
	Next   time.Time `json:"next,omitzero"`
	// ExitCode and Output (at most 1024 bytes) are the latest probe's.
	ExitCode int    `json:"exitCode,omitempty"`
	Output   string `json:"output,omitempty"`
	Reported Health `json:"reported,omitempty"`
}

// Health checks are podtask's own: Podman is only asked to run the command once
// (RunHealthCheck), never to schedule it. The rules are ECS's, as Docker's, plus
// early probes: until the first interval has passed the command is also tried
// soon after the start, at growing distances. An early success counts at once,
// an early failure does not count, so a container is never worse off and its
// dependants need not wait out an interval of 30 s.
const earlyProbe = 100 * time.Millisecond

func firstHealthState(s *State, at time.Time, i int) HealthState {
	reported := s.Containers[i].Health.Reported
	if s.Task.Containers[i].HealthCheck == nil {
		return HealthState{}
	}
	return HealthState{Since: at, Next: at.Add(earlyProbe), Reported: reported}
}

// foldProbe takes over the answer to a probe. One that overran has counted as
// failed already.
func foldProbe(s *State, at time.Time, i int, op Op, ev OpFinished) {
	c := &s.Containers[i]
	h := &c.Health
	switch {
	case op.Overran || ev.Failure.Class == Canceled:
	case ev.Failure.Class == Timeout:
		// Podman says itself that the check took too long.
		h.ExitCode, h.Output = -1, overran(s.Task.Containers[i].HealthCheck)
		countProbeFailure(s, at, i)
	case ev.Failure.Class != OK:
		// Podman could not run it. That says nothing about the container's
		// health, but maybe something about its life.
		c.Stale = true
	case ev.Result.Probe.Healthy:
		h.ExitCode, h.Output, h.Streak = 0, ev.Result.Probe.Output, 0
		h.Status = HealthHealthy
	default:
		h.ExitCode, h.Output = ev.Result.Probe.ExitCode, ev.Result.Probe.Output
		countProbeFailure(s, at, i)
	}
	h.Next = nextProbe(s, at, i)
}

// nextProbe is one interval on, or sooner while early probes last: twice the
// container's age.
func nextProbe(s *State, at time.Time, i int) time.Time {
	c, check := &s.Containers[i], s.Task.Containers[i].HealthCheck
	regular := at.Add(check.Interval)
	first := c.Health.Since.Add(check.Interval)
	if c.Health.Status != HealthUnknown || !at.Before(first) {
		return regular
	}
	early := at.Add(max(at.Sub(c.Health.Since), earlyProbe))
	if early.After(first) {
		return first
	}
	return early
}

// countProbeFailure counts a failed probe unless it came early or within the
// start period.
func countProbeFailure(s *State, at time.Time, i int) {
	h, check := &s.Containers[i].Health, s.Task.Containers[i].HealthCheck
	grace := max(check.StartPeriod, check.Interval)
	if h.Status == HealthUnknown && at.Before(h.Since.Add(grace)) {
		return
	}
	h.Streak++
	if h.Streak >= check.Retries {
		h.Status = HealthUnhealthy
	}
}

// countOverdueProbes counts a probe that takes longer than its timeout as
// failed, and once more for every interval it goes on. The next probe waits
// until it is gone.
func countOverdueProbes(s *State, at time.Time) {
	for i := range s.Containers {
		op := &s.Containers[i].Op
		if op.Kind != Probe || at.Before(op.Overdue) {
			continue
		}
		op.Overran = true
		op.Overdue = at.Add(s.Task.Containers[i].HealthCheck.Interval)
		s.Containers[i].Health.ExitCode = -1
		s.Containers[i].Health.Output = overran(s.Task.Containers[i].HealthCheck)
		countProbeFailure(s, at, i)
	}
}

func overran(check *taskdef.HealthCheck) string {
	return "the health check did not end within its timeout of " + check.Timeout.String()
}

// failedHealth reports whether the container is unhealthy and its health check says that it
// is then to be restarted.
func failedHealth(s *State, i int) bool {
	check := s.Task.Containers[i].HealthCheck
	return check != nil && check.Action == taskdef.ActionRestart && s.Containers[i].Health.Status == HealthUnhealthy
}

// Health is the task's: the worst of its essential containers that have a
// check, in the ECS agent's order UNHEALTHY, UNKNOWN, HEALTHY.
func (s State) Health() Health {
	if !HasHealthCheck(s.Task) {
		return HealthUnknown
	}
	worst := HealthHealthy
	for i, c := range s.Containers {
		if def := s.Task.Containers[i]; !def.Essential || def.HealthCheck == nil {
			continue
		}
		switch c.Health.Status {
		case HealthUnhealthy:
			return HealthUnhealthy
		case HealthUnknown:
			worst = HealthUnknown
		}
	}
	return worst
}

// HasHealthCheck reports whether the health of a task is checked: an essential container
// has a health check.
func HasHealthCheck(t taskdef.Task) bool {
	return slices.ContainsFunc(t.Containers, func(c taskdef.Container) bool { return c.Essential && c.HealthCheck != nil })
}
