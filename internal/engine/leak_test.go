package engine_test

import (
	"testing"

	"github.com/podtask/podtask/internal/testing/leaktest"
)

// A hundred tasks, four at a time, each with an owner in a process of its own.
// TestTasksLeaveNoGoroutineAndNoDescriptor does it on real Podman.
func TestAHundredTasksLeaveNoGoroutineAndNoDescriptor(t *testing.T) {
	leaktest.Check(t, func(t *testing.T) {
		s := newSite(t)
		task := s.box(256, 0, "exit", "3")
		for range 25 {
			var batch []*ownedBox
			for range 4 {
				batch = append(batch, s.run(task, ""))
			}
			for _, r := range batch {
				r.end()
				if code := r.owner.State().ExitCode(); code != 3 {
					t.Errorf("%s ended with %d", r.id, code)
				}
			}
		}
	})
}
