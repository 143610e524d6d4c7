package enginesim

import (
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// TestSlowChecksDoNotKeepAWorldFromItsEnd has a container whose checks take longer than
// their interval, and another that waits until a third is made to end.
func TestSlowChecksDoNotKeepAWorldFromItsEnd(t *testing.T) {
	t.Parallel()
	slow := func(seconds string) *taskdef.Probe {
		return &taskdef.Probe{
			Action: taskdef.Action{Exec: []string{"/testbox", "sleep", seconds, "--", "exit", "0"}},
			Period: time.Second, Timeout: 10 * time.Second, SuccessThreshold: 1, FailureThreshold: 3,
		}
	}
	container := func(name string) taskdef.Container {
		return taskdef.Container{Name: name, Image: imageName(0), Command: []string{"sleep", "forever"}, StopTimeout: time.Second}
	}
	checked, job, last := container("checked"), container("job"), container("last")
	checked.Extensions.Probes = taskdef.Probes{Readiness: slow("5s"), Liveness: slow("7s")}
	job.DependsOn = []taskdef.Dependency{{Container: 0, Condition: taskdef.Healthy}}
	last.DependsOn = []taskdef.Dependency{{Container: 1, Condition: taskdef.Complete}}
	last.Essential = true

	w := newWorld(1, t.TempDir(), nil)
	one := newTask(w, 0)
	one.def = taskdef.Task{Family: "slow", Network: taskdef.NetworkBridge, Containers: []taskdef.Container{checked, job, last}}
	one.opts = lifecycle.Options{Pull: lifecycle.PullDefault}
	if err := one.def.Check(); err != nil {
		t.Fatal(err)
	}
	one.recordDefinition()
	one.truth = make([]truth, len(one.def.Containers))
	w.tasks = []*task{one}
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *Violation:
			t.Error(p.Detail)
		default:
			panic(p)
		}
	}()
	finish(w)
	if !one.truth[2].everStarted {
		t.Error("the container that waits was never started")
	}
}
