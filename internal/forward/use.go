package forward

import (
	"sync"
	"time"
)

// Use notes what use there is of one or several forwarders, so that what they lead to may sleep without use. Who asks is told of
// changes that matter to a sleeper only: that there has been no connection for a while, that there is one again, and that one
// waits because there is no target. Its methods may be called concurrently.
type Use struct {
	changed func()

	mu            sync.Mutex
	quiet         time.Duration
	open, waiting int
	since         time.Time // when the last connection ended
	rest          *time.Timer
	seen          bool // who asked was told that there is no connection
}

// Usage is the use of a service at one moment.
type Usage struct {
	// Busy: a connection is open. Otherwise there was none since IdleSince.
	Busy      bool
	IdleSince time.Time
	// Waiting: one of them waits, because there is no target.
	Waiting bool
}

// NewUse returns a use without connections. It calls changed when Usage has something to say. That must neither block nor ask
// at once.
func NewUse(changed func()) *Use {
	return &Use{changed: changed, since: time.Now()}
}

// Rests sets after what time without a connection who asks is told; 0 for never.
func (u *Use) Rests(quiet time.Duration) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.quiet != quiet {
		u.quiet = quiet
		u.watch()
	}
}

// watch sets the timer. The caller holds mu.
func (u *Use) watch() {
	if u.rest != nil {
		u.rest.Stop()
		u.rest = nil
	}
	if u.open == 0 && u.quiet > 0 {
		u.rest = time.AfterFunc(time.Until(u.since.Add(u.quiet)), u.changed)
	}
}

// Begin notes a connection until end is called. A nil Use notes nothing.
func (u *Use) Begin() (end func()) {
	if u == nil {
		return func() {}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.open++; u.open == 1 {
		u.watch()
		u.tell()
	}
	return sync.OnceFunc(func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.open--; u.open == 0 {
			u.since = time.Now()
			u.watch()
		}
	})
}

// Wait notes that a connection, which has begun, waits because there is no target, until end is called.
func (u *Use) Wait() (end func()) {
	if u == nil {
		return func() {}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.waiting++; u.waiting == 1 {
		u.seen = true
		u.tell()
	}
	return sync.OnceFunc(func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.waiting--
	})
}

// tell calls changed if the latest Usage had no connection. The caller holds mu.
func (u *Use) tell() {
	if u.seen {
		u.seen = false
		u.changed()
	}
}

// Usage returns what use there is now.
func (u *Use) Usage() Usage {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.seen = u.seen || u.open == 0
	return Usage{Busy: u.open > 0, IdleSince: u.since, Waiting: u.waiting > 0}
}

// Close has nobody told any more.
func (u *Use) Close() { u.Rests(0) }
