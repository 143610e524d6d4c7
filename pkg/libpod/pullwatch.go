package libpod

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// silence is why a pull in which nothing moves is ended.
type silence struct {
	midLayer bool
	lasted   time.Duration
}

func (s silence) Error() string {
	if s.midLayer {
		return fmt.Sprintf("no bytes came for %v in the middle of a layer", s.lasted)
	}
	return fmt.Sprintf("nothing came for %v; is the registry reachable from here?", s.lasted)
}

// watch ends a pull that is silent for too long.
type watch struct {
	cancel          context.CancelCauseFunc
	firstByte, idle time.Duration
	heardOf         atomic.Int64 // messages
	follower        sync.WaitGroup

	mu    sync.Mutex
	timer *time.Timer
	limit silence // what the timer stands for
}

// newWatch returns a context that ends with a silence when the watch loses patience.
func newWatch(ctx context.Context, firstByte, idle time.Duration) (context.Context, *watch) {
	watched, cancel := context.WithCancelCause(ctx)
	w := &watch{cancel: cancel, firstByte: firstByte, idle: idle, limit: silence{lasted: firstByte}}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(cmp.Or(firstByte, time.Duration(math.MaxInt64)), w.end)
	return watched, w
}

func (w *watch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cancel(w.limit)
}

// heard says that something came, and whether a layer is on its way. Words come when a
// layer begins and ends, however large it is: after them it is up to follow.
func (w *watch) heard(busy, bytes bool) {
	w.heardOf.Add(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
	w.limit = silence{busy, w.firstByte}
	if busy {
		w.limit.lasted = w.idle
	}
	if bytes && w.limit.lasted > 0 {
		w.timer.Reset(w.limit.lasted)
	}
}

// follow judges a pull by what it has open, from its first words on. What cannot be
// looked at is not judged.
func (w *watch) follow(ctx context.Context, look func() layerView) {
	shortest := min(cmp.Or(w.idle, math.MaxInt64), cmp.Or(w.firstByte, math.MaxInt64))
	if shortest == math.MaxInt64 {
		return
	}
	w.follower.Go(func() {
		tick := time.NewTicker(min(max(shortest/4, 10*time.Millisecond), 5*time.Second))
		defer tick.Stop()
		var last layerView
		var words int64
		moved := time.Now()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			heard, view := w.heardOf.Load(), look()
			if heard == 0 || heard != words || view != last || !view.visible {
				words, last, moved = heard, view, time.Now()
				continue
			}
			limit := silence{view.writing, w.firstByte}
			if view.writing {
				limit.lasted = w.idle
			}
			if limit.lasted > 0 && time.Since(moved) >= limit.lasted {
				w.cancel(limit)
				return
			}
		}
	})
}

func (w *watch) stop() {
	w.mu.Lock()
	w.timer.Stop()
	w.mu.Unlock()
	w.cancel(context.Canceled)
	w.follower.Wait()
}
