package driver

import (
	"slices"
	"time"

	"github.com/podtask/podtask/pkg/lifecycle"
)

// A watch of a container that ends while the container runs on begins again. Podman may
// end each one at once: after conmon was killed, for instance. So each watch that ends
// early is followed by a longer pause, until one lasts or the container is started again.
// Without such progress a container is watched, and so inspected, at most MaxWatches
// times in any WatchLasts*3, and at last once in MaxWatchPause.
const (
	// WatchLasts is the time that a watch lasts that did not end early.
	WatchLasts = 10 * time.Second
	// MaxWatchPause is the longest pause before a watch.
	MaxWatchPause = 30 * time.Second
	// MaxWatches is how often a container without progress is watched in 30 seconds.
	MaxWatches = 9

	firstWatchPause = 250 * time.Millisecond
	// reportEarly is the number of early ends in a row from which they are reported to
	// lifecycle. A restart of Podman's service ends one watch.
	reportEarly = 2
)

// backOff delays the watches of one container that end early.
type backOff struct {
	watch Watch
	run   time.Time // when the present run began
	begun time.Time // when the latest watch began
	early int       // watches of this run that ended early, in a row
	next  time.Time // when the next watch may begin
}

// watchPause is the pause after a number of early ends in a row.
func watchPause(early int) time.Duration {
	if early < reportEarly {
		return 0
	}
	return min(firstWatchPause<<min(early-reportEarly, 10), MaxWatchPause)
}

// takeHints notes which watches have ended, and marks the hints of those that keep ending
// early.
func (t *Task) takeHints(at time.Time, batch []lifecycle.Event) []lifecycle.Event {
	batch = slices.Clone(batch)
	for i, ev := range batch {
		ev, ok := ev.(lifecycle.Hinted)
		if !ok {
			continue
		}
		w := Watch(ev.Index)
		if t.Watching(w) {
			ev.Early = t.noteEnd(at, w) >= reportEarly
			batch[i] = ev
		}
		t.watchEnded(w) // another one begins if the container still runs
	}
	return batch
}

// noteEnd notes the end of a watch and returns how many ended early in a row.
func (t *Task) noteEnd(at time.Time, w Watch) int {
	k := slices.IndexFunc(t.backOffs, func(b backOff) bool { return b.watch == w })
	if k < 0 {
		return 0
	}
	t.backOffs = slices.Clone(t.backOffs)
	b := &t.backOffs[k]
	b.early++
	if at.Sub(b.begun) >= WatchLasts {
		b.early = 0
	}
	b.next = at.Add(watchPause(b.early))
	return b.early
}

// delayWatches takes watches that must not begin yet out of a decision, and wakes the task
// when they may.
func (t *Task) delayWatches(d *Decision[lifecycle.State, lifecycle.Effect, Watch]) {
	var begin []Watch
	t.rewatch = time.Time{}
	for _, w := range d.Watch {
		if w == Queue {
			begin = append(begin, w)
			continue
		}
		if next := t.mayWatch(d.At, w, runOf(&d.State, w)); next.After(d.At) {
			t.watchEnded(w)
			t.rewatch = earliest(t.rewatch, next)
			d.Wake = earliest(d.Wake, next)
			continue
		}
		begin = append(begin, w)
	}
	d.Watch = begin
}

// mayWatch returns when a watch may begin. If that is now, it notes that it does.
func (t *Task) mayWatch(at time.Time, w Watch, run time.Time) time.Time {
	t.backOffs = slices.Clone(t.backOffs)
	k := slices.IndexFunc(t.backOffs, func(b backOff) bool { return b.watch == w })
	if k < 0 {
		k = len(t.backOffs)
		t.backOffs = append(t.backOffs, backOff{watch: w, run: run})
	}
	b := &t.backOffs[k]
	if !b.run.Equal(run) {
		*b = backOff{watch: w, run: run}
	}
	// A clock that was set back does not delay it further.
	if next := b.next; next.After(at) && !next.After(at.Add(MaxWatchPause)) {
		return next
	}
	b.begun = at
	return at
}

// runOf is the time at which the present run of a container began.
func runOf(s *lifecycle.State, w Watch) time.Time {
	if w == Infra {
		return s.Sandbox.InfraStartedAt
	}
	return s.Containers[w].StartedAt
}

// earliest of two times, of which zero is never.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
