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

// A clock that is wrong for some minutes, at the start of the host or later, removes no preview; one that is over then goes later.
func TestAClockThatIsWrongRemovesNoPreview(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_800_000_000, 0)
	future := start.Add(20 * 365 * 24 * time.Hour)
	for name, tt := range map[string]struct {
		clock []time.Time // at each tenth look; sweepEvery passes between two
		want  int
	}{
		"wrong at the start":        {[]time.Time{future, future.Add(10 * sweepEvery), start}, 0},
		"wrong later":               {[]time.Time{start, future, start}, 0},
		"it was off for two days":   {[]time.Time{start.Add(48 * time.Hour), start.Add(48*time.Hour + 10*sweepEvery), start.Add(48*time.Hour + 20*sweepEvery), start.Add(48*time.Hour + 30*sweepEvery)}, 1},
		"its end comes meanwhile":   {[]time.Time{start.Add(24*time.Hour - 5*sweepEvery)}, 1},
		"wrong, and over by itself": {[]time.Time{future, start.Add(24*time.Hour - 5*sweepEvery)}, 1},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		look, removed := -1, 0
		now := func() time.Time { return tt.clock[max(look, 0)/10].Add(time.Duration(max(look, 0)%10) * sweepEvery) }
		w := Sweeper{Store: fixed{{Name: "shop-pr-1", Preview: &stack.Preview{Until: start.Add(24 * time.Hour)}}}, Now: now, Log: slog.New(slog.DiscardHandler)}
		w.Remove = func(context.Context, string) error {
			removed = 1
			return nil
		}
		w.Tick = func(time.Duration) <-chan time.Time {
			if look++; look == 10*len(tt.clock) {
				look--
				cancel()
				return nil
			}
			c := make(chan time.Time, 1)
			c <- now()
			return c
		}
		w.Run(ctx)
		if removed != tt.want {
			t.Errorf("%s: %d were removed", name, removed)
		}
	}
}
