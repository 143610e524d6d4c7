package lifecycle

import (
	"slices"
	"testing"

	"github.com/podtask/podtask/pkg/taskdef"
)

// The volumes of an image come into being with its container: one that takes them is created
// after it.
func TestAContainerIsCreatedAfterThoseWhoseVolumesItTakes(t *testing.T) {
	t.Parallel()
	taking := container("b", func(c *taskdef.Container) { c.VolumesFrom = []taskdef.VolumesFrom{{Container: 0}} })
	s := State{Goal: Up, NextOp: 1, Containers: make([]Container, 2)}
	s.Task.Containers = []taskdef.Container{container("a"), taking}
	s.Sandbox.Phase, s.Sandbox.Dirty = SandboxReady, true
	for i := range s.Containers {
		s.Containers[i].Resolved, s.Containers[i].Pulled = true, true
	}
	for _, c := range []struct {
		name  string
		from  Container
		next  Kind
		waits string
	}{
		{"nothing yet", Container{}, Idle, WhyVolumes},
		{"being created", Container{Op: Op{ID: 1, Kind: Create}}, Idle, WhyVolumes},
		{"created", Container{Presence: Created}, Create, ""},
		{"running", Container{Presence: Running}, Create, ""},
		{"ended", Container{Presence: Exited, Ended: true}, Create, ""},
		{"never created", Container{Ended: true}, Create, ""},
	} {
		s := clone(s)
		s.Containers[0] = c.from
		s.Containers[0].Resolved, s.Containers[0].Pulled = true, true
		if next, waits := nextUp(&s, epoch, 1); next != c.next || waits != c.waits {
			t.Errorf("%s: %s %q, want %s %q", c.name, next, waits, c.next, c.waits)
		}
		says := func(r Reason) bool {
			return r.Code == WhyVolumes && r.Text == "b waits for a, whose volumes it mounts"
		}
		if told := slices.ContainsFunc(s.Explain(), says); told != (c.waits == WhyVolumes) {
			t.Errorf("%s: %+v", c.name, s.Explain())
		}
	}
}

// The devices that a task was granted stay the same, whatever a later answer says, and are
// divided among its containers in their order.
func TestGPUsOfATaskStay(t *testing.T) {
	t.Parallel()
	with := func(n int) func(*taskdef.Container) { return func(c *taskdef.Container) { c.Linux.GPUs = n } }
	s := State{Goal: Up, Containers: make([]Container, 3)}
	s.Task.Containers = []taskdef.Container{container("a", with(2)), container("b"), container("c", with(1))}
	if s.Need().GPUs != 3 || s.GPUs(0) != nil {
		t.Errorf("needs %d, has %v", s.Need().GPUs, s.GPUs(0))
	}
	s.Sandbox.Reservation = ReservationRequested
	foldVerdict(&s, epoch, Result{Admitted: true, GPUs: []string{"v/g=0", "v/g=1", "v/g=2"}})
	foldVerdict(&s, epoch, Result{Admitted: true, GPUs: []string{"v/g=5", "v/g=6", "v/g=7"}})
	if a, b, c := s.GPUs(0), s.GPUs(1), s.GPUs(2); !slices.Equal(a, []string{"v/g=0", "v/g=1"}) || len(b) > 0 || !slices.Equal(c, []string{"v/g=2"}) {
		t.Errorf("%v %v %v", a, b, c)
	}
	if kept := s.Durable().Sandbox.GPUs; len(kept) != 3 {
		t.Errorf("after a restart it knows %v", kept)
	}
}
