package lifecycle

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Transition is one line of a task's history. Seq is dense from 1.
type Transition struct {
	Seq uint64    `json:"seq"`
	At  time.Time `json:"at"`
	// Container is empty for the task itself and Infra for the pod's infra container.
	Container string `json:"container,omitempty"`
	Status    string `json:"status"`
	Digest    string `json:"digest,omitempty"`
	ExitCode  *int   `json:"exitCode,omitempty"`
	Reason    string `json:"reason,omitempty"`
}

// Infra is the name of the pod's infra container in History. It cannot collide
// with a container of a definition.
const Infra = "~infra"

// Status is the container's ECS state, computed from what is known.
func (c Container) Status() Status {
	switch {
	case c.Ended:
		return StatusStopped
	case c.Presence == Running, c.awaitsRestart():
		return StatusRunning
	case c.Presence == Created:
		return StatusCreated
	case c.Pulled:
		return StatusPulled
	case c.Resolved:
		return StatusManifestPulled
	default:
		return StatusNone
	}
}

// Status is the task's ECS state: that of its least advanced container. It does
// not move on the way down until the last container has stopped and the
// sandbox's ports are free.
func (s State) Status() Status {
	if allEnded(&s) && s.Sandbox.Phase >= SandboxStopped {
		return StatusStopped
	}
	if s.Goal != Up {
		return s.Reported
	}
	least := StatusStopped
	for _, c := range s.Containers {
		least = min(least, c.Status())
	}
	switch least {
	case StatusPulled:
		return StatusManifestPulled
	case StatusRunning:
		if anyStale(&s) {
			return s.Reported // whether it is true is being looked into
		}
	case StatusStopped:
		return s.Reported
	}
	return max(least, s.Reported)
}

// record appends to History what changed for the user. Statuses are only ever
// reported forwards, each once but for RUNNING after a restart, and none that was
// never true. wasUp tells the goal before the step.
func record(s *State, at time.Time, wasUp bool) {
	for i := range s.Containers {
		recordContainer(s, at, i, StatusRunning)
		recordRestarts(s, at, i)
	}
	if wasUp && s.Reported < StatusRunning && haveRunTogether(s) {
		recordTask(s, at, StatusRunning)
	}
	for i := range s.Containers {
		recordContainer(s, at, i, StatusStopped)
		recordHealth(s, at, i)
	}
	recordSandbox(s, at)
	recordTask(s, at, s.Status())
}

func recordTask(s *State, at time.Time, now Status) {
	if now <= s.Reported || now == StatusManifestPulled && !anyDigestReported(s) {
		return
	}
	s.Reported = now
	t := Transition{At: at, Status: now.String()}
	if now == StatusStopped {
		code := s.ExitCode()
		t.ExitCode, t.Reason = &code, fmt.Sprintf("%s: %s", s.Stop.Code, s.Stop.Reason)
	}
	addTransition(s, t)
}

// haveRunTogether reports whether there was a moment at which every container had
// started and no essential one had ended, by Podman's clock: the last one may have
// started and ended between two looks.
func haveRunTogether(s *State) bool {
	var last time.Time
	for i := range s.Containers {
		started := s.Containers[i].FirstStartedAt
		if started.IsZero() || s.Containers[i].Stale {
			return false
		}
		if started.After(last) {
			last = started
		}
	}
	for i := range s.Containers {
		c := &s.Containers[i]
		if s.Task.Containers[i].Essential && c.Ended && (!c.HasExit || c.FinishedAt.Before(last)) {
			return false
		}
	}
	return true
}

// recordContainer reports a container's statuses up to a limit.
func recordContainer(s *State, at time.Time, i int, limit Status) {
	c := &s.Containers[i]
	reached := min(c.Status(), limit)
	for st := c.Reported + 1; st <= reached; st++ {
		t := Transition{At: at, Container: s.Task.Containers[i].Name, Status: st.String()}
		switch st {
		case StatusManifestPulled:
			if c.Pinned || c.Digest == "" {
				continue // ECS reports this state only for a digest it found
			}
			t.Digest = c.Digest
		case StatusPulled:
			if !c.Pulled {
				continue
			}
			t.Digest = c.Digest
			if c.Source == SourceCache {
				t.Reason = "local copy, not compared with the registry"
			}
		case StatusCreated:
			if c.ID == "" {
				continue
			}
		case StatusRunning:
			if c.StartedAt.IsZero() {
				continue
			}
		case StatusResourcesProvisioned:
			continue
		case StatusStopped:
			if c.HasExit {
				code := c.ExitCode
				t.ExitCode = &code
			}
			t.Reason = cmp.Or(c.Fatal(), c.NotRestarted)
		}
		addTransition(s, t)
	}
	c.Reported = max(c.Reported, reached)
}

func recordHealth(s *State, at time.Time, i int) {
	c := &s.Containers[i]
	if h := c.HealthCheck(); h.Status != c.Health.Reported {
		c.Health.Reported = h.Status
		addTransition(s, Transition{At: at, Container: s.Task.Containers[i].Name, Status: h.Status.String(), Reason: c.healthReason()})
	}
}

// Fatal is the failure that ended the container, if one did.
func (c Container) Fatal() string {
	for k := len(c.Failures) - 1; k >= 0; k-- {
		if !c.Failures[k].Tolerated {
			return c.Failures[k].String()
		}
	}
	return ""
}

func (h HealthState) reason() string {
	if h.Status != HealthUnhealthy {
		return ""
	}
	if h.Streak == 1 {
		return "its health check " + h.failure()
	}
	return fmt.Sprintf("%d health checks in a row failed; the last one %s", h.Streak, h.failure())
}

// failure describes the latest failed check: "failed with exit code 1: refused".
func (h HealthState) failure() string {
	text := "failed"
	if h.ExitCode > 0 { // not of a check over the network, or one that took too long
		text += fmt.Sprintf(" with exit code %d", h.ExitCode)
	}
	if output := strings.TrimSpace(h.Output); output != "" {
		text += ": " + output
	}
	return text
}

func recordSandbox(s *State, at time.Time) {
	b := &s.Sandbox
	now := StatusNone
	switch b.Phase {
	case SandboxReady:
		now = StatusResourcesProvisioned
	case SandboxStopped, SandboxRemoved:
		if b.Reported != StatusNone {
			now = StatusStopped
		}
	}
	if now > b.Reported {
		b.Reported = now
		addTransition(s, Transition{At: at, Container: Infra, Status: now.String()})
	}
}

// addTransition adds to History without touching older states that share it.
func addTransition(s *State, t Transition) {
	t.Seq = 1
	if n := len(s.History); n > 0 {
		t.Seq = s.History[n-1].Seq + 1
	}
	s.History = append(s.History[:len(s.History):len(s.History)], t)
	if len(s.History) > maxHistory {
		s.History = append([]Transition(nil), s.History[len(s.History)-maxHistory:]...)
	}
}

// maxHistory bounds the record of a task whose health flaps for months.
const maxHistory = 512
