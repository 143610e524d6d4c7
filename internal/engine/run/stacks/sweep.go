package stacks

import (
	"context"
	"log/slog"
	"time"

	"github.com/podtask/podtask/internal/engine/decide/stack"
)

// sweepEvery is the time between two looks at previews.
const sweepEvery = 20 * time.Second

// Sweeper removes previews at their end. One that cannot be removed is tried again at the next look.
type Sweeper struct {
	Store interface{ All() ([]stack.State, error) }
	// Remove removes a stack with its volumes.
	Remove func(ctx context.Context, name string) error
	Now    func() time.Time
	// Tick returns the channel that is read before the next look.
	Tick func(time.Duration) <-chan time.Time
	Log  *slog.Logger
}

// Run looks until the context ends.
func (w Sweeper) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.Tick(sweepEvery):
		}
		all, _ := w.Store.All() // what cannot be read is told by `podtask stack ls`
		for _, s := range all {
			if s.Preview == nil || w.Now().Before(s.Preview.Until) {
				continue
			}
			if err := w.Remove(ctx, s.Name); err != nil {
				w.Log.Warn("a preview is not removed", "stack", s.Name, "error", err)
				continue
			}
			w.Log.Info("a preview has ended", "stack", s.Name, "of", s.Preview.Of)
		}
	}
}
