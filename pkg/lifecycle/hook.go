package lifecycle

import (
	"cmp"
	"fmt"
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
)

// Hooks are those of Kubernetes. The postStart hook begins right after each start; until it
// is done, no check is made and the start does not count. If it fails, the container is
// stopped and its restart policy decides. The preStop hook begins before the stop signal,
// and what it takes is taken off the stop timeout. Its failure is only noted. A kill has
// none, and neither has a container that is paused or that Podman does not monitor.
//
// A hook is an operation: if its owner dies, the next one runs it again unless its end was
// recorded, so hooks run at least once. A hook that sleeps, and the time that a preStop
// hook may take, count from the first attempt.

// HookState is the progress of the hooks in the present run of a container.
type HookState struct {
	// Started: the postStart hook is done. Failed says why it is not to be tried again.
	Started bool   `json:"started,omitempty"`
	Failed  string `json:"failed,omitempty"`
	// StopSince is the time at which the stop began, with the preStop hook or the stop signal: the next owner grants the
	// rest of the stop timeout. Stopped: the hook is over.
	StopSince time.Time `json:"stopSince,omitzero"`
	Stopped   bool      `json:"stopped,omitempty"`
	// FlushSince is the time at which a log router began to get its last lines. Flushed: it has them, or had its time.
	FlushSince time.Time `json:"flushSince,omitzero"`
	Flushed    bool      `json:"flushed,omitempty"`
}

// minGrace is the part of the stop timeout that a preStop hook leaves (kubelet, minimumGracePeriodInSeconds).
const minGrace = 2 * time.Second

// hookAttempts bounds the attempts of a postStart hook that could not be run.
const hookAttempts = 3

// awaitsHook reports whether the postStart hook of container i is not done.
func awaitsHook(s *State, i int) bool {
	return s.Task.Containers[i].Extensions.Hooks.PostStart != nil && !s.Containers[i].Hooks.Started
}

// stopOp is the operation that brings the stop of a container on: the last lines of a log router,
// its hook, or the stop.
func stopOp(s *State, at time.Time, i int) Kind {
	c := &s.Containers[i]
	if flushes(s, at, i) {
		return Flush
	}
	late := !c.Hooks.StopSince.IsZero() && stopElapsed(s, at, i) >= graceOf(s, i)
	if s.Task.Containers[i].Extensions.Hooks.PreStop == nil || s.Force || c.Hooks.Stopped || c.Paused || c.Unmonitored == MonitorLost || late {
		return Stop
	}
	return PreStop
}

// stopElapsed returns the time since the stop of container i began, as far as clocks tell.
func stopElapsed(s *State, at time.Time, i int) time.Duration {
	if c := &s.Containers[i]; !c.Hooks.StopSince.IsZero() {
		return max(at.Sub(c.Hooks.StopSince), 0)
	}
	return 0
}

// retryStop has the stop timeout of container i begin again: the stop failed, so the container
// may not have its signal. What a hook took stays taken.
func retryStop(s *State, i int) {
	if s.Task.Containers[i].Extensions.Hooks.PreStop == nil {
		s.Containers[i].Hooks.StopSince = time.Time{}
	}
}

// stopGrace is the time between stop signal and kill.
func stopGrace(s *State, at time.Time, i int) time.Duration {
	grace := graceOf(s, i)
	if s.Containers[i].Hooks.StopSince.IsZero() {
		return grace
	}
	return max(grace-stopElapsed(s, at, i), min(minGrace, grace))
}

// planHook returns the effect of a hook.
func planHook(s *State, at time.Time, i int, id OpID) Effect {
	c := &s.Containers[i]
	e := RunHook{ID: id, Index: i, Hook: c.Op.Kind, Limit: hookLimit}
	since := c.StartedAt
	if c.Op.Kind == PreStop {
		if c.Hooks.StopSince.IsZero() {
			c.Hooks.StopSince = at
		}
		since = c.Hooks.StopSince
		e.Limit = graceOf(s, i) - stopElapsed(s, at, i)
	}
	if sleep := hookOf(&s.Task.Containers[i], c.Op.Kind).Sleep; sleep > 0 {
		e.Limit = max(min(e.Limit, sleep-max(at.Sub(since), 0)), 1)
	}
	return e
}

// hookLimit bounds a postStart hook, for which Kubernetes has no limit.
const hookLimit = time.Hour

func hookOf(def *taskdef.Container, k Kind) *taskdef.Action {
	if k == PreStop {
		return def.Extensions.Hooks.PreStop
	}
	return def.Extensions.Hooks.PostStart
}

// Action returns the action of the hook.
func (e RunHook) Action(t taskdef.Task) taskdef.Action {
	return *hookOf(&t.Containers[e.Index], e.Hook)
}

// cancelHook reports whether a hook in flight is not wanted any more. One that sleeps does
// not notice the end of its container.
func cancelHook(s *State, i int) bool {
	c := &s.Containers[i]
	if c.Stale && hookOf(&s.Task.Containers[i], c.Op.Kind).Sleep > 0 {
		return true
	}
	if c.Op.Kind == PreStop {
		return s.Force
	}
	return s.Goal != Up
}

// foldHook takes over the answer of a hook.
func foldHook(s *State, at time.Time, i int, op Op, ev OpFinished) {
	c := &s.Containers[i]
	why := ""
	switch {
	case ev.Failure.Class == Canceled:
		return
	case ev.Failure.Class != OK:
		why = ev.Failure.Message
		c.Stale = true // it may have been the container's end
		if c.Retry.excuse(s, at, ev.Failure, i) {
			return
		}
	case !ev.Result.Probe.Healthy:
		why = cmp.Or(ev.Result.Probe.Output, fmt.Sprintf("exit code %d", ev.Result.Probe.ExitCode))
	}
	if op.Kind == PreStop {
		c.Hooks.Stopped = true
	} else if why == "" {
		c.Hooks.Started = true
		c.Retry = Retry{}
		beginChecks(s, at, i)
	} else if n := c.Retry.tried(); ev.Failure.Class != OK && n < hookAttempts {
		c.Retry.postpone(at, ev.Failure, n, jitter(s, i))
		return
	} else {
		c.Hooks.Failed, c.Retry = why, Retry{}
	}
	if why != "" {
		c.fail(Failure{Class: Permanent, Name: hookErrors[op.Kind], Message: why, At: at, Tolerated: true})
	}
}

// The names of failures that Kubernetes has for the reasons of events.
const (
	ErrPostStartHook = "FailedPostStartHook"
	ErrPreStopHook   = "FailedPreStopHook"
)

var hookErrors = map[Kind]string{PostStart: ErrPostStartHook, PreStop: ErrPreStopHook}
