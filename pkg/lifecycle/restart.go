package lifecycle

import (
	"fmt"
	"slices"
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
)

// Restarts are podtask's own: Podman is told never to restart anything. The rule is
// the ECS agent's (restart_tracker.go): the same container is started again if it
// ended with a code that is not ignored and ran for the attempt period at least. Its
// known status stays RUNNING meanwhile and its dependants are not touched. With a
// back-off, which the ECS model does not have, a container that ended sooner is
// started again after a pause that doubles. A container whose health check says so
// (taskdef.ActionRestart) is stopped once it is unhealthy and then restarted by the same
// policy, whatever its exit code. One that is restarted for other resources is started again at once.

// restartVerdict says after which pause a container that ran for a time and ended
// with a code is started again, or why it is not. quick is how many runs in a row
// were shorter than the attempt period, this one included.
func restartVerdict(p *taskdef.RestartPolicy, restarts, quick int, ran time.Duration, code int) (pause time.Duration, whyNot string) {
	switch {
	case p == nil:
		return 0, "it has no restart policy"
	case p.Ignores(code):
		return 0, whyIgnored(p, code)
	case p.MaxCount > 0 && restarts >= p.MaxCount:
		return 0, fmt.Sprintf("it was restarted %d times, which is its maximum", restarts)
	case ran >= p.AttemptPeriod:
		return 0, ""
	case p.FirstAtOnce && quick <= 1:
		return 0, ""
	case p.BackOff == 0:
		return 0, fmt.Sprintf("it ran for %s, less than its restartAttemptPeriod of %s", ran.Round(time.Millisecond), p.AttemptPeriod)
	}
	if p.FirstAtOnce {
		quick--
	}
	pause = p.BackOff
	for range min(quick-1, 30) {
		pause = min(2*pause, maxRestartPause)
	}
	return min(pause, maxRestartPause), ""
}

func whyIgnored(p *taskdef.RestartPolicy, code int) string {
	if p.RulesOnly {
		return fmt.Sprintf("no rule of its restart policy is about exit code %d", code)
	}
	return fmt.Sprintf("its restart policy ignores exit code %d", code)
}

// maxRestartPause bounds the back-off of restarts.
const maxRestartPause = 5 * time.Minute

// Run is one run of a container that was started again after it.
type Run struct {
	StartedAt  time.Time `json:"startedAt"`
	FinishedAt time.Time `json:"finishedAt"`
	ExitCode   int       `json:"exitCode"`
	OOMKilled  bool      `json:"oomKilled,omitempty"`
	// Unhealthy: its health check had failed, for which it was stopped.
	Unhealthy bool `json:"unhealthy,omitempty"`
	// Resized: it was stopped to have other resources.
	Resized bool `json:"resized,omitempty"`
	// Requested: it was stopped because a user asked for its restart.
	Requested bool `json:"requested,omitempty"`
}

// keptRuns bounds Container.Runs; History has every run, as long as it reaches back.
const keptRuns = 10

// awaitsRestart reports whether the container has exited and is to be started again.
func (c *Container) awaitsRestart() bool { return !c.RestartAt.IsZero() }

// toRestart reports whether the container, which runs, is to be stopped and started again.
func toRestart(s *State, i int) bool { return failedHealth(s, i) || s.Containers[i].recalled() }

// recalled reports whether the container is to be stopped only to be started again at once.
func (c *Container) recalled() bool { return c.Resizing || c.RestartRequested }

// wasRequested reports whether the latest run that ended did so because a user asked for a restart.
func (c *Container) wasRequested() bool {
	n := len(c.Runs)
	return n > 0 && c.Runs[n-1].Requested
}

// beginRun notes that the container has started, for the first time or again. Its
// health state starts over.
func beginRun(s *State, at time.Time, i int, started time.Time) {
	c := &s.Containers[i]
	c.StartedAt, c.FinishedAt, c.HasExit, c.ExitCode = started, time.Time{}, false, 0
	c.TurnAt, c.RestartAt, c.NotRestarted, c.Resizing, c.RestartRequested = time.Time{}, time.Time{}, "", false, false
	c.Retry, c.Unconfirmed, c.Unmonitored = Retry{}, Unconfirmed{}, Monitored
	c.Hooks, c.Startup, c.Liveness = HookState{}, HealthState{}, HealthState{}
	c.Health = HealthState{Reported: c.Health.Reported}
	beginChecks(s, at, i)
}

// endRun notes that the container has exited, and decides whether that was the end.
// What it ran is told by Podman's clock alone: the exit may have been noticed late.
func endRun(s *State, at time.Time, i int, seen Observed) {
	c, policy, unhealthy := &s.Containers[i], s.Task.Containers[i].Restart, failedHealth(s, i)
	if unhealthy && policy != nil && !policy.RulesOnly {
		// It did not choose its exit code: it was stopped, or about to be. Rules are about exit codes only.
		any := *policy
		any.IgnoredExitCodes = nil
		policy = &any
	}
	c.FinishedAt, c.HasExit, c.ExitCode = seen.FinishedAt, true, seen.ExitCode
	ran, requested := seen.FinishedAt.Sub(seen.StartedAt), c.RestartRequested
	resized := c.Resizing && !requested
	recalled := c.recalled()
	c.Resizing, c.RestartRequested = false, false
	if !recalled {
		c.QuickExits++
	}
	switch {
	case recalled: // it says nothing about the container
	case policy == nil || ran >= policy.AttemptPeriod && !policy.FirstAtOnce:
		c.QuickExits = 0
	case ran >= policy.AttemptPeriod:
		c.QuickExits = 1
	}
	pause, whyNot := restartVerdict(policy, c.Restarts, c.QuickExits, ran, seen.ExitCode)
	if recalled {
		pause, whyNot = 0, ""
	}
	again := s.Goal == Up && whyNot == ""
	oom := outOfMemory(s, seen)
	if oom {
		f := memoryFailure(s, at, i, seen)
		f.Tolerated = f.Tolerated || again
		c.fail(f)
		s.Sandbox.Memory = seen.Memory
	}
	if !again {
		if (policy != nil || unhealthy) && whyNot != "" {
			c.NotRestarted = "not restarted: " + whyNot
		}
		if unhealthy && s.Goal == Up {
			c.NotRestarted = "unhealthy, " + c.NotRestarted
		}
		c.end(at)
		return
	}
	if c.RestartAt = at; !recalled {
		c.RestartAt = restartTime(c, policy, at, pause)
	}
	c.Hooks, c.Startup, c.Liveness, c.Health = HookState{}, HealthState{}, HealthState{}, HealthState{Reported: c.Health.Reported}
	c.Runs = append(slices.Clip(c.Runs), Run{StartedAt: c.StartedAt, FinishedAt: c.FinishedAt, ExitCode: c.ExitCode, OOMKilled: oom, Unhealthy: unhealthy, Resized: resized, Requested: requested})
	if n := len(c.Runs); n > keptRuns {
		c.Runs = slices.Clone(c.Runs[n-keptRuns:])
	}
}

// restartTime returns the time at which a container that has just exited is started again. Kubernetes counts the pause
// from the end of the run; if a check failed, from that of the run before, the last it has seen end (kubelet,
// doBackOff).
func restartTime(c *Container, policy *taskdef.RestartPolicy, at time.Time, pause time.Duration) time.Time {
	if !policy.FirstAtOnce {
		return at.Add(pause)
	}
	from := c.FinishedAt
	if c.Startup.Status == HealthUnhealthy || c.Liveness.Status == HealthUnhealthy {
		from = time.Time{}
		if n := len(c.Runs); n > 0 {
			from = c.Runs[n-1].FinishedAt
		}
	}
	if due := from.Add(pause); due.After(at) {
		return due
	}
	return at
}

// recordRestarts appends what History lacks of a container's restarts: for each one
// a line RESTARTING, with the exit before it, and a line RUNNING.
func recordRestarts(s *State, at time.Time, i int) {
	c := &s.Containers[i]
	due := 2 * c.Restarts
	if c.awaitsRestart() {
		due++
	}
	for ; c.RestartsTold < due; c.RestartsTold++ {
		t := Transition{At: at, Container: s.Task.Containers[i].Name}
		switch number := c.RestartsTold/2 + 1; {
		case c.RestartsTold%2 == 1:
			t.Status, t.Reason = StatusRunning.String(), fmt.Sprintf("restart %d", number)
		case number <= c.Restarts:
			t.Status, t.Reason = Restarting, "another program restarted it; its exit code is lost"
		default:
			code := c.ExitCode
			t.Status, t.ExitCode = Restarting, &code
			t.Reason = fmt.Sprintf("restart %d", number)
			switch n := len(c.Runs); {
			case n > 0 && c.Runs[n-1].Unhealthy:
				t.Reason += " because it was unhealthy"
			case n > 0 && c.Runs[n-1].Resized:
				t.Reason += " for other resources"
			case n > 0 && c.Runs[n-1].Requested:
				t.Reason += " as requested"
			}
			if pause := c.RestartAt.Sub(at); pause > 0 {
				t.Reason += " in " + pause.Round(time.Millisecond).String()
			}
		}
		addTransition(s, t)
	}
}

// Restarting stands in History where a container has exited and is to be started
// again. It is no status: that stays RUNNING.
const Restarting = "RESTARTING"
