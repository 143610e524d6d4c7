package lifecycle

import (
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
)

// A clock that is set makes timers come sooner, or later by what they are set to at most,
// and loses none of them.
func TestClockThatIsSet(t *testing.T) {
	t.Parallel()
	for name, jump := range map[string]time.Duration{"back": -time.Hour, "forward": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := drive(t, Options{}, container("a", checked, restarting(taskdef.RestartPolicy{BackOff: time.Minute, AttemptPeriod: time.Minute})))
			d.upTo(Stop)
			d.at = d.at.Add(time.Second)
			d.end(0, 1)
			due := d.s.Containers[0].RestartAt
			d.at = d.at.Add(jump)
			d.do(TimerFired{})
			if early := len(d.asked) > 0; early != (jump > 0) {
				t.Fatalf("asked %v at %s; the restart is due at %s", d.asked, d.at, due)
			}
			if jump < 0 {
				if got := d.s.Wake(d.at); got.After(d.at.Add(maxRestartPause)) || !got.After(d.at) {
					t.Fatalf("at %s the timer is set to %s", d.at, got)
				}
				d.wake()
			}
			d.see(Start, 0, Running)
			if c := d.s.Containers[0]; d.s.Goal != Up || c.Restarts != 1 || d.s.Wake(d.at).IsZero() {
				t.Errorf("goal %s, %d restarts, the next check comes at %s", d.s.Goal, c.Restarts, d.s.Wake(d.at))
			}
			// A container that runs while the clock is set ends with its code all the same.
			d.at = d.at.Add(2 * jump)
			d.do(StopRequested{By: "user"})
			d.see(Stop, 0, Exited, 143)
			d.answer(Halt, -1, Failure{}, Result{})
			if d.s.Status() != StatusStopped || d.s.ExitCode() != 143 {
				t.Errorf("it is %s with %d", d.s.Status(), d.s.ExitCode())
			}
		})
	}
}

// After the clock was set back, checks are made at their distances, and failures count
// after the same time as ever.
func TestChecksAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("a", func(c *taskdef.Container) {
		c.Extensions.Probes.Liveness = &taskdef.Probe{Action: taskdef.Action{Exec: []string{"true"}}, Period: 10 * time.Second, Timeout: time.Second, SuccessThreshold: 1, FailureThreshold: 1}
	}))
	d.upTo(Stop)
	d.at = d.at.Add(-12 * time.Hour)
	begin := d.at
	d.do(TimerFired{})
	for d.s.Containers[0].Liveness.Status != HealthUnhealthy {
		if d.at.After(begin.Add(time.Minute)) {
			t.Fatalf("at %s, a minute after %s, the check is %+v", d.at, begin, d.s.Containers[0].Liveness)
		}
		if d.s.Containers[0].Op.Kind != Probe {
			d.wake()
			continue
		}
		d.answer(Probe, 0, Failure{}, Result{Probe: ProbeResult{ExitCode: 1}})
	}
}
