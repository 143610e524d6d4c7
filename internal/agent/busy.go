package agent

import (
	"sync/atomic"
	"time"
)

// loop tells how long a loop that takes events, steps and saves has been at work on one
// batch of them. Safe for concurrent use.
type loop struct {
	since atomic.Int64 // when it last woke up, in nanoseconds since 1970; 0 while it waits
}

// Busy is that time; 0 while the loop waits for events or for space on a full disk. Such
// a loop calls nothing else: one that is busy for many seconds is stuck.
func (l *loop) Busy(now time.Time) time.Duration {
	since := l.since.Load()
	if since == 0 {
		return 0
	}
	return max(0, now.Sub(time.Unix(0, since)))
}

func (l *loop) busy()   { l.since.Store(time.Now().UnixNano()) }
func (l *loop) asleep() { l.since.Store(0) }
