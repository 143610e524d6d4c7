package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/engine/act/limits"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/run/fleet"
	"github.com/podtask/podtask/internal/engine/run/owner"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/internal/testing/enginehost"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// A new task is handed over with its lock: another process that tries all the time never becomes
// its owner, whether the fleet sees the record before or after it is handed over.
func TestNewTasksAreHandedOverWithTheirLock(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	e, other := host.Open(), host.Open()
	f, _ := host.RunFleet(e)
	for range 20 {
		o, err := e.Creator.Record(t.Context(), owner.Launch{Task: host.Server(), Options: lifecycle.Options{Limits: limits.Off}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var rival sync.WaitGroup
		rival.Go(func() {
			for ctx.Err() == nil {
				if o, err := other.Owners.Own(o.ID()); !errors.Is(err, state.ErrLocked) {
					t.Errorf("another process became the owner: %v", err)
					if err == nil {
						_ = o.Close()
					}
					return
				}
			}
		})
		if err := f.Take(t.Context(), o); err != nil {
			t.Error(err)
		}
		if f.Owner(o.ID()) != o {
			t.Error("the fleet has another owner")
		}
		host.Await(e, o.ID(), enginehost.IsRunning)
		cancel()
		rival.Wait()
	}
}

// wantOwned has a fleet adopt a task that another owns until it knows so. Adopt waits for the lock as long as its context.
func wantOwned(t *testing.T, f *fleet.Fleet, id string) {
	t.Helper()
	for {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		err := f.Adopt(ctx, id)
		cancel()
		switch {
		case errors.Is(err, state.ErrLocked):
			return
		case !errors.Is(err, context.DeadlineExceeded) || t.Context().Err() != nil:
			t.Fatalf("Adopt of a task that is owned: %v", err)
		}
	}
}

// A fleet that sees the record of a task before the task is handed over waits without a thread for
// the lock: it would stay until the task ends.
func TestHandedOverTasksLeaveNoThread(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	e := host.Open()
	f, _ := host.RunFleet(e)
	o, err := e.Creator.Record(t.Context(), owner.Launch{Task: host.Server(), Options: lifecycle.Options{Limits: limits.Off}})
	if err != nil {
		t.Fatal(err)
	}
	wantOwned(t, f, o.ID())
	if err := f.Take(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	host.Await(e, o.ID(), enginehost.IsRunning)
	info, err := os.Stat(filepath.Join(host.StateDir(), "locks", o.ID()))
	if err != nil {
		t.Fatal(err)
	}
	inode := fmt.Sprintf(":%d ", info.Sys().(*syscall.Stat_t).Ino)
	text, err := os.ReadFile("/proc/locks")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, inode) && strings.Contains(line, "->") {
			t.Errorf("a thread waits: %s", line)
		}
	}
}

// A fleet that ends does not keep the lock of a task that it is handed.
func TestTaskOfAFleetThatEndsIsReleased(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	e := host.Open()
	f, end := host.RunFleet(e)
	end()
	s := host.CreateServer(e)
	o, err := e.Owners.Own(s.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Take(t.Context(), o); !errors.Is(err, fleet.ErrEnding) {
		t.Errorf("%v, want ErrEnding", err)
	}
	again, err := e.Owners.Own(s.ID)
	if err != nil {
		t.Fatalf("the task is still locked: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

func TestFleetTakesTasksOldAndNew(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	e := host.Open()
	old := host.CreateServer(e)
	f, end := host.RunFleet(host.Open())
	host.Await(e, old.ID, enginehost.IsRunning)
	young := host.CreateServer(e)
	host.Await(e, young.ID, enginehost.IsRunning)
	if n := len(f.Owners()); n != 2 {
		t.Errorf("%d owners, want 2", n)
	}
	if stuck := f.Stuck(time.Minute); len(stuck) != 0 {
		t.Errorf("stuck: %v", stuck)
	}
	for _, s := range []lifecycle.State{old, young} {
		if err := f.Send(t.Context(), s.ID, lifecycle.StopRequested{By: "test"}); err != nil {
			t.Error(err)
		}
		host.Await(e, s.ID, enginehost.IsStopped)
	}
	end()
	if n := len(f.Owners()); n != 0 {
		t.Errorf("%d owners after the end", n)
	}
}

func TestFleetLeavesALivingOwnerAloneAndTakesItsTaskWhenItDies(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	other := host.Open()
	s := host.CreateServer(other)
	o, err := other.Owners.Own(s.ID)
	if err != nil {
		t.Fatal(err)
	}
	life, die := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = o.Run(life) })
	host.Await(other, s.ID, enginehost.IsRunning)

	f, _ := host.RunFleet(host.Open())
	if err := f.Send(t.Context(), s.ID, lifecycle.StopRequested{}); !errors.Is(err, state.ErrLocked) {
		t.Errorf("Send to a task that is owned: %v", err)
	}
	wantOwned(t, f, s.ID)
	die()
	wg.Wait()
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := f.Adopt(ctx, s.ID); err != nil || f.Owner(s.ID) == nil {
		t.Fatalf("the task was not taken: %v", err)
	}
	if n := host.Starts(); n != 1 {
		t.Errorf("%d starts, want 1", n)
	}
	if err := f.Send(t.Context(), s.ID, lifecycle.StopRequested{By: "test"}); err != nil {
		t.Error(err)
	}
	host.Await(other, s.ID, enginehost.IsStopped)
}

// Two agents and two owners all want one task; the one that has it ends, again and
// again. The container must not notice.
func TestManyArgueOverOneTask(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	e := host.Open()
	s := host.CreateServer(e)
	for range 5 {
		f, endFirst := host.RunFleet(host.Open())
		if err := f.Adopt(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
		host.Await(e, s.ID, enginehost.IsRunning)
		g, endSecond := host.RunFleet(host.Open())
		if err := g.Send(t.Context(), s.ID, lifecycle.TimerFired{}); !errors.Is(err, state.ErrLocked) {
			t.Fatalf("a second fleet: %v", err)
		}
		if _, err := e.Owners.Own(s.ID); !errors.Is(err, state.ErrLocked) {
			t.Fatalf("a third owner: %v", err)
		}
		endFirst()
		if err := g.Adopt(t.Context(), s.ID); err != nil || g.Owner(s.ID) == nil {
			t.Fatalf("the second fleet did not take the task: %v", err)
		}
		endSecond()
	}
	if n := host.Starts(); n != 1 {
		t.Errorf("%d starts, want 1", n)
	}
	f, _ := host.RunFleet(host.Open())
	f.StopAll(t.Context(), "test")
	host.Await(e, s.ID, func(lifecycle.State) bool { return true })
	if err := f.Send(t.Context(), s.ID, lifecycle.RemoveRequested{By: "test", Force: true}); err != nil {
		t.Fatal(err)
	}
	err := e.Tasks.Watch(t.Context(), s.ID, func(lifecycle.State) bool { return true })
	var gone *record.NotFoundError
	if err != nil && !errors.As(err, &gone) {
		t.Errorf("watch of a task that is removed: %v", err)
	}
	host.AwaitRemoval(e, s.ID)
}

func TestFleetRemovesATaskThatHasStopped(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	e := host.Open()
	s := host.CreateServer(e)
	f, _ := host.RunFleet(host.Open())
	host.Await(e, s.ID, enginehost.IsRunning)
	if err := f.Send(t.Context(), s.ID, lifecycle.StopRequested{By: "test"}); err != nil {
		t.Fatal(err)
	}
	host.Await(e, s.ID, func(s lifecycle.State) bool { return s.Settled() })
	if err := f.Send(t.Context(), s.ID, lifecycle.RemoveRequested{By: "test"}); err != nil {
		t.Fatal(err)
	}
	host.AwaitRemoval(e, s.ID)
	if left := host.Podman.Left(""); len(left) != 0 {
		t.Errorf("left in Podman: %v", left)
	}
	if err := f.Send(t.Context(), s.ID, lifecycle.StopRequested{}); !errors.As(err, new(*record.NotFoundError)) {
		t.Errorf("Send to a task that is gone: %v", err)
	}
	locks, err := filepath.Glob(filepath.Join(host.StateDir(), "locks", s.ID))
	if err != nil || len(locks) > 0 {
		t.Errorf("left: %v, %v", locks, err)
	}
}
