package lifecycle

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
)

func restarting(p taskdef.RestartPolicy) func(*taskdef.Container) {
	if p.AttemptPeriod == 0 {
		p.AttemptPeriod = time.Minute
	}
	return func(c *taskdef.Container) { c.Restart = &p }
}

// The cases of the ECS agent's restart tracker, and those of the extensions.
func TestRestartVerdict(t *testing.T) {
	t.Parallel()
	ecs := &taskdef.RestartPolicy{IgnoredExitCodes: []int{0, 3}, AttemptPeriod: 5 * time.Minute}
	patient := &taskdef.RestartPolicy{AttemptPeriod: 5 * time.Minute, BackOff: time.Second, MaxCount: 3}
	ruled := &taskdef.RestartPolicy{AttemptPeriod: time.Second, RulesOnly: true, Rules: []taskdef.RestartRule{{ExitCodes: []int{42, 43}}, {ExitCodes: []int{0, 1, 2}, Not: true}}}
	success := &taskdef.RestartPolicy{AttemptPeriod: time.Second, IgnoredExitCodes: []int{0}, Rules: []taskdef.RestartRule{{ExitCodes: []int{0}}}}
	endless := &taskdef.RestartPolicy{AttemptPeriod: 5 * time.Minute, BackOff: 2 * time.Minute}
	for _, tt := range []struct {
		name            string
		policy          *taskdef.RestartPolicy
		restarts, quick int
		ran             time.Duration
		code            int
		pause           time.Duration
		whyNot          string
	}{
		{"no policy", nil, 0, 0, time.Hour, 1, 0, "no restart policy"},
		{"ran for long enough", ecs, 0, 0, 6 * time.Minute, 1, 0, ""},
		{"ran for just the attempt period", ecs, 0, 0, 5 * time.Minute, 1, 0, ""},
		{"ran for too short a time", ecs, 0, 1, 5*time.Minute - 1, 1, 0, "less than its restartAttemptPeriod of 5m0s"},
		{"ignored exit code", ecs, 0, 0, time.Hour, 3, 0, "ignores exit code 3"},
		{"ignored exit code 0", ecs, 0, 0, time.Hour, 0, 0, "ignores exit code 0"},
		{"exit code 0 that is not ignored", patient, 0, 0, time.Hour, 0, 0, ""},
		{"any number of times", ecs, 1000, 0, time.Hour, 1, 0, ""},
		{"killed by a signal", ecs, 0, 0, time.Hour, 137, 0, ""},
		{"the clock was set back", ecs, 0, 1, -time.Hour, 1, 0, "it ran for -1h"},
		{"back-off, ran for long enough", patient, 2, 0, time.Hour, 1, 0, ""},
		{"back-off, first quick exit", patient, 0, 1, time.Second, 1, time.Second, ""},
		{"back-off, third quick exit", patient, 2, 3, time.Second, 1, 4 * time.Second, ""},
		{"back-off is bounded", endless, 9, 10, 0, 1, maxRestartPause, ""},
		{"back-off is bounded after years", endless, 1 << 40, 1 << 40, 0, 1, maxRestartPause, ""},
		{"a rule", ruled, 0, 0, time.Hour, 42, 0, ""},
		{"a rule about all others", ruled, 0, 0, time.Hour, 3, 0, ""},
		{"no rule", ruled, 0, 0, time.Hour, 1, 0, "no rule of its restart policy is about exit code 1"},
		{"a rule goes before what is ignored", success, 0, 0, time.Hour, 0, 0, ""},
		{"without a rule the policy counts", success, 0, 0, time.Hour, 5, 0, ""},
		{"maximum reached", patient, 3, 0, time.Hour, 1, 0, "3 times, which is its maximum"},
	} {
		pause, whyNot := restartVerdict(tt.policy, tt.restarts, tt.quick, tt.ran, tt.code)
		if pause != tt.pause || tt.whyNot == "" && whyNot != "" || !strings.Contains(whyNot, tt.whyNot) {
			t.Errorf("%s: %s, %q; want %s, %q", tt.name, pause, whyNot, tt.pause, tt.whyNot)
		}
	}
}

func TestARestartStartsTheSameContainerAgain(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("a", restarting(taskdef.RestartPolicy{})), container("b", after(0, taskdef.Start)))
	d.upTo(Stop)
	d.at = d.at.Add(time.Hour)
	d.end(0, 3)
	if want := (StartContainer{ID: d.op(0).ID, Index: 0, Restart: 1}); len(d.asked) != 1 || d.asked[0] != want {
		t.Fatalf("asked for %#v, want %#v", d.asked, want)
	}
	if c := d.s.Containers[0]; c.Status() != StatusRunning || c.Ended || d.s.Goal != Up || d.s.Status() != StatusRunning {
		t.Errorf("container %s, ended %v, goal %s, task %s", c.Status(), c.Ended, d.s.Goal, d.s.Status())
	}
	d.at = d.at.Add(time.Second)
	d.see(Start, 0, Running)
	c := d.s.Containers[0]
	if c.Restarts != 1 || c.HasExit || !c.FinishedAt.IsZero() || !c.StartedAt.Equal(d.at) || !c.FirstStartedAt.Equal(epoch) {
		t.Errorf("after the restart: %+v", c)
	}
	if len(c.Runs) != 1 || c.Runs[0].ExitCode != 3 {
		t.Errorf("earlier runs: %+v", c.Runs)
	}
	d.at = d.at.Add(time.Second)
	d.end(0, 4)
	if c := d.s.Containers[0]; !c.Ended || c.ExitCode != 4 || !strings.Contains(c.NotRestarted, "it ran for 1s") {
		t.Errorf("after the second, early exit: %+v", c)
	}
	var lines []string
	for _, h := range d.s.History {
		if h.Container == "a" {
			lines = append(lines, h.Status+" "+h.Reason)
		}
	}
	wantLines(t, lines[3:], []string{
		"RUNNING ", "RESTARTING restart 1", "RUNNING restart 1",
		"STOPPED not restarted: it ran for 1s, less than its restartAttemptPeriod of 1m0s",
	})
}

func TestAStopBeatsARestart(t *testing.T) {
	t.Parallel()
	for name, play := range map[string]func(d *driver){
		"before the exit is seen": func(d *driver) {
			d.do(StopRequested{By: "user"})
			d.see(Stop, 0, Exited, 1)
		},
		"while it waits for its restart": func(d *driver) {
			d.end(0, 1)
			d.do(StopRequested{By: "user"})
		},
		"while the restart is in flight": func(d *driver) {
			d.end(0, 1)
			d.wake()
			d.do(StopRequested{By: "user"})
			d.see(Start, 0, Running)
			d.see(Stop, 0, Exited, 1)
		},
		"after a crash in the pause": func(d *driver) {
			d.end(0, 1)
			d.do(Restarted{})
			d.do(StopRequested{By: "user"})
			d.see(Inspect, 0, Exited, 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := drive(t, Options{}, container("a", restarting(taskdef.RestartPolicy{BackOff: time.Second})))
			d.upTo(Stop)
			play(d)
			if c := d.s.Containers[0]; !c.Ended || !c.HasExit || c.ExitCode != 1 || d.s.Stop.Code != StopUserInitiated {
				t.Errorf("%+v, stop %+v", c, d.s.Stop)
			}
			d.answer(Halt, -1, Failure{}, Result{})
			if !d.s.Settled() {
				t.Error("it has not settled")
			}
		})
	}
}

func TestDependantsOfAJobWaitForItsLastRun(t *testing.T) {
	t.Parallel()
	for _, cond := range []taskdef.Condition{taskdef.Success, taskdef.Complete} {
		policy := taskdef.RestartPolicy{IgnoredExitCodes: []int{0}, BackOff: time.Second, MaxCount: 2}
		d := drive(t, Options{}, container("job", optional, restarting(policy)), container("app", after(0, cond)))
		d.upTo(Start)
		d.see(Start, 0, Running)
		for range 2 {
			d.end(0, 1)
			if d.op(1).Busy() || d.s.Containers[1].Ended {
				t.Fatalf("%s: the dependant does not wait for the restart: %+v", cond, d.s.Containers[1])
			}
			d.wake()
			d.see(Start, 0, Running)
		}
		d.end(0, 0)
		if d.op(1).Kind != Start {
			t.Errorf("%s: the dependant is not started after the run that went well", cond)
		}
	}
}

func TestAnUncertainRestartIsInspected(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		class    Class
		seen     Presence
		newRun   bool
		restarts int
		ended    bool
	}{
		{"it had worked", Timeout, Running, true, 1, false},
		{"it had worked, and the container has ended again", Timeout, Exited, true, 1, false},
		{"it had not, and may yet", Timeout, Exited, false, 0, false},
		{"it had not, and never will", Permanent, Exited, false, 0, true},
		{"the container was reset, and it may yet", Temporary, Created, false, 0, false},
		{"the container was removed", Timeout, Absent, false, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := drive(t, Options{}, container("a", restarting(taskdef.RestartPolicy{BackOff: time.Second})))
			d.upTo(Stop)
			d.end(0, 1)
			d.wake()
			d.fail(Start, 0, tt.class)
			d.at = d.at.Add(time.Second)
			if tt.newRun {
				d.started[0] = d.at
			}
			d.see(Inspect, 0, tt.seen, 1)
			if n := len(d.s.Containers[0].Runs); n != 1+tt.restarts && !(n == 1 && tt.seen == Running) {
				t.Errorf("%d runs have ended", n)
			}
			if c := d.s.Containers[0]; c.Restarts != tt.restarts || c.Ended != tt.ended || c.Ended && len(c.Failures) == 0 {
				t.Errorf("%d restarts, ended %v, failures %v", c.Restarts, c.Ended, c.Failures)
			}
		})
	}
}

func TestHealthBeginsAnewWithARestart(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("a", checked, restarting(taskdef.RestartPolicy{})))
	d.upTo(Stop)
	d.wake()
	d.answer(Probe, 0, Failure{}, Result{Probe: ProbeResult{Healthy: true}})
	d.at = d.at.Add(2 * time.Minute)
	d.end(0, 1)
	if h := d.s.Health(); h != HealthUnknown {
		t.Errorf("health between the runs: %s", h)
	}
	d.see(Start, 0, Running)
	if h := d.s.Containers[0].Health; h.Status != HealthUnknown || !h.Since.Equal(d.at) || h.Streak != 0 {
		t.Errorf("health after the restart: %+v", h)
	}
	if got := d.history(); !slices.Equal(got[len(got)-3:], []string{"a RESTARTING", "a UNKNOWN", "a RUNNING"}) {
		t.Errorf("history ends with %q", got[len(got)-3:])
	}
}

func TestSomebodyElsesRestartIsTakenOver(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("a", checked))
	d.upTo(Stop)
	d.at = d.at.Add(time.Minute)
	d.started[0] = d.at
	d.do(Hinted{Index: 0})
	d.see(Inspect, 0, Running)
	c := d.s.Containers[0]
	if c.Restarts != 1 || c.Ended || !c.StartedAt.Equal(d.at) || !c.Health.Since.Equal(d.at) {
		t.Errorf("%+v", c)
	}
	got := d.s.History[len(d.s.History)-2:]
	if got[0].Status != Restarting || got[0].ExitCode != nil || !strings.Contains(got[0].Reason, "another program") || got[1].Status != "RUNNING" {
		t.Errorf("history ends with %+v", got)
	}
}

func TestEarlierRunsAreBounded(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("a", restarting(taskdef.RestartPolicy{BackOff: time.Second})))
	d.upTo(Stop)
	for n := range keptRuns + 5 {
		d.end(0, n)
		d.wake()
		d.see(Start, 0, Running)
	}
	runs := d.s.Containers[0].Runs
	if len(runs) != keptRuns || runs[0].ExitCode != 5 || runs[keptRuns-1].ExitCode != keptRuns+4 {
		t.Errorf("%d runs: %+v", len(runs), runs)
	}
	if n := d.s.Containers[0].Restarts; n != keptRuns+5 {
		t.Errorf("%d restarts", n)
	}
}
