package supervise

import (
	"time"

	"github.com/podtask/podtask/pkg/api"
)

// trial is the time in which new images must prove themselves: the service is ready with
// them when the task has stayed ready for the whole trial and no container restarted. The
// zero value is a trial that has not started.
type trial struct {
	started  time.Time
	restarts int
}

// judge returns the phase of the service whose task on trial is in phase p, and after how
// long to judge again if nothing changes before; 0 for never.
func (t *trial) judge(p phase, restarts int, now time.Time, settle time.Duration) (phase, time.Duration) {
	if t.started.IsZero() {
		if p != ready || settle == 0 {
			return p, 0
		}
		t.started, t.restarts = now, restarts
	}
	left := settle - now.Sub(t.started)
	switch {
	case p != ready || restarts != t.restarts:
		return unhealthy, 0
	case left > 0:
		return starting, left
	}
	return ready, 0
}

// restartsOf counts how often the policies of a task's containers restarted them.
func restartsOf(t api.Task) (n int) {
	for _, c := range t.Containers {
		n += c.RestartCount
	}
	return n
}
