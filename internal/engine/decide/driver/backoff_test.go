package driver

import (
	"slices"
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/lifecycle"
)

// act carries decisions out for a container that Podman reports as running: inspections
// answer at once, and each watch ends after lasts. It returns when watches and inspections
// of the container began.
func act(t *testing.T, d *Task, until time.Duration, lasts func(n int) time.Duration, seen lifecycle.Observed) (watches, inspections []time.Time) {
	t.Helper()
	ends := map[Watch]time.Time{}
	now := at
	var batch []lifecycle.Event
	for range 100_000 {
		decision := step(t, d, now, batch...)
		batch = nil
		for _, w := range decision.Watch {
			ends[w] = now.Add(lasts(len(watches)))
			watches = append(watches, now)
		}
		for _, w := range decision.Unwatch {
			delete(ends, w)
		}
		for _, e := range decision.Start {
			batch = append(batch, lifecycle.OpFinished{ID: e.Op(), Result: lifecycle.Result{Seen: seen}})
			inspections = append(inspections, now)
		}
		if batch != nil {
			continue
		}
		next := decision.Outcome().Timer
		for w, end := range ends {
			if next.IsZero() || !end.After(next) {
				next, batch = end, []lifecycle.Event{lifecycle.Hinted{Index: int(w)}}
			}
		}
		if next.IsZero() || next.Sub(at) > until {
			return watches, inspections
		}
		if now = next; batch == nil {
			batch = d.Tick(now)
		} else {
			delete(ends, Watch(batch[0].(lifecycle.Hinted).Index))
		}
	}
	t.Fatalf("the driver works without a pause at %v", now.Sub(at))
	return nil, nil
}

// mostIn is the highest number of times within a window.
func mostIn(window time.Duration, times []time.Time) (most int) {
	for i := range times {
		n := len(slices.DeleteFunc(slices.Clone(times[i:]), func(x time.Time) bool { return x.Sub(times[i]) >= window }))
		most = max(most, n)
	}
	return most
}

func alone() *Task {
	s := runningState()
	s.Task.Network = "host" // no watch of the infra container
	return NewTask(s, 0, EncodeTask)
}

func TestWatchesThatEndAtOnceArePaced(t *testing.T) {
	t.Parallel()
	at0 := func(int) time.Duration { return 0 }
	seen := alone().state.Containers[0]
	for _, tt := range []struct {
		name     string
		lasts    func(int) time.Duration
		min, max int // watches in ten minutes
	}{
		{"at once", at0, 20, 30},
		{"soon", func(int) time.Duration { return time.Second }, 20, 40},
		{"lasting", func(int) time.Duration { return WatchLasts }, 55, 65},
		{"lasting and at once in turn", func(n int) time.Duration { return time.Duration(n%2) * WatchLasts }, 55, 130},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			watches, inspections := act(t, alone(), 10*time.Minute, tt.lasts,
				lifecycle.Observed{Presence: lifecycle.Running, ID: seen.ID, StartedAt: seen.StartedAt})
			if n := len(watches); n < tt.min || n > tt.max {
				t.Errorf("%d watches in ten minutes, want %d to %d", n, tt.min, tt.max)
			}
			if n := mostIn(3*WatchLasts, watches); n > MaxWatches {
				t.Errorf("%d watches in %v", n, 3*WatchLasts)
			}
			if n := mostIn(3*WatchLasts, inspections); n > MaxWatches+1 {
				t.Errorf("%d inspections in %v", n, 3*WatchLasts)
			}
		})
	}
}

func TestAContainerWithoutItsMonitorEnds(t *testing.T) {
	t.Parallel()
	d := alone()
	c := d.state.Containers[0]
	_, inspections := act(t, d, time.Minute, func(int) time.Duration { return 0 },
		lifecycle.Observed{Presence: lifecycle.Running, ID: c.ID, StartedAt: c.StartedAt, Unmonitored: true, ProcessGone: true})
	c = d.state.Containers[0]
	if !c.Ended || c.HasExit || c.Failures[0].Name != lifecycle.ErrMonitorLost || d.state.Goal != lifecycle.Down {
		t.Errorf("ended %t, exit code known %t, failures %v, goal %s", c.Ended, c.HasExit, c.Failures, d.state.Goal)
	}
	if len(inspections) > 6 {
		t.Errorf("it took %d operations", len(inspections))
	}
}
