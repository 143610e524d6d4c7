package owner_test

import (
	"testing"

	"github.com/podtask/podtask/internal/testing/enginehost"
	"github.com/podtask/podtask/internal/testing/leaktest"
)

// A hundred tasks, four at a time, each with an owner in a process of its own.
// TestTasksLeaveNoGoroutineAndNoDescriptor does it on real Podman.
func TestAHundredTasksLeaveNoGoroutineAndNoDescriptor(t *testing.T) {
	leaktest.Check(t, func(t *testing.T) {
		host := enginehost.New(t)
		task := host.Box(256, 0, "exit", "3")
		for range 25 {
			var batch []*enginehost.Process
			for range 4 {
				batch = append(batch, host.Start(task, ""))
			}
			for _, r := range batch {
				r.Wait()
				if code := r.Owner.State().ExitCode(); code != 3 {
					t.Errorf("%s ended with %d", r.ID, code)
				}
			}
		}
	})
}
