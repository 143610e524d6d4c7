package imagestore

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/podtask/podtask/pkg/libpod"
)

// ProgressHub is which pulls are under way, and who watches them. The zero board is ready.
type ProgressHub struct {
	mu       sync.Mutex
	current  map[string]Progress // the latest step of each, by image
	watchers map[*pullWatcher]bool
}

// progressReporter reports the progress of one image. What was begun is ended, whether or
// not it succeeded.
type progressReporter struct {
	hub     *ProgressHub
	further func(Progress) // nil: none
	image   string
	begun   bool
}

func (t *progressReporter) step(phase Phase, step libpod.Progress) {
	t.begun = true
	p := Progress{Image: t.image, Phase: phase, Step: step}
	t.hub.post(p)
	if t.further != nil {
		t.further(p)
	}
}

func (t *progressReporter) end(err error) {
	switch {
	case !t.begun: // it was in the local store, so there was no wait
	case err != nil:
		t.step(Failed, libpod.Progress{})
	default:
		t.step(Done, libpod.Progress{})
	}
}

// pullWatcher gets steps at its own pace. Its queue is guarded by the board.
type pullWatcher struct {
	queue []Progress
	wake  chan struct{} // holds one
}

// maxPullQueue is how many steps a watcher may be behind before some of them are left
// out; never the begin or the end of a pull or of a layer.
const maxPullQueue = 256

func (b *ProgressHub) post(p Progress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.current == nil {
		b.current = map[string]Progress{}
	}
	if p.Phase == Done || p.Phase == Failed {
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

func (b *ProgressHub) take(w *pullWatcher) []Progress {
	b.mu.Lock()
	defer b.mu.Unlock()
	queue := w.queue
	w.queue = nil
	return queue
}

// Watch calls fn with the latest step of each pull of this process that is under way
// and, with follow, with each later one, until fn returns an error, which is returned, or
// ctx ends. Who is slow misses bytes in between.
func (b *ProgressHub) Watch(ctx context.Context, follow bool, fn func(Progress) error) error {
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
