package imagestore

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/podtask/podtask/internal/host/libpod"
)

// ProgressHub passes the progress of pulls on to watchers. The zero value is ready to use.
type ProgressHub struct {
	mu       sync.Mutex
	current  map[string]Progress // the latest step of each, by image
	watchers map[*pullWatcher]bool
}

// progressReporter reports the progress of one image. A pull that was reported as begun is
// also reported as ended, whether or not it succeeded.
type progressReporter struct {
	hub   *ProgressHub
	also  func(Progress) // gets each step too; may be nil
	image string
	begun bool
}

// step reports a step.
func (r *progressReporter) step(phase Phase, step libpod.Progress) {
	r.begun = true
	p := Progress{Image: r.image, Phase: phase, Step: step}
	r.hub.post(p)
	if r.also != nil {
		r.also(p)
	}
}

// end reports the end of the pull, with its error.
func (r *progressReporter) end(err error) {
	switch {
	case !r.begun: // the image was in local storage
	case err != nil:
		r.step(Failed, libpod.Progress{})
	default:
		r.step(Done, libpod.Progress{})
	}
}

// pullWatcher holds the steps that a call of Watch has not read yet. The hub guards its queue.
type pullWatcher struct {
	queue []Progress
	wake  chan struct{} // holds one
}

// maxPullQueue is the number of unread steps from which a watcher misses steps, except the
// beginning and the end of a pull or a layer.
const maxPullQueue = 256

// post passes a step on to all watchers.
func (h *ProgressHub) post(p Progress) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.current == nil {
		h.current = map[string]Progress{}
	}
	if p.Phase == Done || p.Phase == Failed {
		delete(h.current, p.Image)
	} else {
		h.current[p.Image] = p
	}
	for w := range h.watchers {
		if len(w.queue) >= maxPullQueue && p.Phase == Pulling && p.Step.Layer != "" && !p.Step.Done {
			continue
		}
		w.queue = append(w.queue, p)
		select {
		case w.wake <- struct{}{}:
		default: // already awake
		}
	}
}

// join adds a watcher, whose first steps are those of the pulls in progress.
func (h *ProgressHub) join() *pullWatcher {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := &pullWatcher{queue: slices.Collect(maps.Values(h.current)), wake: make(chan struct{}, 1)}
	if h.watchers == nil {
		h.watchers = map[*pullWatcher]bool{}
	}
	h.watchers[w] = true
	return w
}

// leave removes a watcher.
func (h *ProgressHub) leave(w *pullWatcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.watchers, w)
}

// take returns the unread steps of a watcher.
func (h *ProgressHub) take(w *pullWatcher) []Progress {
	h.mu.Lock()
	defer h.mu.Unlock()
	queue := w.queue
	w.queue = nil
	return queue
}

// Watch calls fn with the latest step of each pull in progress in this process. With follow,
// it then calls fn with each later step, until fn returns an error, which Watch returns, or
// ctx ends. If fn is slow, it misses steps.
func (h *ProgressHub) Watch(ctx context.Context, follow bool, fn func(Progress) error) error {
	w := h.join()
	defer h.leave(w)
	for {
		for _, p := range h.take(w) {
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
