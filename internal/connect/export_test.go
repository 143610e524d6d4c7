package connect

import (
	"context"

	"github.com/podtask/podtask/internal/engine/run/owner"
)

// Handover is handover for the tests.
type Handover struct{ h *handover }

// BeginHandover starts the owner of a task.
func (s *Launcher) BeginHandover(ctx context.Context, id string) Handover {
	return Handover{s.beginHandover(ctx, id)}
}

// Give hands the task over.
func (h Handover) Give(ctx context.Context, o *owner.Owner) error { return h.h.give(ctx, o) }

// Close ends the handover.
func (h Handover) Close() { h.h.close() }
