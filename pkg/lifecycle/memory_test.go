package lifecycle

import (
	"strings"
	"testing"

	"github.com/podtask/podtask/pkg/taskdef"
)

func memory(mib int64) func(*taskdef.Container) {
	return func(c *taskdef.Container) { c.Memory = mib << 20 }
}

// Which limit was reached, and whether it was memory at all, where Podman's flag
// alone does not say.
func TestOutOfMemoryNamesTheLimit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		own    int64 // MiB
		quota  Quota
		before MemoryUse
		stop   bool // the task is on its way down
		seen   Observed
		want   string // part of the message; empty: no such failure
		class  string // killed or survived
	}{
		{"the container's own limit", 32, Quota{}, MemoryUse{}, false, Observed{ExitCode: 137, OOMKilled: true}, "memory limit of 32 MiB", "killed"},
		{"the container's own limit, in a task with one", 32, Quota{}, MemoryUse{}, false,
			Observed{ExitCode: 137, OOMKilled: true, Memory: MemoryUse{Kills: 1, Peak: 40 << 20, Limit: 96 << 20}}, "its memory limit of 32 MiB; the task used up to 40 MiB of 96 MiB", "killed"},
		{"the task's limit", 32, Quota{}, MemoryUse{}, false,
			Observed{ExitCode: 137, OOMKilled: true, Memory: MemoryUse{Kills: 1, Full: 1, Peak: 96 << 20, Limit: 96 << 20}}, "the task used all of its memory limit: 96 MiB of 96 MiB", "killed"},
		{"the task's limit, without a slice's word", 0, Quota{Memory: 96 << 20}, MemoryUse{}, false,
			Observed{ExitCode: 137, OOMKilled: true}, "memory limit of 96 MiB", "killed"},
		{"no limit at all", 0, Quota{}, MemoryUse{}, false, Observed{ExitCode: 137, OOMKilled: true}, "the host had no memory left", "killed"},
		{"Podman missed it, the slice did not", 32, Quota{}, MemoryUse{}, false,
			Observed{ExitCode: 137, Memory: MemoryUse{Kills: 1}}, "32 MiB", "killed"},
		{"a kill that was accounted for before", 32, Quota{}, MemoryUse{Kills: 1}, false,
			Observed{ExitCode: 137, Memory: MemoryUse{Kills: 1}}, "", ""},
		{"the counter of a new slice", 32, Quota{}, MemoryUse{Kills: 5, Full: 5}, false,
			Observed{ExitCode: 137, Memory: MemoryUse{Kills: 1}}, "32 MiB", "killed"},
		{"a kill of a stop that took too long", 32, Quota{}, MemoryUse{}, true,
			Observed{ExitCode: 137, Memory: MemoryUse{Kills: 1}}, "", ""},
		{"a process of it was killed", 32, Quota{}, MemoryUse{}, false,
			Observed{ExitCode: 7, OOMKilled: true, Memory: MemoryUse{Kills: 1}}, "ended later", "survived"},
		{"an end that has nothing to do with it", 32, Quota{}, MemoryUse{}, false,
			Observed{ExitCode: 7, Memory: MemoryUse{Kills: 1}}, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := drive(t, Options{Quota: tt.quota}, container("a", memory(tt.own)))
			d.upTo(Probe)
			d.s.Sandbox.Memory = tt.before
			if tt.stop {
				d.do(StopRequested{By: "test"})
			} else {
				d.do(Hinted{Index: 0})
			}
			tt.seen.Presence, tt.seen.ID, tt.seen.StartedAt, tt.seen.FinishedAt = Exited, "id", d.s.Containers[0].StartedAt, d.at
			d.answer(d.op(0).Kind, 0, Failure{}, Result{Seen: tt.seen})
			var found Failure
			for _, f := range d.s.Containers[0].Failures {
				if f.Name == ErrOutOfMemory {
					found = f
				}
			}
			if (found.Name != "") != (tt.want != "") || !strings.Contains(found.Message, tt.want) {
				t.Fatalf("failure %+v, want %q", found, tt.want)
			}
			if tt.want == "" {
				return
			}
			if found.Tolerated != (tt.class == "survived") {
				t.Errorf("failure %+v of a container that was %s", found, tt.class)
			}
			if d.s.Sandbox.Memory != tt.seen.Memory {
				t.Errorf("accounted for %+v, want %+v", d.s.Sandbox.Memory, tt.seen.Memory)
			}
		})
	}
}

func TestChangedLimitsAreRecorded(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{Quota: Quota{TasksMax: 10}}, container("a"))
	d.s.Task.Memory, d.s.Task.CPU = 64<<20, 0.5
	d.do(LimitsRequested{Quota: Quota{Memory: 128 << 20}})
	if got, want := d.s.Durable().Quota(), (Quota{CPU: 0.5, Memory: 128 << 20}); got != want {
		t.Errorf("quota %+v, want %+v", got, want)
	}
	d.do(LimitsRequested{Quota: Quota{TasksMax: Unlimited}})
	if got, want := d.s.Quota(), (Quota{CPU: 0.5, Memory: 64 << 20}); got != want {
		t.Errorf("back to the definition: %+v, want %+v", got, want)
	}
}

// A container that runs without its limits is not stopped for it, but it is told.
func TestLimitsThatAContainerLacksAreKept(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{}, container("a"))
	d.upTo(Start)
	d.answer(Start, 0, Failure{}, Result{
		Seen:      Observed{Presence: Running, ID: "id", StartedAt: d.at},
		Tolerated: Failure{Class: Permanent, Name: ErrLimitsNotApplied, Message: "memory.max is max"},
	})
	c := d.s.Containers[0]
	if len(c.Failures) != 1 || !c.Failures[0].Tolerated || c.Failures[0].Name != ErrLimitsNotApplied || c.Status() != StatusRunning || d.s.Goal != Up {
		t.Errorf("%s with %+v and the goal %s", c.Status(), c.Failures, d.s.Goal)
	}
}

func TestUpdateKeepsImplicitShares(t *testing.T) {
	t.Parallel()
	d := drive(t, Options{Quota: Quota{ImplicitShares: true}}, container("a"))
	d.do(LimitsRequested{Quota: Quota{Memory: 128 << 20}})
	if !d.s.Quota().ImplicitShares {
		t.Error("an update of the memory limit drops the containers' shares")
	}
}
