package lifecycle

import (
	"strings"
	"testing"
)

// A container that Podman can neither stop nor inspect does not hold up a removal
// for ever: it is left to that of the pod.
func TestARemovalGoesOnWithoutAnInspection(t *testing.T) {
	t.Parallel()
	for name, class := range map[string]Class{"Podman refuses": Permanent, "Podman is away": Temporary} {
		t.Run(name, func(t *testing.T) {
			d := drive(t, Options{}, container("a"))
			d.upTo(Stop)
			d.do(Hinted{Index: 0})
			for range 20 { // as long as it is not removed, it is requested again
				d.fail(Inspect, 0, class)
				d.wake()
			}
			d.do(RemoveRequested{By: "user", Force: true})
			n := 0
			for ; d.op(0).Kind == Inspect && n < 50; n++ {
				d.fail(Inspect, 0, class)
				if !d.op(-1).Busy() {
					d.wake()
				}
			}
			if n > removalAttempts+1 {
				t.Errorf("%d inspections", n)
			}
			if c := d.s.Containers[0]; c.Ended || !c.Abandoned {
				t.Errorf("ended %v, abandoned %v", c.Ended, c.Abandoned)
			}
			d.answer(Remove, -1, Failure{}, Result{})
			if c := d.s.Containers[0]; !d.s.Settled() || !c.Ended || !strings.Contains(c.Fatal(), ErrCannotInspect) {
				t.Errorf("settled %v, %+v", d.s.Settled(), c)
			}
		})
	}
}

// A removal that fails again and again is given up, and says why; a task that may
// still run is not said to have stopped.
func TestARemovalIsGivenUpInTheEnd(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("a"))
	d.upTo(Stop)
	d.do(RemoveRequested{By: "user", Force: true})
	for n := 0; !d.s.Containers[0].Abandoned; n++ {
		if n > 4*removalAttempts {
			t.Fatal("the container is asked for again and again")
		}
		if d.op(0).Kind == Inspect {
			d.fail(Inspect, 0, Permanent)
		} else {
			d.fail(Stop, 0, Permanent)
		}
		if !d.op(-1).Busy() {
			d.wake()
		}
	}
	n := 0
	for ; d.s.Goal == Gone && n < 50; n++ {
		d.fail(Remove, -1, Temporary)
		if d.s.Goal == Gone {
			d.wake()
		}
	}
	if n != removalAttempts {
		t.Errorf("%d attempts, want %d", n, removalAttempts)
	}
	if f := d.s.Sandbox.Failures; len(f) != 1 || f[0].Name != ErrCannotRemove {
		t.Errorf("failures %v", f)
	}
	if c := d.s.Containers[0]; c.Ended || c.Abandoned || d.op(0).Kind != Inspect || d.s.Status() == StatusStopped {
		t.Errorf("%+v, task %s", c, d.s.Status())
	}
	d.do(RemoveRequested{By: "user"})
	if d.s.Goal != Gone {
		t.Error("a second request is not heard")
	}
}

// A removal by force takes one call, after which the containers have ended by SIGKILL. If
// it fails, they are looked at again.
func TestAForcedRemovalStopsNothingItself(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("a"))
	d.upTo(Stop)
	d.do(RemoveRequested{By: "user", Force: true})
	if op := d.op(0).Kind; op != Idle || d.op(-1).Kind != Remove {
		t.Fatalf("container %s, pod %s", op, d.op(-1).Kind)
	}
	d.do(Hinted{Index: 0}) // the removal kills it
	d.fail(Remove, -1, Permanent)
	if d.op(0).Kind != Inspect || d.s.Goal != Down {
		t.Fatalf("after a failure: %s, goal %s", d.op(0).Kind, d.s.Goal)
	}
	d.answer(Inspect, 0, Failure{}, Result{Seen: Observed{Presence: Running, ID: "id", StartedAt: d.s.Containers[0].StartedAt}})
	d.do(RemoveRequested{By: "user", Force: true})
	d.fail(Stop, 0, Canceled)
	if d.op(0).Kind == Inspect {
		d.answer(Inspect, 0, Failure{}, Result{Seen: Observed{Presence: Running, ID: "id", StartedAt: d.s.Containers[0].StartedAt}})
	}
	d.answer(Remove, -1, Failure{}, Result{})
	if c := d.s.Containers[0]; !d.s.Settled() || !c.Ended || !c.HasExit || c.ExitCode != 137 {
		t.Errorf("settled %v, %+v", d.s.Settled(), c)
	}
}
