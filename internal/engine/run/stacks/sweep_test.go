package stacks

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/engine/decide/stack"
)

type fixed []stack.State

func (f fixed) All() ([]stack.State, error) { return f, errors.New("another record is damaged") }

// A preview is removed at its end and not before, and again if that failed; other stacks stay.
func TestPreviewsEndByTheClock(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	store := fixed{{Name: "shop"}, {Name: "shop-pr-1", Preview: &stack.Preview{Of: "shop", Name: "pr-1", Until: now.Add(5 * sweepEvery / 4)}}, {Name: "shop-pr-2", Preview: &stack.Preview{Until: now.Add(time.Hour)}}}
	var removed []string
	ctx, cancel := context.WithCancel(t.Context())
	ticks := 0
	w := Sweeper{Store: store, Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler)}
	w.Remove = func(_ context.Context, name string) error {
		removed = append(removed, name)
		if len(removed) == 1 {
			return errors.New("Podman does not answer")
		}
		return nil
	}
	w.Tick = func(d time.Duration) <-chan time.Time {
		if ticks++; ticks == 1 && len(removed) > 0 {
			t.Error("it looks before the first tick")
		}
		if ticks == 3 && len(removed) > 0 {
			t.Errorf("removed before their end: %v", removed)
		}
		if ticks > 4 {
			cancel()
			return nil
		}
		now = now.Add(d / 2)
		c := make(chan time.Time, 1)
		c <- now
		return c
	}
	w.Run(ctx)
	if !slices.Equal(removed, []string{"shop-pr-1", "shop-pr-1"}) {
		t.Errorf("removed: %v after %s", removed, now)
	}
}
