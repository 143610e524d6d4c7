package owner

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/engine/act/leftover"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// leftoverLimit bounds one removal of leftovers.
const leftoverLimit = 20 * time.Second

// tidy says whether a call to Podman was cut off since leftovers were last removed. They
// are removed before the next start, because they may hold its host ports.
type tidy struct {
	mu  sync.Mutex
	due bool
	// cut counts the calls that were cut off, and doubted how many there were when an object's
	// failure was last reconsidered: no error is final once after a call that was cut off.
	cut     int
	doubted map[int]int
	// began are the containers whose program a call that was cut off may have begun.
	began map[int]bool
}

// podKey stands for the pod in tidy.doubted.
const podKey = -1

// objectOf returns the key of what an operation makes in tidy.doubted.
func objectOf(e lifecycle.Effect) (key int, makes bool) {
	switch e := e.(type) {
	case lifecycle.CreateContainer:
		return e.Index, true
	case lifecycle.StartContainer:
		return e.Index, true
	case lifecycle.CreateSandbox, lifecycle.RunSandbox:
		return podKey, true
	}
	return 0, false
}

// reconsider gives an operation that failed for good another attempt, once after a call
// that was cut off.
func (r *run) reconsider(ctx context.Context, s lifecycle.State, e lifecycle.Effect, f lifecycle.Failure) lifecycle.Failure {
	key, makes := objectOf(e)
	if !makes || f.Class != lifecycle.Permanent {
		return f
	}
	r.tidy.mu.Lock()
	cut, began := r.tidy.cut, r.tidy.began[key]
	due := cut > r.tidy.doubted[key]
	r.tidy.mu.Unlock()
	if !due {
		return f
	}
	f = r.all.Runtime.Reconsider(ctx, s, e, f, began)
	if f.Class != lifecycle.Outage { // else it is reconsidered when Podman is back
		r.tidy.mu.Lock()
		r.tidy.doubted[key] = cut
		r.tidy.mu.Unlock()
	}
	return f
}

// noteCutOff notes an operation that failed for a reason that passes, such as the end of
// Podman's service.
func (r *run) noteCutOff(e lifecycle.Effect, f lifecycle.Failure, w leftover.Window) {
	if f.Class != lifecycle.Temporary && f.Class != lifecycle.Outage {
		return
	}
	switch e.(type) {
	case lifecycle.CreateSandbox, lifecycle.RunSandbox, lifecycle.CreateContainer, lifecycle.StartContainer, lifecycle.RemoveSandbox:
		r.all.Leftover.NoteCutOff(r.owner.id, w)
		r.tidy.mu.Lock()
		defer r.tidy.mu.Unlock()
		r.tidy.due = true
		r.tidy.cut++
	}
	if start, ok := e.(lifecycle.StartContainer); ok {
		// The initialization of a container does not run its program.
		r.tidy.began[start.Index] = r.tidy.began[start.Index] || !strings.HasPrefix(f.Message, "initialize container ")
	}
}

// noteBefore notes what an earlier owner may have had in flight when it died: nothing noted
// that. If Podman's service died with it, the call was cut off.
func (r *run) noteBefore(s lifecycle.State, now time.Time) {
	if w, ok := cutOffBefore(s, now); ok {
		r.all.Leftover.NoteCutOff(s.ID, w)
		r.tidy.due, r.tidy.cut = true, 1 // before any operation runs
		for i := range s.Containers {
			r.tidy.began[i] = true
		}
	}
}

// longestCall is about how long a call to Podman may take that makes something.
const longestCall = 4 * time.Minute

// cutOffBefore returns the time in which an earlier owner may have made a call that was cut
// off; ok is false if it made none.
func cutOffBefore(s lifecycle.State, now time.Time) (w leftover.Window, ok bool) {
	unfinished := func(c lifecycle.Container) bool { return !c.Ended && c.Presence != lifecycle.Running }
	making := s.Goal == lifecycle.Up && slices.ContainsFunc(s.Containers, unfinished)
	if !s.Sandbox.Dirty || !making && s.Goal != lifecycle.Gone {
		return w, false
	}
	last := s.CreatedAt // of the earlier owner's signs of life
	if n := len(s.History); n > 0 {
		last = s.History[n-1].At
	}
	w = leftover.Window{Began: last.Add(-longestCall), Ended: last.Add(longestCall)}
	if w.Began.Before(s.CreatedAt) {
		w.Began = s.CreatedAt
	}
	if w.Ended.After(now) {
		w.Ended = now
	}
	return w, true
}

// tidyBefore removes leftovers before an operation that they could hinder.
func (r *run) tidyBefore(ctx context.Context, s lifecycle.State, e lifecycle.Effect) {
	switch e.(type) {
	case lifecycle.RunSandbox, lifecycle.StartContainer:
	default:
		return
	}
	r.tidy.mu.Lock()
	defer r.tidy.mu.Unlock()
	if r.tidy.due {
		r.tidy.due = false
		r.removeLeftovers(ctx, s, false)
	}
}

// removeSecrets removes the secrets that the creation of a task has made. Where a pod was made, its removal has removed
// them.
func (r *run) removeSecrets(ctx context.Context, s lifecycle.State) error {
	if s.Sandbox.PodID != "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, leftoverLimit)
	defer cancel()
	return r.all.Runtime.Secrets.Remove(ctx, s)
}

// removeLeftovers removes what calls that were cut off have left. What is still there is
// left to the next sweep.
func (r *run) removeLeftovers(ctx context.Context, s lifecycle.State, forget bool) {
	ctx, cancel := context.WithTimeout(ctx, leftoverLimit)
	defer cancel()
	removed, err := r.all.Leftover.Remove(ctx, s.ID, forget)
	for _, what := range removed {
		r.all.Log.Info("removed what an interrupted call of Podman left behind", "task", s.ID, "what", what)
	}
	if err != nil && ctx.Err() == nil {
		r.all.Log.Warn("what an interrupted call of Podman left behind is not all removed", "task", s.ID, "error", err)
	}
}
