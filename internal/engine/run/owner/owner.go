package owner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/podtask/podtask/internal/engine/act/admit"
	"github.com/podtask/podtask/internal/engine/act/effects"
	"github.com/podtask/podtask/internal/engine/act/endpoint"
	"github.com/podtask/podtask/internal/engine/act/leftover"
	"github.com/podtask/podtask/internal/engine/act/limits"
	"github.com/podtask/podtask/internal/engine/act/logdelivery"
	"github.com/podtask/podtask/internal/engine/decide/driver"
	"github.com/podtask/podtask/internal/engine/decide/loop"
	"github.com/podtask/podtask/internal/engine/facts/failpoint"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// Owner drives one task. Send, State, Watch and Busy may be used by any goroutine;
// Run and Close belong to one.
type Owner struct {
	all    *Owners
	lock   *state.Lock
	id     string
	loop   *taskLoop
	faults *endpoint.Faults
}

// Owners makes this process the owner of tasks.
type Owners struct {
	Log      *slog.Logger
	Fail     *failpoint.Point
	Tasks    *record.Tasks
	Events   *record.Events
	Ledger   *admit.Ledger
	Slices   *limits.Slices
	Metadata *endpoint.Factory
	Runtime  *effects.Interpreter
	Leftover *leftover.Remover
	Logs     *logdelivery.Deliverer
	// sweep removes what dead owners have left behind. An owner calls it when that is due.
	Sweep func(context.Context)
	// prune removes unused images as long as running lasts, and ends a round it has begun.
	Prune func(ctx, running context.Context)
	// observe gets each operation that has ended; nil: nothing does.
	observe func(lifecycle.Effect, time.Duration, lifecycle.Failure)
}

// taskLoop runs the driver of a task.
type taskLoop = loop.Loop[lifecycle.State, lifecycle.Event, driver.TaskDecision]

// Own takes the lock of a task and loads its record. A task has one owner at a time: if
// another process owns it, the error is state.ErrLocked and names that process.
func (o *Owners) Own(id string) (*Owner, error) {
	lock, err := o.Tasks.Locks.Lock(id)
	if err != nil {
		return nil, err
	}
	return o.load(id, lock)
}

// OwnWait is Own that waits until the present owner releases the task or dies, at most
// until ctx ends. The wait costs a sleeping thread; nothing polls.
func (o *Owners) OwnWait(ctx context.Context, id string) (*Owner, error) {
	lock, err := o.Tasks.Locks.LockWait(ctx, id)
	if err != nil {
		return nil, err
	}
	return o.load(id, lock)
}

// load reads the record of a task that is locked. If that fails it releases the lock. A temporary task has lost the
// process that created it, so its new owner is asked to remove it.
func (o *Owners) load(id string, lock *state.Lock) (*Owner, error) {
	data, err := o.Tasks.Store.Get(id)
	if errors.Is(err, fs.ErrNotExist) {
		lock.Remove()
		return nil, &record.NotFoundError{Ref: id}
	}
	if err != nil {
		lock.Unlock()
		return nil, err
	}
	s, err := record.Decode(data)
	if err != nil {
		lock.Unlock()
		return nil, fmt.Errorf("task %s: %w", id, err)
	}
	own := o.New(lock, s)
	if s.Options.Temporary {
		own.Send(lifecycle.RemoveRequested{By: "the end of the process that created it", Force: true})
	}
	return own, nil
}

// New returns the owner of a task whose lock is held and whose record holds s.
func (o *Owners) New(lock *state.Lock, s lifecycle.State) *Owner {
	own := &Owner{all: o, lock: lock, id: s.ID, loop: loop.New[lifecycle.State, lifecycle.Event, driver.TaskDecision](s)}
	own.faults = endpoint.NewFaults(o.Metadata, own)
	return own
}

// Close releases the task's lock. Containers keep running.
func (o *Owner) Close() error { return o.lock.Unlock() }

// Discard releases the lock of a task that has no record, and removes the lock's file.
func (o *Owner) Discard() error { return o.lock.Remove() }

// ID is the task's.
func (o *Owner) ID() string { return o.id }

// State is the latest saved state. It must not be changed.
func (o *Owner) State() lifecycle.State { return o.loop.State() }

// Latest is State without a copy.
func (o *Owner) Latest() *lifecycle.State { return o.loop.Latest() }

// Busy returns how long the owner has worked on one batch of events; 0 while it waits for
// events or for space on a full disk. An owner that is busy for many seconds is stuck.
func (o *Owner) Busy(now time.Time) time.Duration { return o.loop.Busy(now) }

// Unsaved reports whether the owner waits for space on the disk of the state directory.
func (o *Owner) Unsaved() bool { return o.loop.Unsaved() }

// Send hands an event to the owner. It blocks only while the mailbox of 64 is full.
// Taken is false when the owner has ended, so that the event has no effect.
func (o *Owner) Send(ev lifecycle.Event) (taken bool) { return o.loop.Send(context.Background(), ev) }

// Watch calls fn with the present state and then with each later one, leaving out
// some when they come fast, until fn returns false, ctx ends (its cause is
// returned) or Run has ended.
func (o *Owner) Watch(ctx context.Context, fn func(lifecycle.State) bool) error {
	return o.loop.Watch(ctx, fn)
}

// Faults injects network faults into the task while Run drives it.
func (o *Owner) Faults() *endpoint.Faults { return o.faults }

// Observe makes fn get each operation of an owner that has ended: what was asked of
// Podman, a registry or systemd, how long it took and how it failed, if it did. Several
// goroutines call fn at once. Observe must be called before the first task is owned.
func (o *Owners) Observe(fn func(lifecycle.Effect, time.Duration, lifecycle.Failure)) { o.observe = fn }
