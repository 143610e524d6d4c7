package stacks

import (
	"context"
	"log/slog"
	"time"

	"github.com/podtask/podtask/internal/engine/decide/stack"
)

const (
	// sweepEvery is the time between two looks at previews.
	sweepEvery = 20 * time.Second
	// graceLooks is the number of looks, for ten minutes, that a preview stays which is over at the start, or after the clock
	// was set: the clock may be wrong until it is set again, and volumes do not come back.
	graceLooks = 30
	// leastJump is the time between two looks from which the clock counts as set, or the host as suspended.
	leastJump = 3 * sweepEvery
)

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
	last, grace := w.Now().Round(0), map[string]int{}
	all, _ := w.Store.All() // what cannot be read is told by `podtask stack ls`
	for _, s := range all {
		if s.Preview != nil && !last.Before(s.Preview.Until) {
			grace[s.Name] = graceLooks
		}
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.Tick(sweepEvery):
		}
		now := w.Now().Round(0)
		set := now.Sub(last).Abs() > leastJump
		last = now
		all, _ := w.Store.All()
		for _, s := range all {
			switch {
			case s.Preview == nil:
				continue
			case w.Now().Before(s.Preview.Until):
				delete(grace, s.Name)
				continue
			case set && grace[s.Name] == 0:
				grace[s.Name] = graceLooks
			}
			if grace[s.Name] > 1 {
				grace[s.Name]--
				continue
			}
			grace[s.Name] = 1 // a removal may take as long as a jump
			if err := w.Remove(ctx, s.Name); err != nil {
				w.Log.Warn("a preview is not removed", "stack", s.Name, "error", err)
				continue
			}
			delete(grace, s.Name)
			w.Log.Info("a preview has ended", "stack", s.Name, "of", s.Preview.Of)
		}
	}
}
