package lifecycle

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// driver steps a state the way an owner does, one event at a time.
type driver struct {
	t  *testing.T
	s  State
	at time.Time
	// started is the time at which each container's present run began.
	started map[int]time.Time
	// asked are the effects of the latest step.
	asked []Effect
}

// drive submits a task whose pod has an infra container.
func drive(t *testing.T, o Options, cs ...taskdef.Container) *driver {
	t.Helper()
	d := driveAsIs(t, o, taskdef.Task{Network: taskdef.NetworkBridge, Containers: cs})
	d.s.Sandbox.NoInfra = false
	return d
}

// driveAsIs submits a task.
func driveAsIs(t *testing.T, o Options, task taskdef.Task) *driver {
	t.Helper()
	task.Family = "unit"
	if err := task.Check(); err != nil {
		t.Fatal(err)
	}
	d := &driver{t: t, s: New(strings.Repeat("0", 32), "", task, o, epoch), at: epoch, started: map[int]time.Time{}}
	d.do(Restarted{})
	return d
}

func container(name string, change ...func(*taskdef.Container)) taskdef.Container {
	c := taskdef.Container{Name: name, Image: "example.com/" + name + ":1", Essential: true, StopTimeout: 10 * time.Second}
	for _, f := range change {
		f(&c)
	}
	return c
}

func optional(c *taskdef.Container) { c.Essential = false }

func pinned(c *taskdef.Container) { c.Image = "example.com/x@sha256:" + strings.Repeat("a", 64) }

func checked(c *taskdef.Container) {
	c.HealthCheck = &taskdef.HealthCheck{Command: []string{"CMD", "true"}, Interval: 10 * time.Second, Timeout: 3 * time.Second, Retries: 3}
}

func after(i int, cond taskdef.Condition) func(*taskdef.Container) {
	return func(c *taskdef.Container) {
		c.DependsOn = append(c.DependsOn, taskdef.Dependency{Container: i, Condition: cond})
	}
}

func (d *driver) do(ev Event) {
	d.t.Helper()
	d.s, d.asked = Step(d.s, d.at, ev)
	if err := Check(d.s); err != nil {
		d.t.Fatalf("after %#v: %v", ev, err)
	}
}

// op is the operation in flight on container i, or on the sandbox for -1.
func (d *driver) op(i int) Op {
	if i < 0 {
		return d.s.Sandbox.Op
	}
	return d.s.Containers[i].Op
}

// answer ends the operation of a kind that must be in flight.
func (d *driver) answer(k Kind, i int, f Failure, r Result) {
	d.t.Helper()
	op := d.op(i)
	if op.Kind != k {
		d.t.Fatalf("%d: a %s is in flight, not a %s", i, op.Kind, k)
	}
	d.do(OpFinished{ID: op.ID, Failure: f, Result: r})
}

func (d *driver) fail(k Kind, i int, class Class) {
	d.t.Helper()
	d.answer(k, i, Failure{Class: class, Message: "fault"}, Result{})
}

// failTimes lets an operation on the first container fail that often, and each time shows what
// became of the container. Between the attempts it wakes the task.
func failTimes(d *driver, n int, k Kind, class Class, p Presence) {
	d.t.Helper()
	for attempt := range n {
		if attempt > 0 {
			d.wake()
		}
		d.fail(k, 0, class)
		d.see(Inspect, 0, p)
	}
}

// see answers an operation with what became of the container.
func (d *driver) see(k Kind, i int, p Presence, code ...int) {
	d.t.Helper()
	o := Observed{Presence: p, ID: "id"}
	if p >= Running {
		if _, known := d.started[i]; !known || k == Start {
			d.started[i] = d.at
		}
		o.StartedAt = d.started[i]
	}
	if p == Exited {
		o.FinishedAt, o.ExitCode = d.at, code[0]
	}
	d.answer(k, i, Failure{}, Result{Seen: o})
}

// upTo brings every container as far as operations of the kinds before k do,
// with nothing failing.
func (d *driver) upTo(k Kind) {
	d.t.Helper()
	for moved := true; moved; {
		moved = false
		for i := -1; i < len(d.s.Containers); i++ {
			op := d.op(i)
			early := op.Kind < k || (op.Kind == Admit || op.Kind == Prepare || op.Kind == Launch) && k > Pull
			if !op.Busy() || !early {
				continue
			}
			moved = true
			switch op.Kind {
			case Admit:
				d.answer(Admit, -1, Failure{}, Result{Admitted: true})
			case Prepare:
				d.answer(Prepare, -1, Failure{}, Result{PodID: "pod"})
			case Launch:
				d.answer(Launch, -1, Failure{}, Result{})
			case Resolve:
				d.answer(Resolve, i, Failure{}, Result{Digest: "sha256:d"})
			case Pull:
				d.answer(Pull, i, Failure{}, Result{ImageID: "image", Source: SourceRegistry})
			case Create:
				d.see(Create, i, Created)
			case Start:
				d.see(Start, i, Running)
			default:
				d.t.Fatalf("nothing friendly to do with a %s", op.Kind)
			}
		}
	}
}

// launched makes the pod and starts its infra container.
func (d *driver) launched(at time.Time) {
	d.t.Helper()
	d.answer(Prepare, -1, Failure{}, Result{PodID: "pod"})
	d.answer(Launch, -1, Failure{}, Result{Seen: Observed{Presence: Running, StartedAt: at}})
}

// end lets a running container end, as the driver notices it.
func (d *driver) end(i, code int) {
	d.t.Helper()
	d.do(Hinted{Index: i})
	d.see(Inspect, i, Exited, code)
}

// wake lets time pass to the next timer.
func (d *driver) wake() {
	d.t.Helper()
	wake := d.s.Wake(d.at)
	if wake.IsZero() {
		d.t.Fatal("no timer is set")
	}
	d.at = wake
	d.do(TimerFired{})
}

// history is what was reported, without times.
func (d *driver) history() []string {
	var out []string
	for _, t := range d.s.History {
		out = append(out, strings.TrimSpace(t.Container+" "+t.Status))
	}
	return out
}

func wantLines(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}
