package leaktest

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/podtask/podtask/test/testbed"
)

// Check runs a subtest called "tasks" and fails unless afterwards, its clean-ups
// included, there are no more goroutines and descriptors than before. The caller
// must not be a parallel test: others have some of both.
func Check(t *testing.T, run func(t *testing.T)) {
	t.Helper()
	goroutines, descriptors := runtime.NumGoroutine(), openFiles(t)
	t.Run("tasks", run)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(testbed.Patience) // for what ends a moment later, such as idle connections
	for runtime.NumGoroutine() > goroutines || openFiles(t) > descriptors {
		select {
		case <-tick.C:
			runtime.GC() // the standard library keeps pipes for copies between sockets until then
		case <-limit:
			stacks := make([]byte, 1<<20)
			stacks = stacks[:runtime.Stack(stacks, true)]
			t.Fatalf("%d goroutines, there were %d; %d descriptors, there were %d\n%s",
				runtime.NumGoroutine(), goroutines, openFiles(t), descriptors, stacks)
		}
	}
}

// openFiles counts the process's descriptors.
func openFiles(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}
