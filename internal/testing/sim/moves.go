package sim

import (
	"math/bits"
	"slices"
	"time"

	"github.com/podtask/podtask/internal/engine/decide/driver"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// moves appends all moves that are possible.
func (w *World) moves(out []move) []move {
	for k := range w.flights {
		out = flightMoves(w, out, &w.flights[k])
	}
	for i := range w.truth {
		out = containerMoves(w, out, i)
	}
	out = infraMoves(w, out)
	if w.left.Lates > 0 {
		for k := range w.late {
			out = append(out, move{verb: doubled, arg: k})
		}
	}
	if !w.wake().IsZero() {
		out = append(out, move{verb: timer})
	}
	if w.state.Queued() && w.flightOf(sandbox) == nil {
		out = append(out, move{verb: queueMoves})
	}
	if w.left.Clocks > 0 {
		out = append(out, move{verb: clockBack})
	}
	if w.left.Requests > 0 {
		for k := range requests {
			out = append(out, move{verb: request, arg: k})
		}
	}
	if w.left.Crashes > 0 {
		out = crashMoves(w, out)
	}
	if w.left.Reboots > 0 {
		out = append(out, move{verb: reboot})
	}
	return out
}

func flightMoves(w *World, out []move, f *flight) []move {
	add := func(v verb, arg int) { out = append(out, move{v, f.kind, f.slot, arg}) }
	add(works, 0)
	if f.canceled {
		add(canceled, 0)
	}
	if f.result != nil {
		return out
	}
	if f.canceled {
		add(actsGivenUp, 0)
	}
	if f.kind == lifecycle.Admit && !f.begun && w.share != lifecycle.ReservationGranted && w.left.Queues > 0 {
		add(queued, 0)
	}
	if w.left.Splits > 0 {
		add(acts, 0)
	}
	if w.left.Outages > 0 && asksPodman(f.kind) {
		add(isAway, 0)
		add(actsAway, 0)
		if !w.state.OutageSince.IsZero() && !w.lasting {
			add(staysAway, 0)
		}
	}
	if w.left.Faults == 0 {
		return out
	}
	add(fails, int(lifecycle.Temporary))
	add(fails, int(lifecycle.Permanent))
	add(actsFails, int(lifecycle.Timeout))
	switch f.kind {
	case lifecycle.Launch:
		if !anyRan(w) {
			add(discards, int(lifecycle.Temporary))
		}
	case lifecycle.Create:
		add(fails, int(lifecycle.NoImage))
	case lifecycle.Probe, lifecycle.PostStart, lifecycle.PreStop:
		add(unhealthy, 0)
	case lifecycle.Remove:
		add(actsFails, int(lifecycle.Permanent))
	}
	return out
}

// asksPodman reports whether Podman carries an operation out.
func asksPodman(k lifecycle.Kind) bool {
	return k != lifecycle.Resolve && k != lifecycle.Admit && k != lifecycle.Release && k != lifecycle.Flush
}

// anyRan reports whether a container of the task has ever run.
func anyRan(w *World) bool {
	return slices.ContainsFunc(w.truth, func(t truth) bool { return t.runs > 0 || t.vanished })
}

func infraMoves(w *World, out []move) []move {
	if w.pod == lifecycle.SandboxReady && sharedNetwork(w) && w.left.Meddles > 0 {
		out = append(out, move{verb: podEnds})
	}
	if hintDue(w, sandbox) || w.state.WatchesInfra() && w.left.Alarms > 0 {
		out = append(out, move{verb: hint, slot: sandbox})
	}
	return out
}

func containerMoves(w *World, out []move, i int) []move {
	t := &w.truth[i]
	running := t.presence == lifecycle.Running && !t.paused
	if at := aged(w, i); running && at.After(w.now) && w.state.Task.Containers[i].Restart != nil && w.left.Exits > 0 {
		out = append(out, move{verb: ages, slot: i})
	}
	if running && w.left.Meddles > 0 {
		out = append(out, move{verb: pauses, slot: i}, move{verb: restarts, slot: i})
	}
	if t.paused {
		out = append(out, move{verb: resumes, slot: i})
	}
	if running && w.left.Exits > 0 {
		out = append(out, move{verb: exits, slot: i, arg: 0}, move{verb: exits, slot: i, arg: 1})
	}
	if w.truth[i].presence != lifecycle.Absent && w.left.Vanishes > 0 {
		out = append(out, move{verb: vanishes, slot: i})
	}
	if hintDue(w, i) || w.left.Alarms > 0 {
		out = append(out, move{verb: hint, slot: i})
	}
	return out
}

// aged is the time at which the present run of a container has lasted for the attempt period of
// its restart policy; zero without one.
func aged(w *World, i int) time.Time {
	p := w.state.Task.Containers[i].Restart
	if p == nil {
		return time.Time{}
	}
	return epoch.Add(w.truth[i].started + p.AttemptPeriod)
}

// crashMoves takes in every set of operations that have acted unnoticed, up to
// two of them.
func crashMoves(w *World, out []move) []move {
	for set := range 1 << len(w.flights) {
		if bits.OnesCount(uint(set)) > 2 {
			continue
		}
		slots := 0
		for k := range w.flights {
			if set>>k&1 == 1 {
				slots |= 1 << (w.flights[k].slot + 1)
			}
		}
		out = append(out, move{verb: crash, arg: slots})
	}
	return out
}

// wake is the time at which the driver's timer fires, in the past if it is due; zero for never.
func (w *World) wake() time.Time {
	wake := w.state.Wake(w.stepped)
	if w.driver == nil || w.driver.Rewatch().IsZero() || !wake.IsZero() && wake.Before(w.driver.Rewatch()) {
		return wake
	}
	return w.driver.Rewatch()
}

// hintDue: the driver watches what the state says runs, and tells when it does not.
func hintDue(w *World, i int) bool {
	if w.driver != nil && !w.driver.Watching(driver.Watch(i)) {
		return false
	}
	if i == sandbox {
		run := w.state.Sandbox.InfraStartedAt
		return w.state.WatchesInfra() && (w.pod != lifecycle.SandboxReady || !run.IsZero() && !run.Equal(epoch.Add(w.podStarted)))
	}
	c := &w.state.Containers[i]
	return c.Presence == lifecycle.Running && !c.Ended && !c.Stale && w.truth[i].presence != lifecycle.Running
}
