package connect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// Condition is a condition to wait for.
type Condition string

// The conditions.
const (
	UntilRunning Condition = "running"
	UntilSteady  Condition = "steady" // it still runs after steadyTime, or is healthy by a check before
	UntilHealthy Condition = "healthy"
	UntilStopped Condition = "stopped"
)

// ParseCondition parses a condition given by a user.
func ParseCondition(text string) (Condition, error) {
	switch c := Condition(text); c {
	case UntilRunning, UntilSteady, UntilHealthy, UntilStopped:
		return c, nil
	}
	return "", fmt.Errorf("unknown condition %q: it must be running, steady, healthy or stopped", text)
}

// MissedError reports that a task can no longer meet a condition: it stopped with a failure, or it is
// unhealthy and no restart can heal it.
type MissedError struct {
	Task api.Task
	what Condition
	// unhealthy is the container whose check failed; nil if the task stopped.
	unhealthy *api.Container
}

func (e *MissedError) Error() string {
	id := lifecycle.ShortID(e.Task.ID)
	if c := e.unhealthy; c != nil {
		text := fmt.Sprintf("task %s is not healthy: the health check of %s failed %s with exit code %d", id, c.Name, howOften(c.Health.FailingStreak), c.Health.ExitCode)
		if said := strings.TrimSpace(c.Health.Output); said != "" {
			text += ": " + term.Line(said)
		}
		return text + fmt.Sprintf("; the task keeps running, see `podtask logs %s`", cmp.Or(e.Task.Name, id))
	}
	return fmt.Sprintf("task %s stopped before it was %s: %s", id, e.what, term.Line(cmp.Or(e.Task.StoppedReason, "unknown reason")))
}

func howOften(n int) string {
	if n <= 1 {
		return "once"
	}
	return fmt.Sprintf("%d times in a row, the last time", n)
}

// Met reports whether the condition is met. The error is a *MissedError when the condition
// can no longer be met because the task stopped with a failure. A task that stopped with success has met
// every condition.
func (c Condition) Met(t api.Task) (bool, error) {
	running := t.Status == lifecycle.StatusRunning.String() && t.Goal != lifecycle.Down.String()
	switch {
	case t.Status == lifecycle.StatusStopped.String():
		if c == UntilStopped || succeeded(t) {
			return true, nil
		}
		return false, &MissedError{Task: t, what: c}
	case c == UntilRunning || c == UntilSteady:
		return running, nil
	case c == UntilHealthy:
		return running && isHealthy(t), nil
	}
	return false, nil
}

// succeeded reports whether a task has stopped by itself and its exit code is 0.
func succeeded(t api.Task) bool {
	return t.StopCode == lifecycle.StopEssentialContainerExited && t.ExitCode != nil && *t.ExitCode == 0
}

// isHealthy reports whether the task is healthy, or its health is not checked.
func isHealthy(t api.Task) bool { return !isChecked(t) || t.Health == lifecycle.HealthHealthy.String() }

func isChecked(t api.Task) bool {
	return slices.ContainsFunc(t.Containers, func(c api.Container) bool { return c.Essential && c.Health != nil })
}

// steadyTime is the least time that a task must run to count as steady, unless a health check says more.
const steadyTime = time.Second

// unsteady returns how much longer a task that meets a condition must run before that counts; 0 if it
// counts now. UntilHealthy is UntilSteady for a task without health checks.
func (c Condition) unsteady(t api.Task, now time.Time) time.Duration {
	if c != UntilSteady && c != UntilHealthy || t.Status != lifecycle.StatusRunning.String() || isChecked(t) && isHealthy(t) {
		return 0
	}
	return max(0, min(steadyTime, t.StartedAt.Add(steadyTime).Sub(now)))
}

// unhealthyFor returns an error if an essential container is unhealthy and its definition has no restart.
func unhealthyFor(st lifecycle.State, t api.Task) error {
	for i := range t.Containers {
		c := &t.Containers[i]
		if !c.Essential || c.Health == nil || c.Health.Status != lifecycle.HealthUnhealthy.String() {
			continue
		}
		if n, ok := st.Task.Index(c.Name); ok && st.Task.Containers[n].Restart == nil {
			return &MissedError{Task: t, what: UntilHealthy, unhealthy: c}
		}
	}
	return nil
}

// Await waits until the task meets a condition and returns it. Owned, if not nil, is called
// with each owner that the task has meanwhile, and its error ends the wait. A task that is removed
// meanwhile counts as stopped, and its last known state is returned.
func (s *Connector) Await(ctx context.Context, st lifecycle.State, what Condition, owned func(*Task) error, show func(api.Task)) (api.Task, error) {
	last := s.FromState(st)
	judge := func(t api.Task) (bool, error) {
		done, err := what.Met(t)
		if !done && err == nil && what == UntilHealthy {
			err = unhealthyFor(st, t)
		}
		return done, err
	}
	done, err := judge(last)
	if done || err != nil {
		show(last)
	} else {
		err = s.Ask(ctx, st.ID, owned, func(t api.Task) (bool, error) {
			last = t
			show(t)
			return judge(t)
		})
	}
	if IsGone(err) && what == UntilStopped {
		err = nil
	}
	if err != nil {
		return last, err
	}
	if wait := what.unsteady(last, time.Now()); wait > 0 {
		return s.staysRunning(ctx, last, what, wait, show)
	}
	return last, nil
}

// staysRunning waits whether a task that runs still does so after a time.
func (s *Connector) staysRunning(ctx context.Context, last api.Task, what Condition, wait time.Duration, show func(api.Task)) (api.Task, error) {
	watching, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	err := s.Ask(watching, last.ID, nil, func(t api.Task) (bool, error) {
		last = t
		show(t)
		return t.Status == lifecycle.StatusStopped.String(), nil
	})
	switch {
	case err != nil && ctx.Err() == nil && watching.Err() != nil:
		return last, nil // it still runs
	case err != nil:
		return last, err
	}
	_, err = what.Met(last)
	return last, err
}

// CodeOf returns the exit code of a task, 0 if it has none.
func CodeOf(t api.Task) int {
	if t.ExitCode == nil {
		return 0
	}
	return int(*t.ExitCode)
}
