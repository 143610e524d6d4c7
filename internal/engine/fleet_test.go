package engine_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/engine"

	"github.com/podtask/podtask/internal/engine/conn"
	"github.com/podtask/podtask/internal/engine/fleet"
	"github.com/podtask/podtask/internal/engine/limits"
	"github.com/podtask/podtask/internal/engine/record"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/internal/testing/enginetest"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

const fleetImage = "registry.example/testbox:1"

// bed is one user's Podman and state directory, for several processes.
type bed struct {
	t      testing.TB
	dir    string
	podman *enginetest.Fake
}

func newBed(t testing.TB) *bed {
	b := &bed{t: t, dir: t.TempDir(), podman: enginetest.New(enginetest.Wall{})}
	b.podman.Push(fleetImage, enginetest.Image{})
	return b
}

// host is podtask as one process has it.
func (b *bed) host() *engine.Engine {
	b.t.Helper()
	return b.hostOn(state.OS{})
}

// hostOn is host with records that are written to fsys.
func (b *bed) hostOn(fsys state.FS) *engine.Engine {
	b.t.Helper()
	h, err := engine.Open(engine.Config{
		FS: fsys, StateDir: b.dir, RuntimeDir: filepath.Join(b.dir, "run"), Getenv: func(string) string { return "" },
		Dial:     func(context.Context) (conn.Podman, error) { return b.podman, nil },
		Registry: b.podman.Registry(),
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { h.Close() })
	return h
}

// create records a task that runs until it is stopped.
func (b *bed) create(h *engine.Engine) lifecycle.State {
	b.t.Helper()
	def := taskdef.Task{Family: "web", Network: taskdef.NetworkBridge, Containers: []taskdef.Container{
		{Name: "app", Image: fleetImage, Essential: true, StopTimeout: time.Second, Command: []string{"serve"}},
	}}
	s, err := h.Creator.Create(b.t.Context(), def, "", lifecycle.Options{Limits: limits.Off})
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// fleet runs a fleet until the test or end ends it.
func (b *bed) fleet(h *engine.Engine) (f *fleet.Fleet, end func()) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	f = engine.NewFleet(ctx, h)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := f.Run(); err != nil {
			b.t.Errorf("the fleet: %v", err)
		}
	})
	end = func() { cancel(); wg.Wait() }
	b.t.Cleanup(end)
	return f, end
}

// until waits until the record of a task fits.
func (b *bed) until(h *engine.Engine, id string, fits func(lifecycle.State) bool) lifecycle.State {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	var last lifecycle.State
	if err := h.Tasks.Watch(ctx, id, func(s lifecycle.State) bool { last = s; return !fits(s) }); err != nil {
		b.t.Fatalf("wait for task %s, now %s: %v", id[:12], last.Status(), err)
	}
	if !fits(last) {
		b.t.Fatalf("task %s ended as %s: %+v", id[:12], last.Status(), last.Stop)
	}
	return last
}

// A new task is handed over with its lock: another process that tries all the time never becomes
// its owner, whether the fleet sees the record before or after it is handed over.
func TestNewTasksAreHandedOverWithTheirLock(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	h, other := b.host(), b.host()
	f, _ := b.fleet(h)
	def := taskdef.Task{Family: "web", Network: taskdef.NetworkBridge, Containers: []taskdef.Container{
		{Name: "app", Image: fleetImage, Essential: true, StopTimeout: time.Second, Command: []string{"serve"}},
	}}
	for range 20 {
		o, err := h.Creator.CreateOwned(t.Context(), def, "", lifecycle.Options{Limits: limits.Off})
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
		b.until(h, o.ID(), running)
		cancel()
		rival.Wait()
	}
}

// A fleet that ends does not keep the lock of a task that it is handed.
func TestTaskOfAFleetThatEndsIsReleased(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	h := b.host()
	f, end := b.fleet(h)
	end()
	s := b.create(h)
	o, err := h.Owners.Own(s.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Take(t.Context(), o); !errors.Is(err, fleet.ErrEnding) {
		t.Errorf("%v, want ErrEnding", err)
	}
	again, err := h.Owners.Own(s.ID)
	if err != nil {
		t.Fatalf("the task is still locked: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

func running(s lifecycle.State) bool { return s.Status() == lifecycle.StatusRunning }
func hasStopped(s lifecycle.State) bool {
	return s.Status() == lifecycle.StatusStopped
}

// started counts how often containers were started.
func (b *bed) started() (n int) {
	for _, f := range b.podman.Facts(0) {
		if f.What == enginetest.Started {
			n++
		}
	}
	return n
}

func TestFleetTakesTasksOldAndNew(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	h := b.host()
	old := b.create(h)
	f, end := b.fleet(b.host())
	b.until(h, old.ID, running)
	young := b.create(h)
	b.until(h, young.ID, running)
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
		b.until(h, s.ID, hasStopped)
	}
	end()
	if n := len(f.Owners()); n != 0 {
		t.Errorf("%d owners after the end", n)
	}
}

func TestFleetLeavesALivingOwnerAloneAndTakesItsTaskWhenItDies(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	other := b.host()
	s := b.create(other)
	o, err := other.Owners.Own(s.ID)
	if err != nil {
		t.Fatal(err)
	}
	life, die := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = o.Run(life) })
	b.until(other, s.ID, running)

	f, _ := b.fleet(b.host())
	if err := f.Send(t.Context(), s.ID, lifecycle.StopRequested{}); !errors.Is(err, state.ErrLocked) {
		t.Errorf("Send to a task that is owned: %v", err)
	}
	soon, cancelSoon := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancelSoon()
	if err := f.Adopt(soon, s.ID); !errors.Is(err, state.ErrLocked) {
		t.Errorf("Adopt of a task that is owned: %v", err)
	}
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
	if n := b.started(); n != 1 {
		t.Errorf("%d starts, want 1", n)
	}
	if err := f.Send(t.Context(), s.ID, lifecycle.StopRequested{By: "test"}); err != nil {
		t.Error(err)
	}
	b.until(other, s.ID, hasStopped)
}

// Two agents and two owners all want one task; the one that has it ends, again and
// again. The container must not notice.
func TestManyArgueOverOneTask(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	h := b.host()
	s := b.create(h)
	for range 5 {
		f, endFirst := b.fleet(b.host())
		if err := f.Adopt(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
		b.until(h, s.ID, running)
		g, endSecond := b.fleet(b.host())
		if err := g.Send(t.Context(), s.ID, lifecycle.TimerFired{}); !errors.Is(err, state.ErrLocked) {
			t.Fatalf("a second fleet: %v", err)
		}
		if _, err := h.Owners.Own(s.ID); !errors.Is(err, state.ErrLocked) {
			t.Fatalf("a third owner: %v", err)
		}
		endFirst()
		if err := g.Adopt(t.Context(), s.ID); err != nil || g.Owner(s.ID) == nil {
			t.Fatalf("the second fleet did not take the task: %v", err)
		}
		endSecond()
	}
	if n := b.started(); n != 1 {
		t.Errorf("%d starts, want 1", n)
	}
	f, _ := b.fleet(b.host())
	f.StopAll(t.Context(), "test")
	b.until(h, s.ID, func(lifecycle.State) bool { return true })
	if err := f.Send(t.Context(), s.ID, lifecycle.RemoveRequested{By: "test", Force: true}); err != nil {
		t.Fatal(err)
	}
	err := h.Tasks.Watch(t.Context(), s.ID, func(lifecycle.State) bool { return true })
	var gone *record.NotFoundError
	if err != nil && !errors.As(err, &gone) {
		t.Errorf("watch of a task that is removed: %v", err)
	}
	b.untilGone(h, s.ID)
}

func (b *bed) untilGone(h *engine.Engine, id string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	for {
		err := h.Tasks.Watch(ctx, id, func(lifecycle.State) bool { return true })
		if gone := (*record.NotFoundError)(nil); errors.As(err, &gone) {
			return
		}
		if ctx.Err() != nil {
			b.t.Fatalf("task %s is still there: %v", id[:12], err)
		}
	}
}

func TestFleetRemovesATaskThatHasStopped(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	h := b.host()
	s := b.create(h)
	f, _ := b.fleet(b.host())
	b.until(h, s.ID, running)
	if err := f.Send(t.Context(), s.ID, lifecycle.StopRequested{By: "test"}); err != nil {
		t.Fatal(err)
	}
	b.until(h, s.ID, func(s lifecycle.State) bool { return s.Settled() })
	if err := f.Send(t.Context(), s.ID, lifecycle.RemoveRequested{By: "test"}); err != nil {
		t.Fatal(err)
	}
	b.untilGone(h, s.ID)
	if left := b.podman.Left(""); len(left) != 0 {
		t.Errorf("left in Podman: %v", left)
	}
	if err := f.Send(t.Context(), s.ID, lifecycle.StopRequested{}); !errors.As(err, new(*record.NotFoundError)) {
		t.Errorf("Send to a task that is gone: %v", err)
	}
	locks, err := filepath.Glob(filepath.Join(b.dir, "locks", s.ID))
	if err != nil || len(locks) > 0 {
		t.Errorf("left: %v, %v", locks, err)
	}
}
