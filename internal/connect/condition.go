package connect

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// Condition is a condition to wait for.
type Condition string

// The conditions.
const (
	UntilRunning Condition = "running"
	UntilHealthy Condition = "healthy"
	UntilStopped Condition = "stopped"
)

// ParseCondition parses a condition given by a user.
func ParseCondition(text string) (Condition, error) {
	switch c := Condition(text); c {
	case UntilRunning, UntilHealthy, UntilStopped:
		return c, nil
	}
	return "", fmt.Errorf("unknown condition %q: it must be running, healthy or stopped", text)
}

// MissedError reports that a task stopped before it met the condition.
type MissedError struct {
	Task api.Task
	what Condition
}

func (e *MissedError) Error() string {
	return fmt.Sprintf("task %s stopped before it was %s: %s", lifecycle.ShortID(e.Task.ID), e.what, term.Line(cmp.Or(e.Task.StoppedReason, "unknown reason")))
}

// Met reports whether the condition is met. The error is a *MissedError when the condition
// can no longer be met. A task that ran and has stopped has met "running".
func (c Condition) Met(t api.Task) (bool, error) {
	stopped := t.Status == lifecycle.StatusStopped.String()
	switch {
	case c == UntilStopped:
		return stopped, nil
	case c == UntilRunning && !t.StartedAt.IsZero():
		return true, nil
	case c == UntilHealthy && t.Status == lifecycle.StatusRunning.String() && isHealthy(t):
		return true, nil
	case stopped:
		return false, &MissedError{Task: t, what: c}
	}
	return false, nil
}

// isHealthy reports whether the task is healthy, or its health is not checked.
func isHealthy(t api.Task) bool {
	checked := slices.ContainsFunc(t.Containers, func(c api.Container) bool { return c.Essential && c.Health != nil })
	return !checked || t.Health == lifecycle.HealthHealthy.String()
}

// Await waits until the task meets a condition and returns it. Owned, if not nil, is called
// with each owner that the task has meanwhile, and its error ends the wait. A task that is removed
// meanwhile counts as stopped, and its last known state is returned.
func (s *Connector) Await(ctx context.Context, st lifecycle.State, what Condition, owned func(*Task) error, show func(api.Task)) (api.Task, error) {
	last := s.FromState(st)
	if done, err := what.Met(last); done || err != nil {
		show(last)
		return last, err
	}
	err := s.Ask(ctx, st.ID, owned, func(t api.Task) (bool, error) {
		last = t
		show(t)
		return what.Met(t)
	})
	if IsGone(err) && what == UntilStopped {
		err = nil
	}
	return last, err
}

// CodeOf returns the exit code of a task, 0 if it has none.
func CodeOf(t api.Task) int {
	if t.ExitCode == nil {
		return 0
	}
	return int(*t.ExitCode)
}
