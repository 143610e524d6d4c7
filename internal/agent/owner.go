package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/state"
)

// Owner drives one task. Send, State and Watch may be used by any goroutine;
// Run and Close belong to one.
type Owner struct {
	host *Host
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
func (h *Host) Own(id string) (*Owner, error) {
	lock, err := h.locks.Lock(id)
	if err != nil {
		return nil, err
	}
	return h.load(id, lock)
}

// OwnWait is Own that waits, as long as ctx lasts, until the present owner lets go
// or dies. The wait costs a sleeping thread; nothing polls.
func (h *Host) OwnWait(ctx context.Context, id string) (*Owner, error) {
	lock, err := h.locks.LockWait(ctx, id)
	if err != nil {
		return nil, err
	}
	return h.load(id, lock)
}

// load reads the record of a task that is locked. When it fails it lets go.
func (h *Host) load(id string, lock *state.Lock) (*Owner, error) {
	data, err := h.store.Get(id)
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
	return newOwner(h, lock, s), nil
}

func newOwner(h *Host, lock *state.Lock, s lifecycle.State) *Owner {
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

// run is what one call of Run needs.
type run struct {
	*Owner
	ctx       context.Context // of the operations; ends with the run
	wg        sync.WaitGroup  // every goroutine of the run
	ops       map[lifecycle.OpID]context.CancelFunc
	waits     map[int]context.CancelFunc // containers whose end is waited for
	endpoint  *endpoint
	unqueue   context.CancelFunc // ends the watch of the queue; nil: none
	limits    chan struct{}      // wakes who applies limits; nil: there were none to apply
	applied   lifecycle.Quota    // those that were last to be applied
	saved     []byte
	published uint64 // Seq of the last transition in the event log
}

// Run drives the task until it has settled: stopped, or removed. It returns nil
// then. When ctx ends before, the task is left as it is: containers run on and
// whoever owns the task next continues.
func (o *Owner) Run(ctx context.Context) error {
	opCtx, cancel := context.WithCancel(ctx)
	r := &run{Owner: o, ctx: opCtx, ops: map[lifecycle.OpID]context.CancelFunc{}, waits: map[int]context.CancelFunc{}}
	r.endpoint = &endpoint{host: o.host, owner: o}
	defer r.endpoint.close()
	r.published = o.host.lastPublished(ctx, o.State())
	sweep := o.host.sweepIsDue(ctx)
	r.wg.Go(func() {
		if sweep {
			o.host.sweep(ctx)
		}
		o.host.cleanRounds(ctx, opCtx)
	})
	err := r.loop(ctx)
	cancel()
	r.wg.Wait()
	o.mu.Lock()
	o.done = true
	close(o.changed)
	o.mu.Unlock()
	return err
}

func (r *run) loop(ctx context.Context) error {
	timer := time.NewTimer(0)
	timer.Stop()
	defer timer.Stop()
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	batch := []lifecycle.Event{lifecycle.Restarted{}}
	defer r.asleep()
	removing := false // --rm asks once: a removal that proved impossible is the user's
	for {
		at := time.Now().UTC()
		r.busy()
		s, effects := r.step(at, batch)
		if err := r.commit(ctx, s); err != nil {
			return err
		}
		for _, e := range effects {
			r.begin(s, e)
		}
		r.await(s)
		r.serve(s)
		r.limit(s)
		r.awaitTurn(s)
		if s.Settled() {
			if s.Goal == lifecycle.Down && s.Options.Remove && !removing && !r.host.attended(r.id) {
				removing = true
				batch = []lifecycle.Event{lifecycle.RemoveRequested{By: "--rm"}}
				continue
			}
			// What was sent before the end, a removal say, is still to be done.
			if batch = r.drain(batch[:0]); len(batch) > 0 && s.Goal != lifecycle.Gone || !r.end() {
				continue
			}
			if s.Goal == lifecycle.Gone {
				return r.erase()
			}
			return nil
		}
		if wake := s.Wake(at); !wake.IsZero() {
			timer.Reset(time.Until(wake))
		}
		r.asleep()
		select {
		case ev := <-r.mailbox:
			batch = append(batch[:0], ev)
		case <-timer.C:
			batch = append(batch[:0], lifecycle.TimerFired{})
		case <-look.C:
			batch = append(batch[:0], lookAgain(s)...)
		case <-ctx.Done():
			return ctx.Err()
		}
		batch = r.drain(batch)
		timer.Stop()
	}
}

// step takes in a batch of events.
func (r *run) step(at time.Time, batch []lifecycle.Event) (s lifecycle.State, effects []lifecycle.Effect) {
	s = r.State()
	for _, ev := range batch {
		switch ev := ev.(type) {
		case lifecycle.OpFinished:
			r.forget(ev.ID)
		case lifecycle.Hinted:
			r.unwait(ev.Index) // it has told; another one is begun if it still runs
		}
		var more []lifecycle.Effect
		s, more = lifecycle.Step(s, at, ev)
		effects = append(effects, more...)
	}
	return s, effects
}

// drain adds what else has arrived, so that one save serves all of it.
func (r *run) drain(batch []lifecycle.Event) []lifecycle.Event {
	for len(batch) < cap(r.mailbox) {
		select {
		case ev := <-r.mailbox:
			batch = append(batch, ev)
		default:
			return batch
		}
	}
	return batch
}

// commit makes the state durable, where that part of it changed, and then
// visible. On a full disk it waits: to go on without a record would risk more
// than to stand still.
func (r *run) commit(ctx context.Context, s lifecycle.State) error {
	data, err := json.Marshal(s.Durable())
	if err != nil {
		return fmt.Errorf("encode task %s: %w", r.id, err)
	}
	for !bytes.Equal(data, r.saved) {
		r.host.failpoint(beforeSave)
		err := r.host.store.Put(r.id, data)
		if err == nil {
			r.host.failpoint(afterSave)
			r.saved = data
			break
		}
		if !errors.Is(err, state.ErrNoSpace) {
			return fmt.Errorf("save task %s: %w", r.id, err)
		}
		r.host.log.Error("the task stands still until there is space", "task", r.id, "error", err)
		r.asleep()
		select {
		case <-time.After(2 * time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
		r.busy()
	}
	r.publish(ctx, s)
	r.snapshot.Store(&s)
	r.mu.Lock()
	close(r.changed)
	r.changed = make(chan struct{})
	r.mu.Unlock()
	return nil
}

// publish appends to the host's event log what it lacks of the task's history. A
// failure is made up for by the next call.
func (r *run) publish(ctx context.Context, s lifecycle.State) {
	var entries []json.RawMessage
	last := r.published
	for _, t := range s.History {
		if t.Seq > r.published {
			entries = append(entries, encodeEvent(s, t))
			last = t.Seq
		}
	}
	if len(entries) == 0 {
		return
	}
	if _, err := r.host.events.Append(ctx, entries...); err != nil {
		r.host.log.Warn("events are not in the log yet", "task", r.id, "error", err)
		return
	}
	r.published = last
	r.host.failpoint(afterPublish)
}

// begin starts an effect.
func (r *run) begin(s lifecycle.State, e lifecycle.Effect) {
	switch e.(type) {
	case lifecycle.CancelOp:
		if cancel := r.ops[e.Op()]; cancel != nil {
			cancel()
		}
		return
	}
	ctx, cancel := context.WithCancel(r.ctx)
	r.ops[e.Op()] = cancel
	r.wg.Go(func() {
		defer cancel()
		began := time.Now()
		r.host.failpointOf(beforeEffect, e)
		answer := r.do(ctx, s, e)
		if r.host.observe != nil {
			r.host.observe(e, time.Since(began), answer.Failure)
		}
		r.host.failpointOf(afterEffect, e)
		r.host.log.Debug("operation", "task", s.ID, "effect", fmt.Sprintf("%T%+v", e, e), "took", time.Since(began), "failure", answer.Failure.String())
		r.send(answer)
	})
}

// do does an effect, and what of the endpoint belongs to it.
func (r *run) do(ctx context.Context, s lifecycle.State, e lifecycle.Effect) lifecycle.OpFinished {
	var missing lifecycle.Failure
	if e, ok := e.(lifecycle.StartContainer); ok {
		r.endpoint.describe(ctx, s, e.Index)
		missing = r.endpoint.enter(ctx, s, e.Index)
		r.host.failpointOf(midEffect, e)
	}
	answer := r.host.Do(ctx, s, e)
	if answer.Failure.Class != lifecycle.OK {
		return answer
	}
	if _, ok := e.(lifecycle.PrepareSandbox); ok {
		answer.Result.Metadata, missing = r.endpoint.provide(ctx, s)
	}
	if missing.Class != lifecycle.OK {
		answer.Result.Tolerated = missing
	}
	return answer
}

func (r *run) forget(id lifecycle.OpID) {
	if cancel := r.ops[id]; cancel != nil {
		cancel()
		delete(r.ops, id)
	}
}

func (r *run) send(ev lifecycle.Event) {
	select {
	case r.mailbox <- ev:
	case <-r.ctx.Done():
	}
}

// serve lets the endpoint of an adopted task go on, and ends that of a task that
// has stopped.
func (r *run) serve(s lifecycle.State) {
	switch {
	case s.Sandbox.Phase >= lifecycle.SandboxStopped:
		r.endpoint.close()
	case s.Sandbox.Metadata != "":
		r.endpoint.once.Do(func() { r.wg.Go(func() { r.endpoint.resume(r.ctx, s) }) })
	}
}

// limit has the limits of a task applied that were changed since its slice was made, by
// this owner or an earlier one, who may have died in between.
func (r *run) limit(s lifecycle.State) {
	if s.Sandbox.Slice == "" || s.Goal != lifecycle.Up || s.Options.Quota == r.applied {
		return
	}
	r.applied = s.Options.Quota
	if r.limits == nil {
		r.limits = make(chan struct{}, 1)
		r.wg.Go(r.applyLimits)
	}
	select {
	case r.limits <- struct{}{}:
	default: // it is about to look at the newest state anyway
	}
}

// limitsDeadline bounds one attempt to apply limits.
const limitsDeadline = 20 * time.Second

// applyLimits puts the limits of the newest state on the slice whenever it is woken.
func (r *run) applyLimits() {
	for {
		select {
		case <-r.limits:
		case <-r.ctx.Done():
			return
		}
		ctx, cancel := context.WithTimeout(r.ctx, limitsDeadline)
		err := r.host.ChangeLimits(ctx, r.State())
		cancel()
		if err != nil && r.ctx.Err() == nil {
			r.host.log.Warn("the task does not have the limits that it should", "task", r.id, "error", err)
		}
	}
}

// awaitTurn watches what tasks share for as long as the task is queued.
func (r *run) awaitTurn(s lifecycle.State) {
	switch {
	case s.Queued() && r.unqueue == nil:
		ctx, cancel := context.WithCancel(r.ctx)
		r.unqueue = cancel
		r.wg.Go(func() {
			defer cancel()
			err := r.host.shared.Follow(ctx, func() { r.send(lifecycle.QueueMoved{}) })
			if ctx.Err() == nil {
				r.host.log.Info("the task hears of its turn only by asking again", "task", r.id, "error", err)
			}
		})
	case !s.Queued() && r.unqueue != nil:
		r.unqueue()
		r.unqueue = nil
	}
}

// erase forgets a task of which nothing is left.
func (r *run) erase() error {
	if r.suspect {
		if err := r.host.sweepSoon(r.ctx); err != nil {
			r.host.log.Warn("the next sweep comes when it is due", "error", err)
		}
	}
	r.host.failpoint(beforeErase)
	if err := r.host.store.Delete(r.id); err != nil {
		return fmt.Errorf("delete the record of task %s: %w", r.id, err)
	}
	r.host.failpoint(afterErase)
	r.host.forgetAttendance(r.State())
	return r.lock.Remove()
}
