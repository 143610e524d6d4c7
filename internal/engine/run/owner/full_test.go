package owner_test

import (
	"errors"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/podtask/podtask/internal/engine/act/limits"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/internal/testing/enginehost"
	"github.com/podtask/podtask/internal/testing/enginetest"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/test/testbed"
)

// fullDisk has no space for records while it is full.
type fullDisk struct {
	state.OS
	full    atomic.Bool
	refused atomic.Int64
}

func (d *fullDisk) Create(name string) (state.File, error) {
	if d.full.Load() {
		d.refused.Add(1)
		return nil, syscall.ENOSPC
	}
	return d.OS.Create(name)
}

// fill fills the disk and returns what waits until n more saves were refused.
func (d *fullDisk) fill() (refused func(times int64) bool) {
	before := d.refused.Load()
	d.full.Store(true)
	return func(times int64) bool {
		return testbed.Until(func() bool { return d.refused.Load() >= before+times })
	}
}

// On a full disk a new task is refused, one that has not begun does not begin, and an
// exit that cannot be written down is not forgotten, even when the owner dies before
// there is space again.
func TestFullDiskStopsNewWorkAndLosesNothing(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	disk := &fullDisk{}
	host.FS = disk
	e := host.Open()
	s := host.CreateServer(e)

	disk.full.Store(true)
	if _, err := enginehost.Record(t.Context(), e.Creator, s.Task, "", lifecycle.Options{Limits: limits.Off}); !errors.Is(err, state.ErrNoSpace) {
		t.Errorf("a new task on a full disk: %v, want ErrNoSpace", err)
	}
	if all, errs := e.Tasks.States(); len(all) != 1 || len(errs) > 0 {
		t.Errorf("there are %d tasks, %v; want the first only", len(all), errs)
	}
	refused := disk.fill()
	f, end := host.RunFleet(e)
	if !refused(3) { // the third comes after two pauses, in which much could be done
		t.Fatal("the owner saves nothing")
	}
	if c := f.Owners()[0].State().Containers[0]; c.Digest != "" {
		t.Errorf("without a record of it the image was resolved: %+v", c)
	}
	if facts := host.Podman.Facts(0); len(facts) > 0 {
		t.Errorf("without a record of it this was done: %v", facts)
	}

	disk.full.Store(false)
	host.Await(e, s.ID, enginehost.IsRunning)
	app := "podtask-web-" + s.ID[:12] + "-app"
	refused = disk.fill()
	if !host.Podman.Kill(app, 9, false) {
		t.Fatal("the container does not run")
	}
	if !refused(1) {
		t.Fatal("the owner saves nothing of the exit")
	}
	end()
	if got, err := e.Tasks.Find(s.ID); err != nil || got.Containers[0].HasExit {
		t.Errorf("the record has %+v, %v; want that of before", got.Containers, err)
	}
	disk.full.Store(false)
	host.RunFleet(host.Open())
	got := host.Await(e, s.ID, enginehost.IsStopped)
	if c := got.Containers[0]; !c.HasExit || c.ExitCode != 9 {
		t.Errorf("the container ended as %+v, want code 9", c)
	}
	var did []enginetest.What
	for _, f := range host.Podman.Facts(0) {
		if f.Container == app {
			did = append(did, f.What)
		}
	}
	if want := []enginetest.What{enginetest.Created, enginetest.Started, enginetest.Ended}; !slices.Equal(did, want) {
		t.Errorf("what became of the container: %v, want %v", did, want)
	}
}

// A stop needs no space: it only ends things. It is recorded when there is space, and not
// before that is the task done with.
func TestFullDiskDoesNotDelayAStop(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	disk := &fullDisk{}
	host.FS = disk
	e := host.Open()
	s := host.CreateServer(e)
	f, _ := host.RunFleet(e)
	host.Await(e, s.ID, enginehost.IsRunning)
	disk.fill()
	o := f.Owners()[0]
	o.Send(lifecycle.StopRequested{By: "test"})
	if !testbed.Until(func() bool { return o.State().Status() == lifecycle.StatusStopped && o.Unsaved() }) {
		t.Fatalf("with a full disk the task is %s, unsaved %t", o.State().Status(), o.Unsaved())
	}
	if got, err := e.Tasks.Find(s.ID); err != nil || got.Goal != lifecycle.Up {
		t.Errorf("the record has goal %s, %v; want that of before", got.Goal, err)
	}
	disk.full.Store(false)
	if got := host.Await(e, s.ID, enginehost.IsStopped); got.Stop.Code != lifecycle.StopUserInitiated {
		t.Errorf("the task stopped as %+v", got.Stop)
	}
}

// The next owner of the task, after one that was killed with a full disk, knows nothing of the
// stop. What has ended stays ended, and it can be stopped again.
func TestAStopOnAFullDiskIsForgottenWithItsOwner(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	disk := &fullDisk{}
	host.FS = disk
	e := host.Open()
	s := host.CreateServer(e)
	f, end := host.RunFleet(e)
	host.Await(e, s.ID, enginehost.IsRunning)
	disk.fill()
	o := f.Owners()[0]
	o.Send(lifecycle.StopRequested{By: "test"})
	testbed.Until(func() bool { return o.State().Status() == lifecycle.StatusStopped })
	end()
	disk.full.Store(false)
	host.RunFleet(host.Open())
	if got := host.Await(e, s.ID, enginehost.IsStopped); got.Stop.Code != lifecycle.StopEssentialContainerExited {
		t.Errorf("the task stopped as %+v", got.Stop)
	}
	starts := 0
	for _, f := range host.Podman.Facts(0) {
		if f.What == enginetest.Started && f.Container == "podtask-web-"+s.ID[:12]+"-app" {
			starts++
		}
	}
	if starts != 1 {
		t.Errorf("the container was started %d times", starts)
	}
}

// A removal needs no space either. What it cannot return, the next task that asks takes.
func TestFullDiskDoesNotDelayARemoval(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	disk := &fullDisk{}
	host.FS = disk
	e := host.Open()
	s := host.CreateServer(e)
	f, _ := host.RunFleet(e)
	host.Await(e, s.ID, enginehost.IsRunning)
	disk.fill()
	f.Owners()[0].Send(lifecycle.RemoveRequested{By: "test", Force: true})
	host.AwaitRemoval(e, s.ID)
	disk.full.Store(false)
	next := host.CreateServer(e)
	host.Await(e, next.ID, enginehost.IsRunning)
	if got := e.Queue.Reservations(); slices.Contains(got, s.ID) {
		t.Errorf("the task that was removed keeps its share: %v", got)
	}
}
