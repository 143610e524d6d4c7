package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"

	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/state"
)

// Owner drives one task. Send, State and Watch may be used by any goroutine;
// Run and Close belong to one.
type Owner struct {
	host *Agent
	lock *state.Lock
	id   string
	// suspect: an owner before died while something may have been in the making, which
	// Podman may finish at any time.
	suspect bool

	mailbox  chan lifecycle.Event
	snapshot atomic.Pointer[lifecycle.State]

	loop

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when snapshot changes
	done    bool          // nothing is taken from the mailbox any more
}

// Own takes the lock of a task and loads its record. Only one owner lives at a
// time on a host: when somebody else has the task, the error is state.ErrLocked
// and names them.
func (o *Owners) Own(id string) (*Owner, error) {
	lock, err := o.tasks.Locks.Lock(id)
	if err != nil {
		return nil, err
	}
	return o.load(id, lock)
}

// OwnWait is Own that waits, as long as ctx lasts, until the present owner lets go
// or dies. The wait costs a sleeping thread; nothing polls.
func (o *Owners) OwnWait(ctx context.Context, id string) (*Owner, error) {
	lock, err := o.tasks.Locks.LockWait(ctx, id)
	if err != nil {
		return nil, err
	}
	return o.load(id, lock)
}

// load reads the record of a task that is locked. When it fails it lets go.
func (o *Owners) load(id string, lock *state.Lock) (*Owner, error) {
	data, err := o.tasks.Store.Get(id)
	if errors.Is(err, fs.ErrNotExist) {
		lock.Remove()
		return nil, &NotFoundError{Ref: id}
	}
	if err != nil {
		lock.Unlock()
		return nil, err
	}
	s, err := decode(data)
	if err != nil {
		lock.Unlock()
		return nil, fmt.Errorf("task %s: %w", id, err)
	}
	return newOwner(o.agent, lock, s), nil
}

func newOwner(h *Agent, lock *state.Lock, s lifecycle.State) *Owner {
	o := &Owner{host: h, lock: lock, id: s.ID, mailbox: make(chan lifecycle.Event, 64), changed: make(chan struct{})}
	o.suspect = s.Sandbox.Dirty && s.Sandbox.Phase < lifecycle.SandboxStopped
	o.snapshot.Store(&s)
	return o
}

// Close lets go of the task. Containers run on.
func (o *Owner) Close() error { return o.lock.Unlock() }

// State is the latest saved state. It must not be changed.
func (o *Owner) State() lifecycle.State { return *o.snapshot.Load() }

// Send hands an event to the owner. It blocks only while the mailbox of 64 is full.
// Taken is false when the owner has ended, so that nothing will come of the event.
func (o *Owner) Send(ev lifecycle.Event) (taken bool) {
	for {
		taken, done, changed := o.offer(ev)
		if taken || done {
			return taken
		}
		<-changed // who makes room changes the state or ends
	}
}

// offer puts an event into the mailbox unless it is full or the owner has ended.
func (o *Owner) offer(ev lifecycle.Event) (taken, done bool, changed <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.done {
		return false, true, o.changed
	}
	select {
	case o.mailbox <- ev:
		return true, false, o.changed
	default:
		return false, false, o.changed
	}
}

// end refuses events from now on, unless some are still to be dealt with.
func (o *Owner) end() (ended bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.done = len(o.mailbox) == 0
	return o.done
}

// Watch calls fn with the present state and then with each later one, leaving out
// some when they come fast, until fn returns false, ctx ends (its error is
// returned) or Run has ended.
func (o *Owner) Watch(ctx context.Context, fn func(lifecycle.State) bool) error {
	for {
		o.mu.Lock()
		done, changed := o.done, o.changed
		o.mu.Unlock()
		if !fn(o.State()) || done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
