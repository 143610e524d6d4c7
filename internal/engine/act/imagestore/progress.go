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
	layers   map[string]layers   // those that it has told of so far, by image
	watchers map[*pullWatcher]bool
}

// layers are the bytes of the layers of an image: those that have come, and all.
type layers map[string][2]int64

// add takes in a step. A layer that was there already does not count.
func (l layers) add(step libpod.Progress) {
	if step.Layer == "" || step.Existed {
		return
	}
	bytes := l[step.Layer]
	bytes[0], bytes[1] = max(bytes[0], step.Current), max(bytes[1], step.Total)
	if step.Done {
		bytes[0] = bytes[1]
	}
	l[step.Layer] = bytes
}

// Standing is how far a pull in progress is.
type Standing struct {
	Phase Phase
	// Bytes have come of Total, of the layers that are known so far. Both are 0 where Podman does not say it (before 4.8).
	Bytes, Total int64
}

// Standing returns how far the pull of an image is; ok is false if this process does not pull it.
func (h *ProgressHub) Standing(image string) (s Standing, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p, ok := h.current[image]
	s.Phase = p.Phase
	for _, bytes := range h.layers[image] {
		s.Bytes += bytes[0]
		s.Total += bytes[1]
	}
	return s, ok
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
		h.current, h.layers = map[string]Progress{}, map[string]layers{}
	}
	if p.Phase == Done || p.Phase == Failed {
		delete(h.current, p.Image)
		delete(h.layers, p.Image)
	} else {
		h.current[p.Image] = p
		if h.layers[p.Image] == nil {
			h.layers[p.Image] = layers{}
		}
		h.layers[p.Image].add(p.Step)
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
