package enginesim

import (
	"context"
	"time"

	"github.com/podtask/podtask/internal/engine/act/admit"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// patience is the time for which a container that could be healthy is given to become so.
const patience = 10 * time.Minute

// maxRest is how many moves bring any world to rest.
const maxRest = 20000

// finish lets all trouble cease, and brings every task to its goal, down, and
// away.
func finish(w *world) {
	w.calm = true
	checkForeign(w)
	w.tell("all trouble ceases")
	w.fake.Fail(nil)
	w.fake.Down(time.Time{}, libpod.Unavailable)
	w.disk.fullUntil = time.Time{}
	for port := range uint16(5) {
		w.fake.TakePort(firstPort+port, "tcp", false)
	}
	for _, t := range w.tasks {
		if t.foreign != "" {
			w.fake.Remove(t.foreign)
			t.foreign = ""
		}
		if t.phase == fresh {
			submit(w, t)
		}
		w.recover(t)
	}
	rest(w)
	ask(w, lifecycle.StopRequested{By: "user"})
	ask(w, lifecycle.RemoveRequested{By: "user"})
	for len(w.ghosts) > 0 {
		haunt(w)
	}
	sweep(w)
	checkEmpty(w)
}

// ask sends a request to every task there is, and checks that it is granted.
func ask(w *world, ev lifecycle.Event) {
	for _, t := range w.tasks {
		w.recover(t)
		if t.owner != nil {
			t.owner.mailbox = append(t.owner.mailbox, ev)
		}
	}
	rest(w)
	for _, t := range w.tasks {
		if t.owner != nil {
			w.broken("%s does not come down: %s", t.def.Family, t.owner.state.Status())
		}
	}
}

// checkEmpty checks that nothing is left anywhere.
func checkEmpty(w *world) {
	for _, t := range w.tasks {
		if t.phase != erased {
			w.broken("%s cannot be removed", t.def.Family)
		}
	}
	if left := w.fake.Left(""); len(left) > 0 {
		w.broken("in the end there is left: %v", left)
	}
	host := w.open()
	takeStaleShares(w, host.Queue)
	if shares := host.Queue.Reservations(); len(shares) > 0 {
		w.broken("in the end there are shares left: %v", shares)
	}
	_ = host.Close()
	store, err := state.Open(w.dir, w.disk)
	if err != nil {
		w.broken("the store does not open: %v", err)
	}
	for r, err := range store.All(nil) {
		w.broken("in the end there is a record of %s (%v)", r.Key, err)
	}
}

// takeStaleShares lets one more task ask. It takes the shares of tasks that were removed while
// the disk was full.
func takeStaleShares(w *world, queue *admit.Queue) {
	last := lifecycle.State{ID: "last"}
	if _, err := queue.Admit(context.Background(), last, lifecycle.AdmitTask{}); err != nil {
		w.broken("in the end a task cannot ask for its share: %v", err)
	}
	if err := queue.Release(context.Background(), last.ID); err != nil {
		w.broken("in the end a task cannot leave the queue: %v", err)
	}
}

// rest continues until every task that has an owner is steady and nothing is due. Health
// checks that take longer than their interval follow each other without a pause. So, once
// something has been due all the time for longer than patience, health checks do not count.
func rest(w *world) {
	idle := w.clock.now // when nothing was due
	for range maxRest {
		w.count.Moves++
		look(w, nil)
		checking := w.clock.now.Sub(idle) > patience && w.onlyChecks()
		if !checking && tryWork(w) || nudge(w) {
			continue
		}
		steady := true
		for _, t := range w.tasks {
			steady = steady && (t.owner == nil || w.steady(t.owner))
		}
		if steady {
			return
		}
		if checking && tryWork(w) {
			continue
		}
		at := w.next()
		if at.IsZero() {
			w.broken("nothing happens any more: %s", unsteady(w))
		}
		w.passTime(at.Sub(w.clock.now))
		idle = w.clock.now
	}
	w.broken("the world does not come to rest: %s", unsteady(w))
}

// onlyChecks reports whether owners have nothing to do but health checks.
func (w *world) onlyChecks() bool {
	for _, t := range w.tasks {
		o := t.owner
		if o == nil {
			continue
		}
		for _, f := range o.flights {
			if _, ok := f.effect.(lifecycle.CheckHealth); !ok {
				return false
			}
		}
		if len(o.mailbox) > 0 {
			return false
		}
	}
	return true
}

// unsteady names the first task that is not steady.
func unsteady(w *world) string {
	for _, t := range w.tasks {
		if t.owner != nil && !w.steady(t.owner) {
			return t.def.Family + " is " + t.owner.state.Status().String()
		}
	}
	return ""
}

// steady: the task is up, and everything that should run does; or it waits for its
// share, and rightly so.
func (w *world) steady(o *process) bool {
	if o.state.Queued() {
		v, waits := o.host.Queue.Waiting()[o.t.id]
		return waits && !v.Admitted
	}
	if o.state.Goal != lifecycle.Up || !o.retryAt.IsZero() {
		return false
	}
	for i, c := range o.state.Containers {
		if !c.Ended && (c.Presence != lifecycle.Running || c.Stale || !o.t.truth[i].running) {
			return false
		}
	}
	return true
}

// nudge lets one container do what another waits for.
func nudge(w *world) bool {
	for _, t := range w.tasks {
		o := t.owner
		if o == nil || o.state.Goal != lifecycle.Up {
			continue
		}
		for i, c := range o.state.Containers {
			if c.Ended || c.Presence >= lifecycle.Running {
				continue
			}
			for _, d := range t.def.Containers[i].DependsOn {
				if nudgeFor(w, t, d) {
					return true
				}
			}
		}
	}
	return false
}

func nudgeFor(w *world, t *task, d taskdef.Dependency) bool {
	name := t.container(d.Container)
	switch d.Condition {
	case taskdef.Complete, taskdef.Success:
		return w.fake.Kill(name, 0, false)
	case taskdef.Start, taskdef.Healthy:
		if d.Condition == taskdef.Start && t.def.Containers[d.Container].Extensions.Probes.Startup == nil {
			return false
		}
		c := &t.truth[d.Container]
		if c.running && c.nudged.IsZero() {
			c.nudged = w.clock.now
			return w.fake.Write(name, healthy, "")
		}
		// One whose check takes too long never becomes healthy.
		if w.clock.now.Sub(c.nudged) > patience {
			return w.fake.Kill(name, 0, false)
		}
	}
	return false
}
