package imagestore

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/podtask/podtask/internal/host/libpod"
)

// ProgressHub knows the pulls in progress and their watchers. The zero value is ready.
type ProgressHub struct {
	mu       sync.Mutex
	current  map[string]Progress // the latest step of each, by image
	watchers map[*pullWatcher]bool
}

// progressReporter reports the progress of one image. It reports an end for each begin,
// whether or not the pull succeeded.
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

// pullWatcher gets steps at its own pace. Its queue is guarded by the hub.
type pullWatcher struct {
	queue []Progress
	wake  chan struct{} // holds one
}

// maxPullQueue is how many steps a watcher may be behind before some are skipped, except
// the begin and the end of a pull or a layer.
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
		default: // it has not read the previous step
		}
	}
}

// join adds a watcher that begins with the pulls in progress.
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

// Watch calls fn with the latest step of each pull in progress in this process and, with
// follow, with each later one, until fn returns an error, which is returned, or
// ctx ends. A slow watcher misses steps in between.
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
