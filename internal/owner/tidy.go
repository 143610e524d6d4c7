package owner

import (
	"context"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/leftover"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// leftoverLimit bounds one removal of leftovers.
const leftoverLimit = 20 * time.Second

// tidy says whether a call to Podman was cut off since leftovers were last removed. They
// are removed before the next start, because they may hold its host ports.
type tidy struct {
	mu  sync.Mutex
	due bool
}

// noteCutOff notes an operation that failed for a reason that passes, such as the end of
// Podman's service.
func (r *run) noteCutOff(e lifecycle.Effect, f lifecycle.Failure, w leftover.Window) {
	if f.Class != lifecycle.Temporary {
		return
	}
	switch e.(type) {
	case lifecycle.CreateSandbox, lifecycle.RunSandbox, lifecycle.CreateContainer, lifecycle.StartContainer, lifecycle.RemoveSandbox:
		r.all.Leftover.Note(r.owner.id, w)
		r.tidy.mu.Lock()
		defer r.tidy.mu.Unlock()
		r.tidy.due = true
	}
}

// tidyBefore removes leftovers before an operation that they could hinder.
func (r *run) tidyBefore(ctx context.Context, s lifecycle.State, e lifecycle.Effect) {
	switch e.(type) {
	case lifecycle.RunSandbox, lifecycle.StartContainer:
	default:
		return
	}
	r.tidy.mu.Lock()
	defer r.tidy.mu.Unlock()
	if r.tidy.due {
		r.tidy.due = false
		r.removeLeftovers(ctx, s, false)
	}
}

// removeLeftovers removes what calls that were cut off have left. What is still there is
// left to the next sweep.
func (r *run) removeLeftovers(ctx context.Context, s lifecycle.State, forget bool) {
	ctx, cancel := context.WithTimeout(ctx, leftoverLimit)
	defer cancel()
	removed, err := r.all.Leftover.Remove(ctx, s.ID, forget)
	for _, what := range removed {
		r.all.Log.Info("removed what an interrupted call of Podman left behind", "task", s.ID, "what", what)
	}
	if err != nil && ctx.Err() == nil {
		r.all.Log.Warn("what an interrupted call of Podman left behind is not all removed", "task", s.ID, "error", err)
	}
}
