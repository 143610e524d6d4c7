package stacks

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/podtask/podtask/internal/engine/decide/stack"
)

const (
	// grace is the time that a preview stays which is over at the start, or after the clock was set: the clock may be wrong until
	// it is set again, and volumes do not come back.
	grace = 10 * time.Minute
	// leastJump is the difference between the clock and the time that passed from which the clock counts as set, or the host as suspended.
	leastJump = time.Minute
	// longestWait is the longest time between two looks while there are previews: no timer notices that the clock was set.
	longestWait = time.Hour
	// tryAgain is the time after which a removal that failed is tried again.
	tryAgain = 20 * time.Second
)

// Sweeper removes previews at their end. It follows the records of stacks, and sleeps while there is no preview.
type Sweeper struct {
	Store interface {
		All() ([]stack.State, error)
		Follow(ctx context.Context, fn func(some bool)) error
	}
	// Remove removes a stack with its volumes.
	Remove func(ctx context.Context, name string) error
	// Now is the clock. Passed is the time since the start by the monotonic clock.
	Now    func() time.Time
	Passed func() time.Duration
	// After returns the channel that is read when the time has passed.
	After func(time.Duration) <-chan time.Time
	Log   *slog.Logger
}

// sweep names what a Sweeper knows from one look to the next.
type sweep struct {
	Sweeper
	// began is the start by the clock, as of the latest look; zero before the first one.
	began time.Time
	// notBefore has for a preview that is over the value of Passed from which it goes.
	notBefore map[string]time.Duration
}

// Run removes previews until the context ends, or the records cannot be followed.
func (w Sweeper) Run(parent context.Context) error {
	changed := make(chan struct{}, 1)
	all, ctx := errgroup.WithContext(parent)
	all.Go(func() error {
		return w.Store.Follow(ctx, func(bool) {
			select {
			case changed <- struct{}{}:
			default: // it is to look already
			}
		})
	})
	all.Go(func() error {
		s := sweep{Sweeper: w, notBefore: map[string]time.Duration{}}
		for {
			var timer <-chan time.Time
			if wait := s.look(ctx); wait > 0 {
				timer = w.After(wait)
			}
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-changed:
			case <-timer:
			}
		}
	})
	if err := all.Wait(); parent.Err() == nil {
		return err
	}
	return nil
}

// look removes the previews that are over, and returns the time until the next look; 0 if there is no preview.
func (s *sweep) look(ctx context.Context) (next time.Duration) {
	sooner := func(d time.Duration) {
		if d = min(d, longestWait); next == 0 || d < next {
			next = d
		}
	}
	now := s.Now().Round(0)
	began := now.Add(-s.Passed())
	set := s.began.IsZero() || began.Sub(s.began).Abs() > leastJump
	s.began = began
	all, _ := s.Store.All() // what cannot be read is told by `podtask stack ls`
	for _, one := range all {
		if one.Preview == nil {
			continue
		}
		if left := one.Preview.Until.Sub(now); left > 0 {
			delete(s.notBefore, one.Name)
			sooner(left)
			continue
		}
		at, held := s.notBefore[one.Name]
		if set && !held {
			at = s.Passed() + grace
			s.notBefore[one.Name] = at
		}
		if wait := at - s.Passed(); wait > 0 {
			sooner(wait)
			continue
		}
		if err := s.Remove(ctx, one.Name); err != nil {
			s.Log.Warn("a preview is not removed", "stack", one.Name, "error", err)
			s.notBefore[one.Name] = s.Passed() + tryAgain
			sooner(tryAgain)
			continue
		}
		delete(s.notBefore, one.Name)
		s.Log.Info("a preview has ended", "stack", one.Name, "of", one.Preview.Of)
	}
	return next
}
