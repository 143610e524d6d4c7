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

// fixed is a store. Follow calls later when it is followed, and fn after it.
type fixed struct {
	all   []stack.State
	later func()
}

func (f *fixed) All() ([]stack.State, error) {
	return slices.Clone(f.all), errors.New("another record is damaged")
}

func (f *fixed) Follow(ctx context.Context, fn func(bool)) error {
	if f.later != nil {
		f.later()
		fn(true)
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

func (f *fixed) remove(name string) {
	f.all = slices.DeleteFunc(f.all, func(s stack.State) bool { return s.Name == name })
}

func preview(name string, until time.Time) stack.State {
	return stack.State{Name: name, Preview: &stack.Preview{Of: "shop", Name: name, Until: until}}
}

// A preview is removed at its end and not before, and again if that failed; other stacks stay.
func TestPreviewsEndByTheClock(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_800_000_000, 0)
	store := &fixed{all: []stack.State{{Name: "shop"}, preview("pr-1", start.Add(25*time.Second)), preview("pr-2", start.Add(time.Minute))}}
	var passed time.Duration
	var waits []time.Duration
	var removed []string
	ctx, cancel := context.WithCancel(t.Context())
	w := Sweeper{Store: store, Now: func() time.Time { return start.Add(passed) }, Passed: func() time.Duration { return passed }, Log: slog.New(slog.DiscardHandler)}
	w.Remove = func(_ context.Context, name string) error {
		removed = append(removed, name)
		if len(removed) == 1 {
			return errors.New("Podman does not answer")
		}
		if store.remove(name); name == "pr-2" {
			cancel()
		}
		return nil
	}
	w.After = func(d time.Duration) <-chan time.Time {
		waits = append(waits, d)
		passed += d
		c := make(chan time.Time, 1)
		c <- start
		return c
	}
	if err := w.Run(ctx); err != nil {
		t.Error(err)
	}
	if !slices.Equal(removed, []string{"pr-1", "pr-1", "pr-2"}) {
		t.Errorf("removed: %v", removed)
	}
	if want := []time.Duration{25 * time.Second, tryAgain, 15 * time.Second}; !slices.Equal(waits, want) {
		t.Errorf("it waited %v, not %v", waits, want)
	}
}

// Without a preview no timer is set; one that is made later gets the time until its end.
func TestNoTimerWithoutPreviews(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_800_000_000, 0)
	store := &fixed{all: []stack.State{{Name: "shop"}}}
	ctx, cancel := context.WithCancel(t.Context())
	w := Sweeper{Store: store, Now: func() time.Time { return start }, Passed: func() time.Duration { return 0 }, Log: slog.New(slog.DiscardHandler)}
	var waits []time.Duration
	w.After = func(d time.Duration) <-chan time.Time {
		waits = append(waits, d)
		cancel()
		return nil
	}
	looked := make(chan struct{})
	w.Store = lookedAt{store, looked}
	store.later = func() {
		<-looked // the first look found none
		store.all = append(store.all, preview("pr-1", start.Add(time.Minute)))
	}
	if err := w.Run(ctx); err != nil {
		t.Error(err)
	}
	if !slices.Equal(waits, []time.Duration{time.Minute}) {
		t.Errorf("it waited %v", waits)
	}
}

// lookedAt is a store that sends when All has been called for the first time.
type lookedAt struct {
	*fixed
	looked chan struct{}
}

func (l lookedAt) All() ([]stack.State, error) {
	all, err := l.fixed.All()
	select {
	case <-l.looked:
	default:
		close(l.looked)
	}
	return all, err
}

// A clock that is wrong for some minutes, at the start of the host or later, removes no preview; one that is over then goes later.
func TestAClockThatIsWrongRemovesNoPreview(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_800_000_000, 0)
	const years, day = 20 * 365 * 24 * time.Hour, 24 * time.Hour
	type offsets map[time.Duration]time.Duration // of the clock, from a time after the start
	for name, tt := range map[string]struct {
		clock offsets
		until time.Duration
		want  int
	}{
		"right":                     {offsets{0: 0}, 12 * time.Hour, 0},
		"its end comes":             {offsets{0: 0}, 25 * time.Hour, 1},
		"wrong at the start":        {offsets{0: years, 9 * time.Minute: 0}, 12 * time.Hour, 0},
		"wrong later":               {offsets{0: 0, time.Hour - time.Minute: years, time.Hour + time.Minute: 0}, 12 * time.Hour, 0},
		"it was off for two days":   {offsets{0: 2 * day}, 11 * time.Minute, 1},
		"suspended for two days":    {offsets{0: 0, time.Minute: 2 * day}, 2 * time.Hour, 1},
		"behind at the start":       {offsets{0: -years, time.Minute: 0}, 26 * time.Hour, 1},
		"wrong, and over by itself": {offsets{0: years, time.Minute: 0}, 25 * time.Hour, 1},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		var passed time.Duration
		removed := 0
		store := &fixed{all: []stack.State{preview("pr-1", start.Add(day))}}
		w := Sweeper{Store: store, Passed: func() time.Duration { return passed }, Log: slog.New(slog.DiscardHandler)}
		w.Now = func() time.Time {
			var latest, by time.Duration
			for from, offset := range tt.clock {
				if from <= passed && from >= latest {
					latest, by = from, offset
				}
			}
			return start.Add(passed + by)
		}
		w.Remove = func(_ context.Context, name string) error {
			store.remove(name)
			removed++
			cancel()
			return nil
		}
		w.After = func(d time.Duration) <-chan time.Time {
			if passed += d; passed > tt.until {
				cancel()
				return nil
			}
			c := make(chan time.Time, 1)
			c <- start
			return c
		}
		if err := w.Run(ctx); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
		if removed != tt.want {
			t.Errorf("%s: %d were removed", name, removed)
		}
	}
}
