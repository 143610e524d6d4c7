package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/podtask/podtask/internal/driver"
	"github.com/podtask/podtask/internal/loop"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/state"
)

// Owner drives one task. Send, State, Watch and Busy may be used by any goroutine;
// Run and Close belong to one.
type Owner struct {
	host *Agent
	lock *state.Lock
	id   string
	loop *taskLoop
}

// taskLoop runs the driver of a task.
type taskLoop = loop.Loop[lifecycle.State, lifecycle.Event, driver.TaskDecision]

// Own takes the lock of a task and loads its record. A task has one owner at a time: if
// another process owns it, the error is state.ErrLocked and names that process.
func (o *Owners) Own(id string) (*Owner, error) {
	lock, err := o.tasks.Locks.Lock(id)
	if err != nil {
		return nil, err
	}
	return o.load(id, lock)
}

// OwnWait is Own that waits until the present owner releases the task or dies, at most
// until ctx ends. The wait costs a sleeping thread; nothing polls.
func (o *Owners) OwnWait(ctx context.Context, id string) (*Owner, error) {
	lock, err := o.tasks.Locks.LockWait(ctx, id)
	if err != nil {
		return nil, err
	}
	return o.load(id, lock)
}

// load reads the record of a task that is locked. If that fails it releases the lock.
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
	return &Owner{host: h, lock: lock, id: s.ID, loop: loop.New[lifecycle.State, lifecycle.Event, driver.TaskDecision](s)}
}

// Close releases the task's lock. Containers keep running.
func (o *Owner) Close() error { return o.lock.Unlock() }

// State is the latest saved state. It must not be changed.
func (o *Owner) State() lifecycle.State { return o.loop.State() }

// Busy returns how long the owner has worked on one batch of events; 0 while it waits for
// events or for space on a full disk. An owner that is busy for many seconds is stuck.
func (o *Owner) Busy(now time.Time) time.Duration { return o.loop.Busy(now) }

// Send hands an event to the owner. It blocks only while the mailbox of 64 is full.
// Taken is false when the owner has ended, so that the event has no effect.
func (o *Owner) Send(ev lifecycle.Event) (taken bool) { return o.loop.Send(context.Background(), ev) }

// Watch calls fn with the present state and then with each later one, leaving out
// some when they come fast, until fn returns false, ctx ends (its cause is
// returned) or Run has ended.
func (o *Owner) Watch(ctx context.Context, fn func(lifecycle.State) bool) error {
	return o.loop.Watch(ctx, fn)
}
