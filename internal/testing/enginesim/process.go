package enginesim

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/podtask/podtask/internal/engine"
	"github.com/podtask/podtask/internal/engine/act/endpoint"
	"github.com/podtask/podtask/internal/engine/decide/driver"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// process is a process of podtask that owns one task. What it does its driver decides, the
// same as in agent.Owner.
type process struct {
	t      *task
	host   *engine.Engine
	store  *state.Store
	lock   *state.Lock // of the task
	driver *driver.Task
	// endpoint is what the task's containers ask for metadata.
	endpoint *endpoint.Endpoint

	state   lifecycle.State // as last saved
	mailbox []lifecycle.Event
	flights []*flight
	watches map[driver.Watch]bool // true: it has reported
	wake    time.Time             // zero: no timer
	undone
}

// undone is a step that was undone, because the disk is full.
type undone struct {
	// retryAt is the time at which it is tried again with the events kept; zero if there is none. Another
	// event has it tried at once.
	retryAt time.Time
	kept    int
}

// flight is an effect that was asked for and has not been done.
type flight struct {
	effect   lifecycle.Effect
	state    lifecycle.State // it came with
	id       lifecycle.OpID
	canceled bool
}

// submit makes the record of a fresh task and starts its owner.
func submit(w *world, t *task) {
	if w.trail != nil {
		w.tell("%s is submitted: %s", t.def.Family, describe(t))
	}
	t.phase = alive
	store, err := state.Open(w.dir, w.disk)
	if err != nil {
		w.broken("the store does not open: %v", err)
	}
	record, err := t.encode(lifecycle.New(t.id, "", t.def, t.opts, w.clock.now))
	if err != nil {
		w.broken("%v", err)
	}
	if err := put(w, t, store, record); err != nil {
		w.tell("%s: it is not recorded: %v", t.def.Family, err)
		consequence(w, nil)
		return
	}
	own(w, t)
}

// put writes a record and notes what may be read back from now on.
func put(w *world, t *task, s *state.Store, data []byte) error {
	t.record.tried = append(t.record.tried, data)
	err := s.Put(t.id, data)
	if err == nil {
		t.record.acked, t.record.tried = data, nil
		w.count.Saves++
	}
	return err
}

// own starts an owner on the record there is.
func own(w *world, t *task) {
	store, err := state.Open(w.dir, w.disk)
	if err != nil {
		w.broken("the store does not open: %v", err)
	}
	data, err := store.Get(t.id)
	if errors.Is(err, fs.ErrNotExist) {
		data, err = nil, nil
	}
	if err != nil {
		w.broken("the record of %s cannot be read: %v", t.def.Family, err)
	}
	if !t.mayBe(data) {
		w.broken("the record of %s is older than the last acknowledged, or was never written: %s", t.def.Family, data)
	}
	if data == nil {
		w.tell("%s has no record", t.def.Family)
		t.phase = erased
		checkGone(w, t)
		return
	}
	lock, err := w.locks.Lock(t.id)
	if err != nil {
		w.broken("%s cannot be locked: %v", t.def.Family, err)
	}
	s, err := t.decode(data)
	if err != nil {
		w.broken("the record of %s is no state: %v", t.def.Family, err)
	}
	t.owner = &process{
		t: t, host: w.open(), store: store, lock: lock, state: s,
		driver:  driver.NewTask(s, t.published(), t.encode),
		watches: map[driver.Watch]bool{}, mailbox: []lifecycle.Event{lifecycle.Restarted{}},
	}
	t.owner.endpoint = endpoint.New(t.owner.host.Metadata, served{t.owner}, nil)
	w.tell("%s has an owner: goal %s, %s", t.def.Family, s.Goal, s.Status())
}

// step takes in the first n events of the mailbox.
func (w *world) step(o *process, n int) {
	batch := o.mailbox[:n:n]
	o.mailbox = o.mailbox[n:]
	if w.trail != nil {
		for _, ev := range batch {
			w.tell("%s hears %s", o.t.def.Family, say(ev))
		}
	}
	d, err := o.driver.Step(w.clock.now, batch)
	if err == nil {
		err = d.State.Invariants()
	}
	if err != nil {
		w.broken("%s: %v", o.t.def.Family, err)
	}
	checkProtection(w, o, d.State, batch)
	o.retryAt, o.kept = time.Time{}, 0
	if d.Record != nil {
		err = put(w, o.t, o.store, d.Record)
	}
	outcome, saved := d.Outcome(), !errors.Is(err, state.ErrNoSpace)
	switch {
	case !saved && outcome.Lowers:
		w.tell("%s: the disk is full, which hinders no end", o.t.def.Family)
		w.count.Unsaved++
		// If the owner dies now, no record says that there may be a pod. A sweep finds it.
		o.t.haunted = o.t.haunted || d.State.Sandbox.Dirty
		o.driver.Unsaved()
	case !saved:
		w.tell("%s: the disk is full", o.t.def.Family)
		batch = o.driver.Undo(batch)
		o.mailbox = append(batch, o.mailbox...)
		o.retryAt, o.kept = w.clock.now.Add(2*time.Second), len(batch)
		return
	case err != nil:
		w.tell("%s: it cannot be saved: %v", o.t.def.Family, err)
		consequence(w, o)
		return
	}
	carryOut(w, o, d, saved)
}

// carryOut does what the driver has decided.
func carryOut(w *world, o *process, d driver.TaskDecision, saved bool) {
	o.state = d.State
	act(w, o, d)
	if !w.calm && w.r.IntN(2000) == 0 {
		w.tell("%s dies between the record and the event log", o.t.def.Family)
		die(w, o)
		return
	}
	if saved {
		publish(w, o, d)
	}
	if again := w.clock.now.Add(2 * time.Second); !saved && (o.wake.IsZero() || again.Before(o.wake)) {
		o.wake = again
	}
	if d.Settled && (saved || d.Outcome().Erases) {
		settled(w, o, d)
	}
}

// publish appends to the event log.
func publish(w *world, o *process, d driver.TaskDecision) {
	t := o.t
	for _, tr := range d.Publish {
		if last := t.published(); tr.Seq != last+1 {
			w.broken("%s: event %d follows %d", t.def.Family, tr.Seq, last)
		}
		checkNews(w, t, tr)
		w.tell("%s: event %d %s %s", t.def.Family, tr.Seq, tr.Container, tr.Status)
		t.log = append(t.log, tr)
	}
	o.driver.Published(t.published())
}

// act starts and cancels operations and watches.
func act(w *world, o *process, d driver.TaskDecision) {
	for _, e := range d.Start {
		o.flights = append(o.flights, &flight{effect: e, state: d.State, id: e.Op()})
	}
	for _, f := range o.flights {
		f.canceled = f.canceled || slices.Contains(d.Cancel, f.id)
	}
	for _, i := range d.Unwatch {
		delete(o.watches, i)
	}
	for _, i := range d.Watch {
		o.watches[i] = false
	}
	o.wake = d.Wake
}

// settled ends an owner that is done.
func settled(w *world, o *process, d driver.TaskDecision) {
	batch, end := o.driver.Rest(d, o.mailbox, o.t.foreground)
	o.mailbox = batch
	switch end {
	case driver.Stopped:
		w.tell("%s has stopped", o.t.def.Family)
		checkStopped(w, o)
		o.release()
	case driver.Removed:
		erase(w, o)
	case driver.Continue:
	}
}

func erase(w *world, o *process) {
	t := o.t
	checkGone(w, t)
	t.record.tried = append(t.record.tried, nil)
	if err := o.store.Delete(t.id); err != nil {
		w.tell("%s: its record cannot be deleted: %v", t.def.Family, err)
		consequence(w, o)
		return
	}
	w.tell("%s is removed", t.def.Family)
	t.record.acked, t.record.tried, t.phase = nil, nil, erased
	o.release()
}

// release ends the owner.
func (o *process) release() {
	o.t.owner = nil
	o.endpoint.Close()
	_ = o.lock.Remove()
	_ = o.host.Close()
}

// watching reports whether a watch has still to report.
func (o *process) watching(k driver.Watch) bool {
	reported, watched := o.watches[k]
	return watched && !reported
}

// hint reports the end of a container.
func (o *process) hint(i int) {
	o.watches[driver.Watch(i)] = true
	o.mailbox = append(o.mailbox, lifecycle.Hinted{Index: i})
}

// do does an operation in flight and puts its answer into the mailbox.
func do(w *world, o *process, k int) {
	f := o.flights[k]
	o.flights = slices.Delete(o.flights, k, k+1)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	late := f.canceled && w.r.IntN(2) == 0 // it acts before it hears
	if f.canceled && !late {
		cancel()
	}
	beforeDo(w, o, f)
	answer := o.host.Runtime.ApplyWith(ctx, o.endpoint, f.state, f.effect)
	w.count.Operations++
	if answer.Result.Queue.For != "" {
		w.count.Queued++
	}
	if late && answer.Failure.Class != lifecycle.OK {
		late = false
	}
	if late {
		answer = lifecycle.OpFinished{ID: f.id, Failure: lifecycle.Failure{Class: lifecycle.Canceled, Message: "canceled"}}
	}
	if w.trail != nil {
		w.tell("%s does %s: %s", o.t.def.Family, short(f.effect), answer.Failure)
	}
	look(w, o)
	afterDo(w, o, f, answer)
	o.mailbox = append(o.mailbox, answer)
	if w.disk.doom != none { // it came while the ledger was written
		consequence(w, o)
	}
}
