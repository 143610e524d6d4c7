package stacks

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/podtask/podtask/internal/engine/decide/stack"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/images/imageage"
)

const (
	// grace is the time after the start of the agent in which no preview ends that was counted before a restart of the host: the clock
	// may be wrong until it is set, and volumes do not come back.
	grace = 10 * time.Minute
	// longestWait is the longest time between two looks while there are previews, and how much of the time that has passed a restart of
	// the host can lose. No timer counts the time in which the host is suspended.
	longestWait = time.Hour
	// tryAgain is the time after which a removal that failed is tried again.
	tryAgain = 20 * time.Second
)

// Sweeper removes previews at their end. It follows the records of stacks, and sleeps while there is no preview.
type Sweeper struct {
	Store interface {
		All() ([]stack.State, error)
		Follow(ctx context.Context, fn func(some bool)) error
		Recount(name string, now imageage.Moment) error
	}
	// Remove removes a stack with its volumes.
	Remove func(ctx context.Context, name string) error
	// Now reads the clocks.
	Now func() imageage.Moment
	// After returns the channel that is read when the time has passed.
	After func(time.Duration) <-chan time.Time
	Log   *slog.Logger
}

// sweep names what a Sweeper knows from one look to the next.
type sweep struct {
	Sweeper
	// began is the start, by the time since that of the host, as notBefore is.
	began time.Duration
	// notBefore has for a preview that could not be removed the time of the next attempt.
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
		s := sweep{Sweeper: w, began: w.Now().Up, notBefore: map[string]time.Duration{}}
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
	now := s.Now()
	all, _ := s.Store.All() // what cannot be read is told by `podtask stack ls`
	for _, one := range all {
		if one.Preview == nil {
			continue
		}
		restarted := one.Preview.At.Boot != now.Boot
		if wait := s.began + grace - now.Up; restarted && wait > 0 {
			sooner(wait)
			continue
		}
		if left := one.Preview.Left(now); left > 0 {
			sooner(left)
			if restarted || now.Up-one.Preview.At.Up >= longestWait {
				if err := s.Store.Recount(one.Name, now); err != nil && !errors.Is(err, state.ErrLocked) {
					s.Log.Warn("the end of a preview is not written down", "stack", one.Name, "error", err)
				}
			}
			continue
		}
		if wait := s.notBefore[one.Name] - now.Up; wait > 0 {
			sooner(wait)
			continue
		}
		if err := s.Remove(ctx, one.Name); err != nil {
			s.Log.Warn("a preview is not removed", "stack", one.Name, "error", err)
			s.notBefore[one.Name] = s.Now().Up + tryAgain
			sooner(tryAgain)
			continue
		}
		delete(s.notBefore, one.Name)
		s.Log.Info("a preview has ended", "stack", one.Name, "of", one.Preview.Of)
	}
	return next
}
