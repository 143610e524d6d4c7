package lifecycle

import (
	"errors"
	"fmt"
)

// Check reports everything that is wrong with a state, its definition included:
// after a load (a record may have been edited) and at the end of every test.
func Check(s State) error {
	return errors.Join(s.Task.Check(), s.Invariants())
}

// Invariants reports every broken invariant but those of the definition, which
// Step never changes. Step keeps them.
func (s State) Invariants() error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if len(s.ID) != 32 {
		bad("id %q is not 32 hex digits", s.ID)
	}
	if len(s.Containers) != len(s.Task.Containers) {
		bad("%d containers for a definition of %d", len(s.Containers), len(s.Task.Containers))
		return errors.Join(errs...)
	}
	if s.Goal == Up && s.Stop != (StopReason{}) {
		bad("there is a stop reason but the goal is UP")
	}
	if s.Goal != Up && !s.ProtectedUntil.IsZero() {
		bad("the goal is %s but the task is protected", s.Goal)
	}
	if s.Goal != Up && s.Stop.Code == "" {
		bad("the goal is %s without a stop reason", s.Goal)
	}
	seen := map[OpID]bool{0: false}
	ops := []Op{s.Sandbox.Op}
	for i, c := range s.Containers {
		ops = append(ops, c.Op)
		checkContainer(s, i, c, bad)
	}
	for _, op := range ops {
		if op.ID >= s.NextOp || seen[op.ID] || op.Busy() != (op.Kind != Idle) {
			bad("operation %d (%s) is impossible", op.ID, op.Kind)
		}
		seen[op.ID] = op.Busy()
	}
	if s.Sandbox.Phase >= SandboxStopped && !allEnded(&s) {
		bad("the sandbox is %s but containers have not ended", s.Sandbox.Phase)
	}
	switch b := s.Sandbox; {
	case b.Queue != "" && (b.Reservation != ReservationRequested || s.Goal != Up):
		bad("it waits for %s with the goal %s and its share %s", b.Queue, s.Goal, b.Reservation)
	case b.Reservation == ReservationNeeded && b.Dirty:
		bad("the sandbox was begun without a share")
	}
	for i, t := range s.History {
		if i > 0 && t.Seq != s.History[i-1].Seq+1 {
			bad("history has a gap before %d", t.Seq)
		}
	}
	return errors.Join(errs...)
}

func checkContainer(s State, i int, c Container, bad func(string, ...any)) {
	name := s.Task.Containers[i].Name
	switch {
	case c.Ended && c.Op.Busy():
		bad("%s has ended but a %s is in flight", name, c.Op.Kind)
	case c.Ended && s.Task.Containers[i].Essential && s.Goal == Up && (c.StartedAt.IsZero() || !awaitsLast(&s)):
		bad("essential %s has ended but the goal is UP", name)
	case !c.Startup.Since.IsZero() && c.Startup.Status != HealthHealthy && !(c.Health.Since.IsZero() && c.Liveness.Since.IsZero()):
		bad("%s is checked before it has passed its startup check", name)
	case (c.Hooks.Started || !c.Hooks.StopSince.IsZero()) && c.StartedAt.IsZero():
		bad("%s has run a hook but never ran", name)
	case c.Presence == Running && c.StartedAt.IsZero():
		bad("%s runs but has no start time", name)
	case c.Presence == Exited && !c.Ended && !c.awaitsRestart():
		bad("%s exited but has not ended", name)
	case c.awaitsRestart() && (c.Ended || c.Presence == Running || c.StartedAt.IsZero() || !c.HasExit || s.Task.Containers[i].Restart == nil && !c.wasRequested()):
		bad("%s cannot await a restart", name)
	case c.Resizing && (c.Ended || c.Presence != Running || s.Task.Containers[i].Restart == nil):
		bad("%s cannot be restarted for other resources", name)
	case c.RestartRequested && (c.Ended || c.Presence != Running):
		bad("%s cannot be restarted", name)
	case c.StartedAt.IsZero() != c.FirstStartedAt.IsZero():
		bad("%s has only one of its start times", name)
	case c.Abandoned && (s.Goal != Gone || c.Ended):
		bad("%s is abandoned without a removal", name)
	case c.Presence != Absent && !s.Sandbox.Dirty && s.Sandbox.Phase != SandboxRemoved:
		bad("%s exists without a sandbox", name)
	case c.Reported > c.Status() && !c.Stale:
		if c.Reported != StatusPulled && c.Reported != StatusCreated {
			bad("%s was reported %s but is %s", name, c.Reported, c.Status())
		}
	}
}
