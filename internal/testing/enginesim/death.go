package enginesim

import (
	"context"

	"github.com/podtask/podtask/pkg/lifecycle"
)

// die ends an owner without a word. What it had in flight was done, begun or
// neither; or Podman does it later.
func die(w *world, o *process) {
	w.count.Kills++
	w.tell("%s loses its owner", o.t.def.Family)
	for _, f := range o.flights {
		if w.r.IntN(2) == 0 {
			if _, ok := f.effect.(lifecycle.CreateSandbox); ok && w.r.IntN(2) == 0 {
				w.ghosts = append(w.ghosts, ghost{f.effect, f.state})
			}
			continue
		}
		w.fake.Fail(cutOff(w.r.IntN(4)))
		_ = o.host.Runtime.ApplyWith(context.Background(), o.endpoint, f.state, f.effect)
		w.tell("%s had %s in flight", o.t.def.Family, short(f.effect))
		look(w, o)
	}
	failAgain(w)
	o.t.foreground = false
	o.release()
	if w.disk.doom != none {
		consequence(w, nil)
	}
}

// ghost is the making of a pod that a dead owner had asked Podman for.
type ghost struct {
	effect lifecycle.Effect
	state  lifecycle.State
}

// haunt lets Podman do what a dead owner had asked for: make a pod, not start it.
func haunt(w *world) {
	if len(w.ghosts) == 0 {
		return
	}
	g := w.ghosts[0]
	w.ghosts = w.ghosts[1:]
	w.tell("Podman makes the pod of %s, whose owner is dead", g.state.Task.Family)
	host := w.open()
	w.fake.Fail(cutOff(1))
	_ = host.Runtime.Apply(context.Background(), g.state, g.effect)
	failAgain(w)
	_ = host.Close()
	for _, t := range w.tasks {
		t.haunted = t.haunted || t.id == g.state.ID
	}
}

// failAgain lets calls fail as before, once trouble has ceased none.
func failAgain(w *world) {
	if w.calm {
		w.fake.Fail(nil)
		return
	}
	w.fake.Fail(w.faults)
}

// sweep removes what no task is left for.
func sweep(w *world) {
	host := w.open()
	removed, err := host.Orphans.Sweep(context.Background())
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
		consequence(w, nil)
	}
}

// consequence applies a crash of the disk that came while o wrote; o may be nil.
func consequence(w *world, o *process) {
	d := w.disk.doom
	w.disk.doom = none
	switch {
	case d == dark:
		powerLoss(w)
	case o != nil:
		die(w, o)
	}
}

// powerLoss ends all that runs, and starts nothing.
func powerLoss(w *world) {
	w.count.PowerLosses++
	w.tell("the power goes")
	w.ghosts = nil
	for _, t := range w.tasks {
		if t.owner != nil {
			die(w, t.owner)
		}
		if t.phase == erased && (t.record.acked != nil || t.record.tried != nil) {
			t.phase = alive // the deletion was not confirmed: the record may be back
		}
	}
	w.disk.lose()
	w.fake.Reboot(w.r.IntN(2) == 0)
	look(w, nil)
}
