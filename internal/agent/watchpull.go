package agent

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// ProgressHub is which pulls are under way, and who watches them. The zero board is ready.
type ProgressHub struct {
	mu       sync.Mutex
	current  map[string]PullProgress // the latest step of each, by image
	watchers map[*pullWatcher]bool
}

// pullWatcher gets steps at its own pace. Its queue is guarded by the board.
type pullWatcher struct {
	queue []PullProgress
	wake  chan struct{} // holds one
}

// maxPullQueue is how many steps a watcher may be behind before some of them are left
// out; never the begin or the end of a pull or of a layer.
const maxPullQueue = 256

func (b *ProgressHub) post(p PullProgress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.current == nil {
		b.current = map[string]PullProgress{}
	}
	if p.Phase == PullDone || p.Phase == PullFailed {
		delete(b.current, p.Image)
	} else {
		b.current[p.Image] = p
	}
	for w := range b.watchers {
		if len(w.queue) >= maxPullQueue && p.Phase == Pulling && p.Step.Layer != "" && !p.Step.Done {
			continue
		}
		w.queue = append(w.queue, p)
		select {
		case w.wake <- struct{}{}:
		default: // it has not taken what came before
		}
	}
}

// join adds a watcher that begins with what is under way.
func (b *ProgressHub) join() *pullWatcher {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := &pullWatcher{queue: slices.Collect(maps.Values(b.current)), wake: make(chan struct{}, 1)}
	if b.watchers == nil {
		b.watchers = map[*pullWatcher]bool{}
	}
	b.watchers[w] = true
	return w
}

func (b *ProgressHub) leave(w *pullWatcher) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.watchers, w)
}

func (b *ProgressHub) take(w *pullWatcher) []PullProgress {
	b.mu.Lock()
	defer b.mu.Unlock()
	queue := w.queue
	w.queue = nil
	return queue
}

// Watch calls fn with the latest step of each pull of this process that is under way
// and, with follow, with each later one, until fn returns an error, which is returned, or
// ctx ends. Who is slow misses bytes in between.
func (b *ProgressHub) Watch(ctx context.Context, follow bool, fn func(PullProgress) error) error {
	w := b.join()
	defer b.leave(w)
	for {
		for _, p := range b.take(w) {
			if err := fn(p); err != nil {
				return err
			}
		}
		if !follow {
			return nil
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
