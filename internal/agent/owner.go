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

	mailbox  chan lifecycle.Event
	snapshot atomic.Pointer[lifecycle.State]

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when snapshot changes
	done    bool          // Run has returned; changed stays closed
}

// Own takes the lock of a task and loads its record. Only one owner lives at a
// time on a host: when somebody else has the task, the error is state.ErrLocked
// and names them.
func (h *Host) Own(id string) (*Owner, error) {
	lock, err := h.locks.Lock(id)
	if err != nil {
		return nil, err
	}
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
	o := &Owner{host: h, lock: lock, id: id, mailbox: make(chan lifecycle.Event, 64), changed: make(chan struct{})}
	o.snapshot.Store(&s)
	return o, nil
}

// Close lets go of the task. Containers run on.
func (o *Owner) Close() error { return o.lock.Unlock() }

// State is the latest saved state. It must not be changed.
func (o *Owner) State() lifecycle.State { return *o.snapshot.Load() }

// Send hands an event to the owner. It blocks only while the mailbox of 64 is
// full, and returns at once when Run has ended.
func (o *Owner) Send(ev lifecycle.Event) {
	for {
		o.mu.Lock()
		done, changed := o.done, o.changed
		o.mu.Unlock()
		if done {
			return
		}
		select {
		case o.mailbox <- ev:
			return
		case <-changed:
		}
	}
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
	saved     []byte
	published uint64 // Seq of the last transition in the event log
}

// Run drives the task until it has settled: stopped, or removed. It returns nil
// then. When ctx ends before, the task is left as it is: containers run on and
// whoever owns the task next continues.
func (o *Owner) Run(ctx context.Context) error {
	opCtx, cancel := context.WithCancel(ctx)
	r := &run{Owner: o, ctx: opCtx, ops: map[lifecycle.OpID]context.CancelFunc{}, waits: map[int]context.CancelFunc{}}
	r.published = o.host.lastPublished(ctx, o.id)
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
	batch := []lifecycle.Event{lifecycle.Restarted{}}
	removing := false // --rm asks once: a removal that proved impossible is the user's
	for {
		at := time.Now().UTC()
		s := r.State()
		var effects []lifecycle.Effect
		for _, ev := range batch {
			if op, ok := ev.(lifecycle.OpFinished); ok {
				r.forget(op.ID)
			}
			var more []lifecycle.Effect
			s, more = lifecycle.Step(s, at, ev)
			effects = append(effects, more...)
		}
		if err := r.commit(ctx, s); err != nil {
			return err
		}
		for _, e := range effects {
			r.begin(s, e)
		}
		r.await(s)
		if s.Settled() {
			if s.Goal == lifecycle.Down && s.Options.Remove && !removing {
				removing = true
				batch = []lifecycle.Event{lifecycle.RemoveRequested{By: "--rm"}}
				continue
			}
			if s.Goal == lifecycle.Gone {
				return r.erase()
			}
			// What was sent before the end, a removal say, is still to be done.
			if batch = r.drain(batch[:0]); len(batch) == 0 {
				return nil
			}
			continue
		}
		if wake := s.Wake(at); !wake.IsZero() {
			timer.Reset(time.Until(wake))
		}
		select {
		case ev := <-r.mailbox:
			batch = append(batch[:0], ev)
		case <-timer.C:
			batch = append(batch[:0], lifecycle.TimerFired{})
		case <-ctx.Done():
			return ctx.Err()
		}
		batch = r.drain(batch)
		timer.Stop()
	}
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
		select {
		case <-time.After(2 * time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
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
	if c, ok := e.(lifecycle.CancelOp); ok {
		if cancel := r.ops[c.ID]; cancel != nil {
			cancel()
		}
		return
	}
	ctx, cancel := context.WithCancel(r.ctx)
	r.ops[opID(e)] = cancel
	r.wg.Go(func() {
		defer cancel()
		began := time.Now()
		r.host.failpointOf(beforeEffect, e)
		answer := r.host.Do(ctx, s, e)
		r.host.failpointOf(afterEffect, e)
		r.host.log.Debug("operation", "task", s.ID, "effect", fmt.Sprintf("%T%+v", e, e), "took", time.Since(began), "failure", answer.Failure.String())
		r.send(answer)
	})
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

// await keeps one wait open for each container that runs, and none for others.
func (r *run) await(s lifecycle.State) {
	running := s.Watches()
	wanted := make(map[int]bool, len(running))
	for _, i := range running {
		wanted[i] = true
		if r.waits[i] != nil {
			continue
		}
		ctx, cancel := context.WithCancel(r.ctx)
		r.waits[i] = cancel
		name := containerName(s, i)
		r.wg.Go(func() {
			defer cancel()
			r.host.waitEnd(ctx, name)
			if ctx.Err() == nil {
				r.send(lifecycle.Hinted{Index: i})
			}
		})
	}
	for i, cancel := range r.waits {
		if !wanted[i] {
			cancel()
			delete(r.waits, i)
		}
	}
}

// waitEnd returns when the container has ended, or when Podman could not say.
func (h *Host) waitEnd(ctx context.Context, name string) {
	podman, err := h.Podman(ctx)
	if err == nil {
		err = podman.WaitContainer(ctx, name)
	}
	if err != nil && ctx.Err() == nil {
		h.log.Warn("wait was cut off", "container", name, "error", err)
		// The inspection that follows has a back-off of its own; this keeps a
		// service that answers inspections and refuses waits from being asked in a loop.
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

// erase forgets a task of which nothing is left.
func (r *run) erase() error {
	r.host.failpoint(beforeErase)
	if err := r.host.store.Delete(r.id); err != nil {
		return fmt.Errorf("delete the record of task %s: %w", r.id, err)
	}
	r.host.failpoint(afterErase)
	return r.lock.Remove()
}
