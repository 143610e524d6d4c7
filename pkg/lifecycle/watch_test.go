package lifecycle

import (
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
)

// driveWith submits a task that asks for more than the ECS model.
func driveWith(t *testing.T, e taskdef.TaskExtensions, cs ...taskdef.Container) *driver {
	t.Helper()
	d := drive(t, Options{}, cs...)
	d.s.Task.Extensions = e
	return d
}

// unhealthy lets the health checks of a container fail until they count.
func (d *driver) unhealthy(i int) {
	d.t.Helper()
	for range 50 {
		if d.s.Goal != Up || d.s.Containers[i].Health.Status == HealthUnhealthy {
			return
		}
		d.wake()
		if d.op(i).Kind == Probe {
			d.answer(Probe, i, Failure{}, Result{Probe: ProbeResult{ExitCode: 1, Output: "no answer"}})
		}
	}
	d.t.Fatal("it does not become unhealthy")
}

func TestUnhealthyStopsTheTaskOnlyIfAsked(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		wanted bool
		who    taskdef.Container
		goal   Goal
	}{
		{"not asked", false, container("a", checked), Up},
		{"asked", true, container("a", checked), Down},
		{"asked, not essential", true, container("a", checked, optional), Up},
	} {
		d := driveWith(t, taskdef.TaskExtensions{StopWhenUnhealthy: tt.wanted}, tt.who, container("b"))
		d.upTo(Stop)
		d.unhealthy(0)
		if d.s.Goal != tt.goal {
			t.Errorf("%s: the goal is %s, want %s", tt.name, d.s.Goal, tt.goal)
		}
		if s := d.s.Stop; tt.goal == Down && (s.Code != StopServiceScheduler || s.Container != "a" || !strings.Contains(s.Reason, "no answer")) {
			t.Errorf("%s: stopped for %+v", tt.name, s)
		}
	}
}

func TestALostDependencyStopsTheTaskOnlyIfAsked(t *testing.T) {
	t.Parallel()
	ends := func(d *driver) { d.end(0, 0) }
	sick := func(d *driver) { d.unhealthy(0) }
	for _, tt := range []struct {
		name   string
		wanted bool
		cond   taskdef.Condition
		lose   func(*driver)
		why    string
	}{
		{"not asked, it ends", false, taskdef.Start, ends, ""},
		{"not asked, it is unhealthy", false, taskdef.Healthy, sick, ""},
		{"START, it ends", true, taskdef.Start, ends, "dependency a (START) of b has ended"},
		{"START, it is unhealthy", true, taskdef.Start, sick, ""},
		{"HEALTHY, it ends", true, taskdef.Healthy, ends, "dependency a (HEALTHY) of b has ended"},
		{"HEALTHY, it is unhealthy", true, taskdef.Healthy, sick, "dependency a (HEALTHY) of b is unhealthy"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := driveWith(t, taskdef.TaskExtensions{WatchDependencies: tt.wanted},
				container("a", optional, checked), container("b", after(0, tt.cond)))
			d.upTo(Start)
			d.see(Start, 0, Running)
			d.wake()
			d.answer(Probe, 0, Failure{}, Result{Probe: ProbeResult{Healthy: true}})
			d.see(Start, 1, Running)
			tt.lose(d)
			if (d.s.Goal == Down) != (tt.why != "") || d.s.Stop.Reason != tt.why {
				t.Errorf("goal %s, stop %+v, want %q", d.s.Goal, d.s.Stop, tt.why)
			}
		})
	}
}

// A dependency that is being restarted is not lost: what comes of it decides.
func TestARestartIsNoLostDependency(t *testing.T) {
	t.Parallel()
	d := driveWith(t, taskdef.TaskExtensions{WatchDependencies: true},
		container("a", optional, restarting(taskdef.RestartPolicy{BackOff: time.Second, MaxCount: 1})), container("b", after(0, taskdef.Start)))
	d.upTo(Stop)
	d.end(0, 1)
	if d.s.Goal != Up {
		t.Fatalf("stopped for %+v", d.s.Stop)
	}
	d.wake()
	d.see(Start, 0, Running)
	d.end(0, 1)
	if d.s.Stop.Code != StopServiceScheduler {
		t.Errorf("goal %s, stop %+v", d.s.Goal, d.s.Stop)
	}
}

// Lists are made from records; who takes a task over looks for itself.
func TestAPauseIsInTheRecordUntilARestart(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("web"))
	d.upTo(Stop)
	d.do(Hinted{})
	d.answer(Inspect, 0, Failure{}, Result{Seen: Observed{Presence: Running, ID: "id", StartedAt: d.started[0], Paused: true}})
	if !d.s.Durable().Containers[0].Paused {
		t.Error("the record does not tell of the pause")
	}
	d.do(Restarted{})
	if d.s.Containers[0].Paused {
		t.Error("after a restart the pause is believed and not looked for")
	}
}

// What an inspection saw may be older than a hint that came while it ran.
func TestAHintDuringAnInspectionIsNotLost(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("a"))
	d.upTo(Stop)
	d.do(Hinted{Index: 0})
	d.do(Hinted{Index: 0})
	d.see(Inspect, 0, Running)
	if !d.s.Containers[0].Stale {
		t.Fatal("what was seen before the hint is believed")
	}
	d.answer(Inspect, 0, Failure{}, Result{Seen: Observed{Presence: Running, ID: "id", StartedAt: d.started[0], Paused: true}})
	if c := d.s.Containers[0]; !c.Paused || c.Stale || c.Op.Busy() {
		t.Errorf("%+v", c)
	}
	d.do(Hinted{Index: 0})
	d.do(Hinted{Index: 0})
	d.see(Inspect, 0, Exited, 0)
	if c := d.s.Containers[0]; !c.Ended || c.Stale || c.Op.Busy() {
		t.Errorf("%+v", c)
	}
}

// Who pauses a task must not leave out a container that is just being looked at.
func TestAContainerThatIsLookedAtMayRun(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("a"), container("b", optional))
	d.upTo(Stop)
	d.do(Hinted{Index: 1})
	if w, r := d.s.Running(), d.s.MayRun(); len(w) != 1 || len(r) != 2 {
		t.Errorf("%v run, %v may run", w, r)
	}
	d.see(Inspect, 1, Exited, 0)
	if r := d.s.MayRun(); len(r) != 1 || r[0] != 0 {
		t.Errorf("%v may run", r)
	}
}

func TestAPausedContainerIsNotProbed(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("a", checked))
	d.upTo(Stop)
	paused := Observed{Presence: Running, ID: "id", StartedAt: d.started[0], Paused: true}
	d.wake()
	d.fail(Probe, 0, Permanent)
	d.answer(Inspect, 0, Failure{}, Result{Seen: paused})
	for range 5 { // it is looked at instead, once in an interval
		if c := d.s.Containers[0]; !c.Paused || c.Health.Status != HealthUnknown {
			t.Fatalf("paused %v, health %s", c.Paused, c.Health.Status)
		}
		was := d.at
		d.wake()
		if d.at.Sub(was) != 10*time.Second {
			t.Errorf("looked at again after %s", d.at.Sub(was))
		}
		d.answer(Inspect, 0, Failure{}, Result{Seen: paused})
	}
	d.wake()
	d.see(Inspect, 0, Running)
	if d.wake(); d.op(0).Kind != Probe {
		t.Errorf("resumed, and a %s is in flight", d.op(0).Kind)
	}
}
