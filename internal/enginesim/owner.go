package enginesim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/podtask/podtask/internal/agent"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/state"
	"github.com/podtask/podtask/pkg/taskdef"
)

// task is one task, whoever owns it.
type task struct {
	id  string
	def taskdef.Task
	// text is def as the records hold it.
	text []byte
	opts lifecycle.Options
	// owner is the process that drives it; nil when there is none.
	owner *owner
	phase phase
	// acked is the record as last acknowledged, nil for none; tried are those
	// written since, of which nobody knows.
	acked []byte
	tried [][]byte
	// log is the task's part of the event log.
	log   []lifecycle.Transition
	truth []truth
	// haunted: Podman made its pod after the death of the owner that asked for it.
	haunted bool
	// foreign is a user's container in the task's pod; empty for none.
	foreign string
}

type phase int

const (
	fresh  phase = iota // not submitted yet
	alive               // submitted
	erased              // removed, or its submission failed
)

func (w *world) newTask(i int) *task {
	t := &task{id: fmt.Sprintf("%016x%016x", w.r.Uint64(), w.r.Uint64()), def: randomTask(w.r, fmt.Sprintf("family%d", i), w.pinned), opts: randomOptions(w.r)}
	if t.id[0]%2 == 0 {
		t.def.Extensions.Network = taskdef.NetworkShared
	}
	if err := t.def.Check(); err != nil {
		panic("enginesim: the random task is not valid: " + err.Error())
	}
	t.recordDefinition()
	t.truth = make([]truth, len(t.def.Containers))
	w.count.Containers += len(t.truth)
	return t
}

// pod and container are the names agent gives.
func (t *task) pod() string { return "podtask-" + t.def.Family + "-" + t.id[:12] }
func (t *task) container(i int) string {
	if i == lifecycle.InfraIndex {
		return t.pod() + "-infra"
	}
	return t.pod() + "-" + t.def.Containers[i].Name
}

// owner is a process of podtask that drives one task, as agent.Owner does.
type owner struct {
	t     *task
	host  *agent.Host
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

func describe(t *task) string {
	return fmt.Sprintf("%s pull %s, remove %t, %s", t.id, t.opts.Pull, t.opts.Remove, t.text)
}

// recordDefinition encodes the definition once for all records, in which it never
// changes, and goes on with what is read back.
func (t *task) recordDefinition() {
	text, err := json.Marshal(t.def)
	if err != nil {
		panic("enginesim: a definition cannot be encoded: " + err.Error())
	}
	t.def, t.text = taskdef.Task{}, text
	if err := json.Unmarshal(text, &t.def); err != nil {
		panic("enginesim: a definition cannot be decoded: " + err.Error())
	}
}

// encode makes the record of a state: what changes, and then the definition.
func (t *task) encode(s lifecycle.State) []byte {
	head, err := json.Marshal(struct {
		lifecycle.State
		Task struct{} `json:"task,omitzero"`
	}{State: s.Durable()})
	if err != nil {
		panic("enginesim: a state cannot be encoded: " + err.Error())
	}
	return slices.Concat(head[:len(head)-1], []byte(definitionKey), t.text, []byte("}"))
}

// definitionKey stands between the two parts of a record.
const definitionKey = `,"task":`

// decode reads a record and checks the state in it.
func (t *task) decode(data []byte) (s lifecycle.State, err error) {
	head, ok := bytes.CutSuffix(data, slices.Concat([]byte(definitionKey), t.text, []byte("}")))
	if !ok {
		return s, errors.New("the definition is another")
	}
	if err := json.Unmarshal(append(slices.Clip(head), '}'), &s); err != nil {
		return s, err
	}
	s.Task = t.def // valid since newTask
	return s, s.Invariants()
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

// mayBe tells whether data may be what is read back.
func (t *task) mayBe(data []byte) bool {
	same := func(d []byte) bool { return (d == nil) == (data == nil) && bytes.Equal(d, data) }
	return same(t.acked) || slices.ContainsFunc(t.tried, same)
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
	answer := o.host.Do(ctx, f.state, f.effect)
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

// die ends an owner without a word. What it had in flight was done, begun or
// neither; or Podman does it later.
func (w *world) die(o *owner) {
	w.count.Kills++
	w.tell("%s loses its owner", o.t.def.Family)
	for _, f := range o.flights {
		if w.r.IntN(2) == 0 {
			if _, ok := f.effect.(lifecycle.PrepareSandbox); ok && w.r.IntN(2) == 0 {
				w.ghosts = append(w.ghosts, ghost{f.effect, f.state})
			}
			continue
		}
		w.fake.Fail(cutOff(w.r.IntN(4)))
		_ = o.host.Do(context.Background(), f.state, f.effect)
		w.tell("%s had %s in flight", o.t.def.Family, short(f.effect))
		w.look(o)
	}
	w.failAgain()
	o.letGo()
	if w.disk.doom != none {
		w.consequence(nil)
	}
}

// ghost is the making of a pod that a dead owner had asked Podman for.
type ghost struct {
	effect lifecycle.Effect
	state  lifecycle.State
}

// haunt lets Podman do what a dead owner had asked for: make a pod, not start it.
func (w *world) haunt() {
	if len(w.ghosts) == 0 {
		return
	}
	g := w.ghosts[0]
	w.ghosts = w.ghosts[1:]
	w.tell("Podman makes the pod of %s, whose owner is dead", g.state.Task.Family)
	host := w.open()
	w.fake.Fail(cutOff(1))
	_ = host.Do(context.Background(), g.state, g.effect)
	w.failAgain()
	_ = host.Close()
	for _, t := range w.tasks {
		t.haunted = t.haunted || t.id == g.state.ID
	}
}

// failAgain lets calls fail as before, once trouble has ceased none.
func (w *world) failAgain() {
	if w.calm {
		w.fake.Fail(nil)
		return
	}
	w.fake.Fail(w.faults)
}

// sweep removes what no task is left for.
func (w *world) sweep() {
	host := w.open()
	removed, err := host.Sweep(context.Background())
	w.count.Swept += len(removed)
	for _, o := range removed {
		w.tell("%s %s is swept away", o.Kind, o.Name)
		for _, t := range w.tasks {
			if t.id == o.Task && !t.mayBe(nil) {
				w.broken("the %s of %s is swept away, and there is the task", o.Kind, t.def.Family)
			}
		}
	}
	if err != nil && w.calm {
		w.broken("it cannot be swept: %v", err)
	}
	_ = host.Close()
	if w.disk.doom != none {
		w.consequence(nil)
	}
}

// consequence draws it from a doom that came while o, or nobody's owner, wrote.
func (w *world) consequence(o *owner) {
	d := w.disk.doom
	w.disk.doom = none
	switch {
	case d == dark:
		w.powerLoss()
	case o != nil:
		w.die(o)
	}
}

// powerLoss ends all that runs, and starts nothing.
func (w *world) powerLoss() {
	w.count.PowerLosses++
	w.tell("the power goes")
	w.ghosts = nil
	for _, t := range w.tasks {
		if t.owner != nil {
			w.die(t.owner)
		}
		if t.phase == erased && (t.acked != nil || t.tried != nil) {
			t.phase = alive // nobody heard that the record is gone: it may be back
		}
	}
	w.disk.lose()
	w.fake.Reboot(w.r.IntN(2) == 0)
	w.look(nil)
}
