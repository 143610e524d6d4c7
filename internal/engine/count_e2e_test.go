//go:build e2e

//e2e:bed systemd

package engine

import (
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/internal/testing/faults"
	"github.com/podtask/podtask/internal/testing/leaktest"
)

// callsOfATask is what a task of three containers asks of Podman from creation to
// removal when nothing goes wrong. The few that depend on which of two answers is
// first have a least and a most.
var callsOfATask = map[string][2]int{
	// Connect: a ping tells the version. A call that takes more than three seconds is pinged beside.
	"GET _ping": {1, math.MaxInt},
	// Prepare: the pod.
	"POST pods/create": {1, 1},
	// Pull: each container asks whether the image is there by its digest and names
	// it, if it has not the name yet; the first to ask pulls, and looks at what came.
	"GET images/*/json": {1, 4},
	"GET images/json":   {1, 3}, // before a pull and after: which images are podtask's own?
	"GET info":          {1, 1}, // where the storage is, and whether systemd has the cgroups
	"POST images/pull":  {1, 1},
	"POST images/*/tag": {1, 3},
	// Create and start.
	"POST containers/create":  {3, 3},
	"POST containers/*/start": {3, 3},
	// Run: one successful probe for each container. Waits are not Podman's business,
	// unless conmon ends just when it is looked for.
	"POST containers/*/wait":       {0, 1},
	"GET containers/*/healthcheck": {3, 3},
	// Stop: db, which gets its signal, and Podman's clean-up once it has ended.
	"POST containers/*/kill": {1, 1},
	"POST containers/*/stop": {1, 1},
	// Bridge mode, with a network for the task and a namespace for each container.
	"POST networks/create": {1, 1},
	"GET networks/*/json":  {4, 4}, // for the address of each container, and before it is removed
	"DELETE networks/*":    {1, 1},
	"POST containers/*":    {5, 5}, // init, so that the namespace is there before the program; two hooks
	// The two hooks of db: each is a command that is run and looked at, and removed by
	// Podman 5.
	"POST exec/*/start": {2, 2},
	"GET exec/*/json":   {2, 2},
	"POST exec/*":       {0, 2},
	// An inspection after the create of what publishes ports (1), init (3), start (3), before the
	// stop and after it (2), and one when init and app have ended (2). A probe that finds its container
	// ended costs two more, and a hint in mid-inspection one.
	"GET containers/*/json": {11, 18},
	// What runs in the pod before it stops, and what is to be removed with it.
	"GET pods/*/json": {2, 2},
	"DELETE pods/*":   {1, 1},
}

// callsOfARemoval are those of them that remove a task that has stopped: what is to be
// removed with the pod, the pod, and the network if no container uses it. Containers that this process has made, and that have
// ended, are not inspected.
var callsOfARemoval = map[string]int{
	"GET pods/*/json": 1, "DELETE pods/*": 1, "GET networks/*/json": 1, "DELETE networks/*": 1,
}

// TestCallsOfATask counts what one task costs Podman, the registry and the disk.
func TestCallsOfATask(t *testing.T) {
	needBed(t)
	t.Parallel()
	w := newWorld(t, faults.Start(t, bed.service.Socket()))
	disk := &countingFS{}
	w.fs = disk
	w.host = w.open()
	w.fresh()
	w.shop()
	w.checkShop(w.run(w.own()))
	stopped := w.proxy.Count()
	w.remove()

	got := w.proxy.Count()
	removal := map[string]int{}
	for name, n := range got {
		if n -= stopped[name]; n > 0 {
			removal[name] = n
		}
	}
	t.Logf("of these to remove it: %v", removal)
	if !maps.Equal(removal, callsOfARemoval) {
		t.Errorf("the removal makes %v, want %v", removal, callsOfARemoval)
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		t.Logf("%3d %s", got[name], name)
	}
	for name, bounds := range callsOfATask {
		if n := got[name]; n < bounds[0] || n > bounds[1] {
			t.Errorf("%s: %d calls, want %d to %d", name, n, bounds[0], bounds[1])
		}
	}
	for name, n := range got {
		if _, known := callsOfATask[name]; !known {
			t.Errorf("%s: %d unexpected calls", name, n)
		}
	}

	// The record is written when it is made and when something changed that has to
	// survive: at most once for each of the history's lines and for goals and ids,
	// fewer as answers come together.
	saves, syncs := int(disk.saves.Load()), int(disk.syncs.Load())
	t.Logf("%d saves, %d syncs", saves, syncs)
	// A save syncs the file and its directory, the removal of the record the
	// directory.
	if saves < 8 || saves > 40 || syncs > 2*saves+1 {
		t.Errorf("%d saves and %d syncs", saves, syncs)
	}
	w.checkRegistry()
}

// requestsOfAnImage is what one image costs its registry, with three containers
// made from it: podtask asks for the digest, side by side, so that not all may
// find another's answer. Before a pull it looks at the manifest and the configuration
// for the platform; then Podman gets the manifest and the blobs it has not.
var requestsOfAnImage = map[string][2]int{
	"HEAD manifests": {1, 3},
	"GET manifests":  {2, 2},
	"GET blobs":      {2, 3},
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
	const tasks, atOnce = 20, 4
	leaktest.Check(t, func(t *testing.T) {
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
}

var _ state.FS = (*countingFS)(nil)
