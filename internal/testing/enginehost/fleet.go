package enginehost

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/engine"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/run/fleet"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// RunFleet runs a fleet until the test ends or end is called.
func (h *Host) RunFleet(e *Engine) (f *fleet.Fleet, end func()) {
	h.t.Helper()
	ctx, cancel := context.WithCancel(h.t.Context())
	f = engine.NewFleet(ctx, e)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := f.Run(); err != nil {
			h.t.Errorf("the fleet: %v", err)
		}
	})
	end = func() { cancel(); wg.Wait() }
	h.t.Cleanup(end)
	return f, end
}

// Await waits until the record of a task fits, and returns its state.
func (h *Host) Await(e *Engine, id string, fits func(lifecycle.State) bool) lifecycle.State {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), time.Minute)
	defer cancel()
	var last lifecycle.State
	if err := e.Tasks.Watch(ctx, id, func(s lifecycle.State) bool { last = s; return !fits(s) }); err != nil {
		h.t.Fatalf("wait for task %s, now %s: %v", id[:12], last.Status(), err)
	}
	if !fits(last) {
		h.t.Fatalf("task %s ended as %s: %+v", id[:12], last.Status(), last.Stop)
	}
	return last
}

// AwaitRemoval waits until a task has no record.
func (h *Host) AwaitRemoval(e *Engine, id string) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), time.Minute)
	defer cancel()
	for {
		err := e.Tasks.Watch(ctx, id, func(lifecycle.State) bool { return true })
		if errors.As(err, new(*record.NotFoundError)) {
			return
		}
		if ctx.Err() != nil {
			h.t.Fatalf("task %s is still there: %v", id[:12], err)
		}
	}
}
