package enginesim

import (
	"time"

	"github.com/podtask/podtask/internal/engine/decide/driver"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/testing/enginetest"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// moves are what may happen, and how often.
var moves = []struct {
	weight int
	make   func(*world)
}{
	{300, work},
	{40, func(w *world) { w.passTime(time.Duration(w.r.IntN(4000)) * time.Millisecond) }},
	{30, func(w *world) {
		if t := pick(w, fresh); t != nil {
			submit(w, t)
		}
	}},
	{30, func(w *world) { w.recover(pick(w, alive)) }},
	{8, func(w *world) { request(w, pick(w, alive)) }},
	{4, func(w *world) { protect(w, pick(w, alive)) }},
	{6, killOwner},
	{1, powerLoss},
	{3, outage},
	{10, falseAlarm},
	{5, disturb},
	{4, haunt},
	{2, sweep},
	{2, func(w *world) { w.push(w.r.IntN(imageMissing)) }},
	{3, func(w *world) { w.fake.RemoveImage(imageName(w.r.IntN(imageMissing))) }},
	{1, setClock},
	{2, func(w *world) { w.fake.TakePort(firstPort+uint16(w.r.IntN(5)), "tcp", w.r.IntN(2) == 0) }},
}

var totalWeight = func() (sum int) {
	for _, m := range moves {
		sum += m.weight
	}
	return sum
}()

// move lets one thing happen.
func move(w *world) {
	w.count.Moves++
	n := w.r.IntN(totalWeight)
	for _, m := range moves {
		if n -= m.weight; n < 0 {
			m.make(w)
			break
		}
	}
	look(w, nil)
}

// pick returns a task in a phase, or nil.
func pick(w *world, p phase) *task {
	var all []*task
	for _, t := range w.tasks {
		if t.phase == p {
			all = append(all, t)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[w.r.IntN(len(all))]
}

// work does something that is due, or lets time pass until something is.
func work(w *world) {
	if !tryWork(w) {
		if at := w.next(); !at.IsZero() {
			w.passTime(at.Sub(w.clock.now))
		}
	}
}

// tryWork does one thing that is due, if there is one.
func tryWork(w *world) bool {
	var due []func()
	for _, t := range w.tasks {
		if o := t.owner; o != nil {
			due = w.due(o, due)
		}
	}
	if len(due) == 0 {
		return false
	}
	due[w.r.IntN(len(due))]()
	return true
}

// due adds what an owner could do now.
func (w *world) due(o *process, all []func()) []func() {
	now := w.clock.now
	for k := range o.flights {
		all = append(all, func() { do(w, o, k) })
	}
	for i := lifecycle.InfraIndex; i < len(o.t.def.Containers); i++ {
		if o.watching(driver.Watch(i)) && waitReturns(w.fake, o.t.container(i)) {
			o.hint(i)
		}
	}
	if o.watching(driver.Queue) && w.r.IntN(20) == 0 { // a change may also be missed
		o.mailbox = append(o.mailbox, lifecycle.QueueMoved{})
	}
	if !o.wake.IsZero() && !o.wake.After(now) {
		o.wake = time.Time{}
		o.mailbox = append(o.mailbox, lifecycle.TimerFired{})
	}
	switch {
	case len(o.mailbox) > o.kept:
		all = append(all, func() { w.step(o, o.kept+1+w.r.IntN(len(o.mailbox)-o.kept)) })
	case !o.retryAt.IsZero() && !o.retryAt.After(now):
		all = append(all, func() {
			o.mailbox = append(o.mailbox, lifecycle.TimerFired{})
			w.step(o, len(o.mailbox))
		})
	}
	return all
}

// waitReturns reports whether a wait for the end of a container returns.
func waitReturns(fake *enginetest.Fake, name string) bool {
	seen := fake.See(name)
	return seen.Status != libpod.Running || seen.Unmonitored
}

// next is the time at which something is due that is not yet; zero for never.
func (w *world) next() (at time.Time) {
	consider := func(t time.Time) {
		if t.After(w.clock.now) && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	for _, t := range w.tasks {
		if o := t.owner; o != nil {
			consider(o.wake)
			consider(o.retryAt)
		}
	}
	if due, ok := w.fake.Due(); ok {
		consider(due)
	}
	return at
}

func (w *world) passTime(d time.Duration) {
	w.clock.now = w.clock.now.Add(max(d, 0))
}

// setClock sets the clock of the host by up to a day, back or forward. Timers that run do
// not depend on it; those that are computed from a record do.
func setClock(w *world) {
	by := time.Duration(w.r.Int64N(int64(48*time.Hour))) - 24*time.Hour
	w.clock.now = w.clock.now.Add(by)
	w.disk.fullUntil = w.disk.fullUntil.Add(by)
	for _, t := range w.tasks {
		if o := t.owner; o != nil && !o.retryAt.IsZero() {
			o.retryAt = o.retryAt.Add(by)
		}
		if o := t.owner; o != nil && !o.wake.IsZero() {
			o.wake = o.wake.Add(by)
		}
	}
	w.tell("the clock is set by %s", by)
}

// recover gives a task without an owner one, as any command on it would.
func (w *world) recover(t *task) {
	if t != nil && t.owner == nil && t.phase == alive {
		own(w, t)
	}
}

// request is a user's: stop, kill, remove, remove at once, or restart a container.
func request(w *world, t *task) {
	w.recover(t)
	if t == nil || t.owner == nil {
		return
	}
	force := w.r.IntN(3) == 0
	if w.r.IntN(4) == 0 {
		i := w.r.IntN(len(t.def.Containers))
		t.truth[i].asked = true
		t.owner.mailbox = append(t.owner.mailbox, lifecycle.RestartRequested{Container: i})
		return
	}
	if w.r.IntN(2) == 0 {
		t.owner.mailbox = append(t.owner.mailbox, lifecycle.StopRequested{By: "user", Force: force})
	} else {
		t.owner.mailbox = append(t.owner.mailbox, lifecycle.RemoveRequested{By: "user", Force: force})
	}
}

// service is who stops tasks for a service, and leaves protected ones alone.
const service = "service web"

// protect has a task change its protection, or its service stop it.
func protect(w *world, t *task) {
	w.recover(t)
	if t == nil || t.owner == nil {
		return
	}
	var ev lifecycle.Event = lifecycle.StopRequested{By: service, Spare: true}
	switch w.r.IntN(8) {
	case 0:
	case 1:
		ev = lifecycle.ProtectionRequested{}
	default:
		ev = lifecycle.ProtectionRequested{Until: w.clock.now.Add(time.Duration(w.r.IntN(300)) * time.Second)}
	}
	t.owner.mailbox = append(t.owner.mailbox, ev)
}

func killOwner(w *world) {
	if t := pick(w, alive); t != nil && t.owner != nil {
		die(w, t.owner)
	}
}

// falseAlarm is a wait that was cut off.
func falseAlarm(w *world) {
	t := pick(w, alive)
	if t == nil || t.owner == nil {
		return
	}
	for i := lifecycle.InfraIndex; i < len(t.def.Containers); i++ {
		if t.owner.watching(driver.Watch(i)) {
			t.owner.hint(i)
			return
		}
	}
}

// disturb is what users and the kernel do to a container behind our back.
func disturb(w *world) {
	t := pick(w, alive)
	if t == nil {
		return
	}
	victim := w.r.IntN(len(t.def.Containers))
	name := t.container(victim)
	did := false
	switch w.r.IntN(8) {
	case 0:
		did = w.fake.Remove(name)
	case 1:
		did = w.fake.Kill(name, 137, false)
	case 2:
		did = w.fake.Kill(name, 137, true)
	case 3:
		did = w.fake.Kill(name, w.r.IntN(3), false)
	case 4:
		name = t.pod() + "-infra"
		did = w.fake.Kill(name, 137, false)
	case 5:
		intrude(w, t)
	case 6:
		did = w.fake.KillMonitor(name)
		t.truth[victim].unmonitored = t.truth[victim].unmonitored || did
	case 7:
		name = t.pod() + "-infra"
		did = w.fake.KillMonitor(name)
	}
	if did {
		w.tell("a user kills or removes %s", name)
	}
}

// intrude puts a user's container into a task's pod, or takes it out.
func intrude(w *world, t *task) {
	switch {
	case t.foreign != "":
		w.fake.Remove(t.foreign)
		w.tell("a user removes %s", t.foreign)
		t.foreign = ""
	case w.fake.Make("foreign-"+t.id, t.pod(), imageName(0)):
		t.foreign = "foreign-" + t.id
		w.tell("a user puts %s into the pod", t.foreign)
	}
}

// cutOff lets n calls work and no more, as they do for a process that is killed.
func cutOff(n int) enginetest.Faults {
	return func(enginetest.Call) enginetest.Fault {
		if n--; n >= 0 {
			return enginetest.Fault{}
		}
		return enginetest.Fault{Moment: enginetest.Before, Class: libpod.Unavailable}
	}
}

// outage takes Podman's service away for a while, or makes its storage read-only.
func outage(w *world) {
	seconds, class := time.Duration(w.r.IntN(20)), libpod.Unavailable
	if seconds%4 == 3 {
		class = libpod.ReadOnly
	}
	w.tell("Podman fails for %ds: %v", seconds, class)
	w.fake.Down(w.clock.now.Add(seconds*time.Second), class)
}
