//go:build e2e

package agent

import (
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/faults"
	"github.com/podtask/podtask/pkg/state"
)

// callsOfATask is what a task of three containers asks of Podman from creation to
// removal when nothing goes wrong. The few that depend on which of two answers is
// first have a least and a most.
var callsOfATask = map[string][2]int{
	// Connect: a ping tells the version.
	"GET _ping": {1, 1},
	// Prepare: the pod, its infra container, and what became of that.
	"POST pods/create": {1, 1},
	// Pull: each container asks whether the image is there by its digest and names
	// it; the first to ask pulls.
	"GET images/*/json": {3, 3},
	"POST images/pull":  {1, 1},
	"POST images/*/tag": {3, 3},
	// Create and start; the fourth start is infra's.
	"POST containers/create":  {3, 3},
	"POST containers/*/start": {4, 4},
	// Run: one wait and one successful probe for each container.
	"POST containers/*/wait":       {3, 3},
	"GET containers/*/healthcheck": {3, 3},
	// Stop: db and infra.
	"POST containers/*/stop": {2, 2},
	// An inspection after prepare (1), create (3), start (3), the stop (1), and
	// before the pod stops (1), and one when init and app have ended (2). A probe
	// that finds its container ended costs two more.
	"GET containers/*/json": {11, 15},
	// Remove.
	"GET containers/json": {1, 1},
	"DELETE pods/*":       {1, 1},
}

// TestCallsOfATask counts what one task costs Podman, the registry and the disk.
func TestCallsOfATask(t *testing.T) {
	needBed(t)
	t.Parallel()
	w := newWorld(t, faults.Start(t, bed.service.socket))
	disk := &countingFS{}
	w.fs = disk
	w.host = w.open()
	w.fresh()
	w.shop()
	w.checkShop(w.run(w.own()))
	w.remove()

	want := maps.Clone(callsOfATask)
	if bed.name == "systemd" {
		want["GET info"] = [2]int{1, 1} // with a user manager: does Podman use it?
	}
	got := w.proxy.Count()
	for _, name := range slices.Sorted(maps.Keys(got)) {
		t.Logf("%3d %s", got[name], name)
	}
	for name, bounds := range want {
		if n := got[name]; n < bounds[0] || n > bounds[1] {
			t.Errorf("%s: %d calls, want %d to %d", name, n, bounds[0], bounds[1])
		}
	}
	for name, n := range got {
		if _, known := want[name]; !known {
			t.Errorf("%s: %d calls nobody reckoned with", name, n)
		}
	}

	// The record is written when it is made and when something changed that has to
	// survive: at most once for each of the history's lines and for goals and ids,
	// fewer as answers come together.
	saves, syncs := int(disk.saves.Load()), int(disk.syncs.Load())
	t.Logf("%d saves, %d syncs", saves, syncs)
	// A save syncs the file and its directory, the removal of the record the
	// directory.
	if saves < 8 || saves > 30 || syncs > 2*saves+1 {
		t.Errorf("%d saves and %d syncs", saves, syncs)
	}
	w.checkRegistry()
}

// requestsOfAnImage is what one image costs its registry, with three containers
// made from it: podtask asks for the digest, side by side, so that not all may
// find another's answer; Podman gets the manifest and the blobs it has not.
var requestsOfAnImage = map[string][2]int{
	"HEAD manifests": {1, 3},
	"GET manifests":  {1, 1},
	"GET blobs":      {1, 2},
}

func (w *world) checkRegistry() {
	w.t.Helper()
	bed.reg.Settle()
	got := map[string]int{}
	for _, r := range bed.reg.Log() {
		if path, ours := strings.CutPrefix(r.Path, "/v2/"+w.repository()+"/"); ours {
			kind, _, _ := strings.Cut(path, "/")
			got[r.Method+" "+kind]++
		}
	}
	w.t.Logf("registry: %v", got)
	for name, n := range got {
		if bounds := requestsOfAnImage[name]; n < bounds[0] || n > bounds[1] {
			w.t.Errorf("%s: %d requests, want %d to %d", name, n, bounds[0], bounds[1])
		}
	}
	if len(got) != len(requestsOfAnImage) {
		w.t.Errorf("kinds of requests: %v", got)
	}
}

// repository is the image's name without registry and tag.
func (w *world) repository() string {
	name := strings.TrimPrefix(w.image, bed.reg.Addr()+"/")
	name, _, _ = strings.Cut(name, ":")
	return name
}

// countingFS counts what reaches the disk.
type countingFS struct {
	state.OS
	saves, syncs atomic.Int64
}

func (f *countingFS) Create(name string) (state.File, error) {
	file, err := f.OS.Create(name)
	return countingFile{file, f}, err
}

func (f *countingFS) Rename(from, to string) error {
	f.saves.Add(1)
	return f.OS.Rename(from, to)
}

func (f *countingFS) SyncDir(dir string) error {
	f.syncs.Add(1)
	return f.OS.SyncDir(dir)
}

type countingFile struct {
	state.File
	fs *countingFS
}

func (f countingFile) Sync() error {
	f.fs.syncs.Add(1)
	return f.File.Sync()
}

// TestTasksLeaveNoGoroutineAndNoDescriptor runs twenty tasks on one host. It does
// not run beside other tests, which have some of both.
func TestTasksLeaveNoGoroutineAndNoDescriptor(t *testing.T) {
	needBed(t)
	if _, err := bed.podman.List(t.Context()); err != nil { // its connection counts as there before
		t.Fatal(err)
	}
	goroutines, descriptors := runtime.NumGoroutine(), openFiles(t)
	const tasks, atOnce = 20, 4
	t.Run("tasks", func(t *testing.T) {
		first := newWorld(t, nil)
		runOne := func() {
			w := *first
			w.create("one", container{"name": "app", "command": "print started -- exit 3"})
			if s := w.run(w.own()); codes(s) != "app=3: 3" {
				t.Errorf("ended with %s", codes(s))
			}
			w.remove()
		}
		for range tasks / atOnce {
			var wg sync.WaitGroup
			for range atOnce {
				wg.Go(runOne)
			}
			wg.Wait()
		}
	})
	// Idle connections end a moment after they are closed.
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(patience)
	for runtime.NumGoroutine() > goroutines || openFiles(t) > descriptors {
		select {
		case <-tick.C:
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

var _ state.FS = (*countingFS)(nil)
