package lifecycle

import (
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
)

// restartedWhenUnhealthy has a check of 10 s that fails at the first failure.
func restartedWhenUnhealthy(c *taskdef.Container) {
	c.HealthCheck = &taskdef.HealthCheck{Command: []string{"CMD", "true"}, Interval: 10 * time.Second, Timeout: 3 * time.Second, Retries: 1, Action: taskdef.ActionRestart}
	c.Restart = &taskdef.RestartPolicy{AttemptPeriod: time.Minute, BackOff: 4 * time.Second, IgnoredExitCodes: []int{0}}
}

// unhealthyNow answers checks until one has failed that counts.
func (d *driver) unhealthyNow(i int) {
	d.t.Helper()
	for d.s.Containers[i].Health.Status != HealthUnhealthy {
		for d.op(i).Kind != Probe {
			d.wake()
		}
		d.answer(Probe, i, Failure{}, Result{Probe: ProbeResult{ExitCode: 1}})
	}
}

func TestUnhealthyContainerIsRestarted(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("web", restartedWhenUnhealthy), container("user", after(0, taskdef.Start)))
	d.upTo(Stop)
	d.unhealthyNow(0)
	if got := d.asked; len(got) != 1 || got[0] != (StopContainer{ID: d.op(0).ID, Index: 0, Grace: 10 * time.Second}) {
		t.Fatalf("asked for %v", got)
	}
	d.see(Stop, 0, Exited, 0) // it ended politely, with a code that is ignored otherwise
	c := d.s.Containers[0]
	if c.RestartAt.IsZero() || len(c.Runs) != 1 || !c.Runs[0].Unhealthy || d.s.Goal != Up || d.s.Status() != StatusRunning {
		t.Fatalf("%+v", c)
	}
	d.wake()
	d.see(Start, 0, Running)
	if c = d.s.Containers[0]; c.Restarts != 1 || c.Health.Status != HealthUnknown {
		t.Errorf("%d restarts, %s", c.Restarts, c.Health.Status)
	}
	if last := d.s.History[len(d.s.History)-3]; last.Status != Restarting || last.Reason != "restart 1 because it was unhealthy in 4s" {
		t.Errorf("%+v", last)
	}
}

func TestUnhealthyContainerWithoutPolicyEnds(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("web", restartedWhenUnhealthy, func(c *taskdef.Container) { c.Restart = nil }))
	d.upTo(Stop)
	d.unhealthyNow(0)
	d.see(Stop, 0, Exited, 143)
	if c := d.s.Containers[0]; !c.Ended || c.NotRestarted == "" || d.s.Stop.Code != StopEssentialContainerExited {
		t.Errorf("%+v, %+v", c, d.s.Stop)
	}
}

func TestRestartGoesBeforeStopWhenUnhealthy(t *testing.T) {
	t.Parallel()
	task := taskdef.Task{
		Family: "unit", Network: taskdef.NetworkBridge, Extensions: taskdef.TaskExtensions{StopWhenUnhealthy: true, WatchDependencies: true},
		Containers: []taskdef.Container{container("web", restartedWhenUnhealthy), container("user", after(0, taskdef.Healthy))},
	}
	d := &driver{t: t, s: New("00000000000000000000000000000000", "", task, Options{}, epoch), at: epoch, started: map[int]time.Time{}}
	d.do(Restarted{})
	d.upTo(Probe)
	for d.op(0).Kind != Probe {
		d.wake()
	}
	d.answer(Probe, 0, Failure{}, Result{Probe: ProbeResult{Healthy: true}})
	d.upTo(Stop)
	d.unhealthyNow(0)
	if d.s.Goal != Up || d.op(0).Kind != Stop {
		t.Errorf("the goal is %s, and a %s is in flight", d.s.Goal, d.op(0).Kind)
	}
}

func TestStopOfUnhealthyContainerIsRepeated(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("web", restartedWhenUnhealthy))
	d.upTo(Stop)
	d.unhealthyNow(0)
	d.fail(Stop, 0, Temporary)
	d.wake()
	d.see(Inspect, 0, Running)
	if d.op(0).Kind != Stop {
		d.wake()
	}
	d.see(Stop, 0, Exited, 137)
	if d.s.Containers[0].RestartAt.IsZero() {
		t.Errorf("%+v", d.s.Containers[0])
	}
}

// TestUnhealthyIsRememberedAcrossOwners: the next owner looks at the container, and continues.
func TestUnhealthyIsRememberedAcrossOwners(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("web", restartedWhenUnhealthy))
	d.upTo(Stop)
	d.unhealthyNow(0)
	d.s = d.s.Durable()
	d.do(Restarted{})
	d.see(Inspect, 0, Exited, 0)
	if c := d.s.Containers[0]; c.Ended || c.RestartAt.IsZero() {
		t.Errorf("%+v", c)
	}
}
