package lifecycle

import (
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
)

// The dependency a container waits for, in each of its possible conditions.
func TestConditions(t *testing.T) {
	t.Parallel()
	at := epoch.Add(time.Minute)
	running := Container{Presence: Running, StartedAt: epoch, FirstStartedAt: epoch}
	exited := func(code int) Container {
		return Container{Presence: Exited, StartedAt: epoch, FirstStartedAt: epoch, Ended: true, HasExit: true, ExitCode: code}
	}
	with := func(c Container, change func(*Container)) Container { change(&c); return c }
	healthy := with(running, func(c *Container) { c.Health.Status = HealthHealthy })
	type answers struct{ start, complete, success, healthy answer }
	for _, tt := range []struct {
		name    string
		dep     Container
		timeout time.Duration
		want    answers
	}{
		{"nothing done yet", Container{}, 0, answers{pending, pending, pending, pending}},
		{"created", Container{Presence: Created}, 0, answers{pending, pending, pending, pending}},
		{"created, time limits count from the start", Container{Presence: Created}, time.Second, answers{pending, pending, pending, pending}},
		{"running", running, 0, answers{satisfied, pending, pending, pending}},
		{"running, hearsay", with(running, func(c *Container) { c.Stale = true }), 0, answers{satisfied, pending, pending, pending}},
		{"running within its start timeout", running, 2 * time.Minute, answers{satisfied, pending, pending, pending}},
		{"running, start timeout reached", running, time.Minute, answers{satisfied, impossible, impossible, impossible}},
		{"running, start timeout long over", running, time.Second, answers{satisfied, impossible, impossible, impossible}},
		{"turn came, allowance for the image not over", Container{TurnAt: at.Add(1 - time.Second - pullAllowance)}, time.Second, answers{pending, pending, pending, pending}},
		{"turn came long ago, and it has not started", Container{TurnAt: at.Add(-time.Second - pullAllowance)}, time.Second, answers{impossible, impossible, impossible, impossible}},
		{"runs again, start timeout counts from the first run", with(running, func(c *Container) { c.StartedAt = at }), time.Minute, answers{satisfied, impossible, impossible, impossible}},
		{"exited with 0, is to be restarted", with(running, func(c *Container) { c.Presence, c.HasExit, c.RestartAt = Exited, true, at }), 0, answers{satisfied, pending, pending, pending}},
		{"healthy", healthy, 0, answers{satisfied, pending, pending, satisfied}},
		{"healthy, start timeout over", healthy, time.Second, answers{satisfied, impossible, impossible, satisfied}},
		{"healthy, hearsay", with(healthy, func(c *Container) { c.Stale = true }), 0, answers{satisfied, pending, pending, pending}},
		{"unhealthy", with(running, func(c *Container) { c.Health.Status = HealthUnhealthy }), 0, answers{satisfied, pending, pending, pending}},
		{"exited with 0", exited(0), 0, answers{satisfied, satisfied, satisfied, impossible}},
		{"exited with 0, start timeout over", exited(0), time.Second, answers{satisfied, satisfied, satisfied, impossible}},
		{"exited with 3", exited(3), 0, answers{satisfied, satisfied, impossible, impossible}},
		{"exited, was healthy", with(exited(0), func(c *Container) { c.Health.Status = HealthHealthy }), 0, answers{satisfied, satisfied, satisfied, impossible}},
		{"vanished: no exit code", Container{StartedAt: epoch, Ended: true}, 0, answers{satisfied, impossible, impossible, impossible}},
		{"never started", Container{Ended: true}, 0, answers{impossible, impossible, impossible, impossible}},
		{"never started, with the exit code of a dependency", Container{Ended: true, HasExit: true, ExitCode: exitDependency}, 0, answers{impossible, impossible, impossible, impossible}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for cond, want := range map[taskdef.Condition]answer{
				taskdef.Start: tt.want.start, taskdef.Complete: tt.want.complete, taskdef.Success: tt.want.success, taskdef.Healthy: tt.want.healthy,
			} {
				s := State{Containers: []Container{tt.dep, {}}}
				s.Task.Containers = []taskdef.Container{container("a"), container("b", after(0, cond))}
				s.Task.Containers[0].StartTimeout = tt.timeout
				got, why := dependencies(&s, at, 1)
				if got != want || (got == impossible) != (why.Message != "") {
					t.Errorf("%s: answer %d (%q), want %d", cond, got, why, want)
				}
			}
		})
	}
}

// The reason of a container that waited in vain says why the other one never started: after run --quiet --rm
// nothing else is left that does.
func TestReasonHasThatOfTheDependency(t *testing.T) {
	t.Parallel()
	s := State{Containers: []Container{{Ended: true, Failures: []Failure{{Name: ErrCannotStart, Message: "executable file not found"}}}, {}}}
	s.Task.Containers = []taskdef.Container{container("a"), container("b", after(0, taskdef.Success))}
	_, why := dependencies(&s, epoch, 1)
	if want := "dependency a (SUCCESS) never started: " + s.Containers[0].Failures[0].String(); why.Message != want || !strings.Contains(why.Message, "executable file not found") {
		t.Errorf("%q, want %q", why, want)
	}
}

func TestOneImpossibleDependencyIsEnough(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("a", optional), container("b", optional), container("c", after(0, taskdef.Success), after(1, taskdef.Start)))
	d.upTo(Start)
	d.see(Start, 0, Running)
	d.end(0, 1)
	c := d.s.Containers[2]
	if !c.Ended || !c.HasExit || c.ExitCode != 143 || c.Failures[0].Name != ErrCannotStart {
		t.Errorf("it is %+v; want it ended with exit code 143", c)
	}
	if d.s.Goal != Down || d.s.Stop.Code != StopTaskFailedToStart || d.s.Stop.Container != "c" {
		t.Errorf("goal %s, %+v", d.s.Goal, d.s.Stop)
	}
}

func TestImpossibleDependencyCancelsThePull(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("a", optional), container("b", after(0, taskdef.Success)))
	d.upTo(Pull)
	d.launched(epoch)
	d.answer(Pull, 0, Failure{}, Result{ImageID: "image"})
	d.see(Create, 0, Created)
	d.see(Start, 0, Running)
	pull := d.op(1)
	d.end(0, 1)
	want := CancelOp{ID: pull.ID}
	if pull.Kind != Pull || len(d.asked) != 1 || d.asked[0] != want {
		t.Errorf("asked %v, want %v", d.asked, want)
	}
}

func TestPullsAndCreatesDoNotWaitForDependencies(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("a", optional), container("b", after(0, taskdef.Success)))
	d.upTo(Start)
	if got := d.s.Containers[1].Status(); got != StatusCreated {
		t.Errorf("the dependant is %s, want CREATED", got)
	}
	if d.op(0).Kind != Start || d.op(1).Busy() {
		t.Errorf("in flight are %s and %s, want a start of the first only", d.op(0).Kind, d.op(1).Kind)
	}
}
