//go:build !race

package fleet_test

import (
	"runtime"
	"testing"

	"github.com/podtask/podtask/internal/engine/act/limits"
	"github.com/podtask/podtask/internal/engine/run/owner"
	"github.com/podtask/podtask/internal/testing/enginehost"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// A task that runs and waits holds small stacks: copies of its state are on them only during a step. It is not parallel,
// because the stacks of other tests would count.
func TestATaskAtRestHoldsSmallStacks(t *testing.T) {
	host := enginehost.New(t)
	e := host.Open()
	f, _ := host.RunFleet(e)
	const tasks, most = 40, 32 << 10
	before := stacks()
	for range tasks {
		o, err := e.Creator.Record(t.Context(), owner.Launch{Task: host.Server(), Options: lifecycle.Options{Limits: limits.Off}})
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Take(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		host.Await(e, o.ID(), enginehost.IsRunning)
	}
	if each := (stacks() - before) / tasks; each > most {
		t.Errorf("a task at rest has stacks of %d bytes, want at most %d", each, most)
	} else {
		t.Logf("a task at rest has stacks of %d bytes", each)
	}
}

// stacks returns the bytes of all stacks once they have shrunk; a collection halves those of which little is used.
func stacks() int64 {
	for range 8 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.StackInuse)
}
