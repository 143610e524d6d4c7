package enginesim

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/podtask/podtask/internal/agent"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/state"
)

// owner is a process of podtask that drives one task, as agent.Owner does.
type owner struct {
	t     *task
	host  *agent.Agent
	store *state.Store
	lock  *state.Lock // of the task

	state   lifecycle.State
	saved   []byte
	mailbox []lifecycle.Event
	flights []*flight
	waits   map[int]bool // containers whose end is waited for; true: it was told
	wake    time.Time    // zero: no timer
	// stuck holds what waits for space on the disk.
	stuck   decision
	retryAt time.Time // zero: not stuck
}

// decision is what came of a step, not yet saved.
type decision struct {
	at      time.Time
	state   lifecycle.State
	effects []lifecycle.Effect
}

// flight is an effect that was asked for and has not been done.
type flight struct {
	effect   lifecycle.Effect
	state    lifecycle.State // it came with
	id       lifecycle.OpID
	canceled bool
}

// submit makes the record of a fresh task and starts its owner.
func (w *world) submit(t *task) {
	if w.trail != nil {
		w.tell("%s is submitted: %s", t.def.Family, describe(t))
	}
	t.phase = alive
	store, err := state.Open(w.dir, w.disk)
	if err != nil {
		w.broken("the store does not open: %v", err)
	}
	s := lifecycle.New(t.id, "", t.def, t.opts, w.clock.now)
	if err := w.put(t, store, t.encode(s)); err != nil {
		w.tell("%s: it is not recorded: %v", t.def.Family, err)
		w.consequence(nil)
		return
	}
	w.own(t)
}

// put writes a record and notes what may be read back from now on.
func (w *world) put(t *task, s *state.Store, data []byte) error {
	t.tried = append(t.tried, data)
	err := s.Put(t.id, data)
	if err == nil {
		t.acked, t.tried = data, nil
		w.count.Saves++
	}
	return err
}

// own starts an owner on the record there is.
func (w *world) own(t *task) {
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
		w.checkGone(t)
		return
	}
	lock, err := w.locks.Lock(t.id)
	if err != nil {
		w.broken("%s cannot be locked: %v", t.def.Family, err)
	}
	o := &owner{t: t, host: w.open(), store: store, lock: lock, waits: map[int]bool{}, mailbox: []lifecycle.Event{lifecycle.Restarted{}}}
	if o.state, err = t.decode(data); err != nil {
		w.broken("the record of %s is no state: %v", t.def.Family, err)
	}
	t.owner = o
	w.tell("%s has an owner: goal %s, %s", t.def.Family, o.state.Goal, o.state.Status())
}

// step takes in the first n events of the mailbox.
func (w *world) step(o *owner, n int) {
	batch := o.mailbox[:n:n]
	o.mailbox = o.mailbox[n:]
	d := decision{at: w.clock.now, state: o.state}
	for _, ev := range batch {
		if w.trail != nil {
			w.tell("%s hears %s", o.t.def.Family, say(ev))
		}
		var more []lifecycle.Effect
		d.state, more = lifecycle.Step(d.state, d.at, ev)
		d.effects = append(d.effects, more...)
		if err := d.state.Invariants(); err != nil {
			w.broken("%s: %v", o.t.def.Family, err)
		}
	}
	w.commit(o, d)
}

// commit saves a state and then begins its effects.
func (w *world) commit(o *owner, d decision) {
	if data := o.t.encode(d.state); !bytes.Equal(data, o.saved) {
		err := w.put(o.t, o.store, data)
		switch {
		case errors.Is(err, state.ErrNoSpace):
			w.tell("%s: the disk is full", o.t.def.Family)
			o.stuck, o.retryAt = d, w.clock.now.Add(2*time.Second)
			return
		case err != nil:
			w.tell("%s: it cannot be saved: %v", o.t.def.Family, err)
			w.consequence(o)
			return
		}
		o.saved = data
	}
	o.stuck, o.retryAt = decision{}, time.Time{}
	if !w.calm && w.r.IntN(2000) == 0 {
		w.tell("%s dies between the record and the event log", o.t.def.Family)
		w.die(o)
		return
	}
	w.publish(o.t, d.state)
	o.state = d.state
	for _, e := range d.effects {
		w.begin(o, d.state, e)
	}
	o.watch()
	o.wake = d.state.Wake(d.at) // not of now: a save may have taken long
	w.settled(o)
}

// publish appends to the event log what it lacks.
func (w *world) publish(t *task, s lifecycle.State) {
	last := uint64(0)
	if n := len(t.log); n > 0 {
		last = t.log[n-1].Seq
	}
	for _, tr := range s.History {
		if tr.Seq <= last {
			continue
		}
		if tr.Seq != last+1 {
			w.broken("%s: event %d follows %d", t.def.Family, tr.Seq, last)
		}
		w.checkNews(t, tr)
		w.tell("%s: event %d %s %s", t.def.Family, tr.Seq, tr.Container, tr.Status)
		t.log, last = append(t.log, tr), tr.Seq
	}
}

func (w *world) begin(o *owner, s lifecycle.State, e lifecycle.Effect) {
	if c, ok := e.(lifecycle.CancelOp); ok {
		for _, f := range o.flights {
			if f.id == c.ID {
				f.canceled = true
			}
		}
		return
	}
	o.flights = append(o.flights, &flight{effect: e, state: s, id: e.Op()})
}

// watch keeps one wait for each container that is thought to run.
func (o *owner) watch() {
	wanted := o.state.Watches()
	for i := range o.waits {
		if !slices.Contains(wanted, i) {
			delete(o.waits, i)
		}
	}
	for _, i := range wanted {
		if _, ok := o.waits[i]; !ok {
			o.waits[i] = false
		}
	}
}

// settled ends an owner whose task has come to its goal for good.
func (w *world) settled(o *owner) {
	s := o.state
	if !s.Settled() {
		return
	}
	switch {
	case s.Goal == lifecycle.Down && s.Options.Remove:
		o.mailbox = append([]lifecycle.Event{lifecycle.RemoveRequested{By: "--rm"}}, o.mailbox...)
	case s.Goal == lifecycle.Gone:
		w.erase(o)
	case len(o.mailbox) == 0:
		w.tell("%s has stopped", o.t.def.Family)
		w.checkStopped(o)
		o.letGo()
	}
}

func (w *world) erase(o *owner) {
	t := o.t
	w.checkGone(t)
	t.tried = append(t.tried, nil)
	if err := o.store.Delete(t.id); err != nil {
		w.tell("%s: its record cannot be deleted: %v", t.def.Family, err)
		w.consequence(o)
		return
	}
	w.tell("%s is removed", t.def.Family)
	t.acked, t.tried, t.phase = nil, nil, erased
	o.letGo()
}

// letGo ends the owner.
func (o *owner) letGo() {
	o.t.owner = nil
	_ = o.lock.Remove()
	_ = o.host.Close()
}

// do does an operation in flight and puts its answer into the mailbox.
func (w *world) do(o *owner, k int) {
	f := o.flights[k]
	o.flights = slices.Delete(o.flights, k, k+1)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	late := f.canceled && w.r.IntN(2) == 0 // it acts before it hears
	if f.canceled && !late {
		cancel()
	}
	w.beforeDo(o, f)
	answer := o.host.Runtime.Apply(ctx, f.state, f.effect)
	w.count.Operations++
	if answer.Result.Queue != "" {
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
	w.look(o)
	w.afterDo(o, f, answer)
	o.mailbox = append(o.mailbox, answer)
	if w.disk.doom != none { // it came while the ledger was written
		w.consequence(o)
	}
}
