package sim

import (
	"fmt"
	"slices"

	"github.com/podtask/podtask/pkg/lifecycle"
)

// flight is an operation that was asked for and has not answered.
type flight struct {
	id       lifecycle.OpID
	kind     lifecycle.Kind
	slot     int // the container, or sandbox
	canceled bool
	gentle   bool
	begun    bool // an Admit that is not to be refused
	probe    lifecycle.ProbeKind
	result   *lifecycle.Result // its answer, if it has acted
}

// sandbox is the slot of the sandbox's operations.
const sandbox = -1

// keptAnswers is the number of answers of the past that a full world may deliver again.
const keptAnswers = 16

// ask takes in an effect.
func (w *World) ask(e lifecycle.Effect) {
	f := flight{slot: sandbox}
	switch e := e.(type) {
	case lifecycle.AdmitTask:
		f.id, f.kind, f.begun = e.ID, lifecycle.Admit, e.Begun
	case lifecycle.ReleaseTask:
		f.id, f.kind = e.ID, lifecycle.Release
	case lifecycle.CreateSandbox:
		f.id, f.kind = e.ID, lifecycle.Prepare
	case lifecycle.RunSandbox:
		f.id, f.kind = e.ID, lifecycle.Launch
	case lifecycle.InspectSandbox:
		f.id, f.kind = e.ID, lifecycle.Inspect
	case lifecycle.StopSandbox:
		f.id, f.kind = e.ID, lifecycle.Halt
	case lifecycle.RemoveSandbox:
		f.id, f.kind = e.ID, lifecycle.Remove
	case lifecycle.ResolveImage:
		f.id, f.kind, f.slot = e.ID, lifecycle.Resolve, e.Index
	case lifecycle.PullImage:
		f.id, f.kind, f.slot = e.ID, lifecycle.Pull, e.Index
	case lifecycle.CreateContainer:
		f.id, f.kind, f.slot = e.ID, lifecycle.Create, e.Index
	case lifecycle.StartContainer:
		f.id, f.kind, f.slot = e.ID, lifecycle.Start, e.Index
	case lifecycle.StopContainer:
		f.id, f.kind, f.slot, f.gentle = e.ID, lifecycle.Stop, e.Index, e.Grace > 0
	case lifecycle.InspectContainer:
		f.id, f.kind, f.slot = e.ID, lifecycle.Inspect, e.Index
	case lifecycle.CheckHealth:
		f.id, f.kind, f.slot, f.probe = e.ID, lifecycle.Probe, e.Index, e.Probe
	case lifecycle.RunHook:
		f.id, f.kind, f.slot = e.ID, e.Hook, e.Index
	case lifecycle.FlushLogs:
		f.id, f.kind, f.slot = e.ID, lifecycle.Flush, e.Index
	case lifecycle.CancelOp:
		w.cancel(e.ID)
		return
	default:
		panic(fmt.Sprintf("sim: unknown effect %T", e))
	}
	checkAsked(w, f, e)
	w.flights = append(w.flights, f)
}

func (w *World) cancel(id lifecycle.OpID) {
	for k := range w.flights {
		if f := &w.flights[k]; f.id == id && !f.canceled {
			f.canceled = true
			return
		}
	}
	w.broken(CancelUseless, "operation %d is not in flight or was cancelled before", id)
}

// flightOf returns the flight of a slot, or nil.
func (w *World) flightOf(slot int) *flight {
	for k := range w.flights {
		if w.flights[k].slot == slot {
			return &w.flights[k]
		}
	}
	return nil
}

// answer lands the flight of a slot and delivers its answer.
func (w *World) answer(slot int, fail lifecycle.Failure, r lifecycle.Result) {
	k := slices.IndexFunc(w.flights, func(f flight) bool { return f.slot == slot })
	ev := lifecycle.OpFinished{ID: w.flights[k].id, Failure: fail, Result: r}
	if fail.Class != lifecycle.Canceled && slot != sandbox {
		t := &w.truth[slot]
		t.stopHook = t.stopHook || w.flights[k].kind == lifecycle.PreStop
		t.flushed = t.flushed || w.flights[k].kind == lifecycle.Flush
	}
	w.flights = slices.Delete(w.flights, k, k+1)
	if w.left.Lates > 0 {
		keep(w, ev)
	}
	w.step(ev)
}

// keep notes an answer that may be delivered again. Unless the world is full
// only the latest is kept.
func keep(w *World, ev lifecycle.OpFinished) {
	kept := 1
	if w.driver != nil {
		kept = keptAnswers
	}
	w.late = append(slices.Clone(w.late), &ev)
	w.late = w.late[max(0, len(w.late)-kept):]
}

// outcome answers with what the flight of a slot found out, or with a failure
// where the truth does not permit success.
func outcome(w *World, slot int) {
	f := w.flightOf(slot)
	if f.result == nil {
		act(w, f)
	}
	r := *f.result
	switch {
	case f.kind == lifecycle.Launch && r.Seen.Presence == lifecycle.Absent, f.kind == lifecycle.Create && r.Seen.Presence == lifecycle.Absent:
		w.answer(slot, lifecycle.Failure{Class: lifecycle.Temporary, Message: "no such pod"}, lifecycle.Result{})
	case f.kind == lifecycle.Start && r.Seen.Presence == lifecycle.Absent:
		w.answer(slot, lifecycle.Failure{Class: lifecycle.Permanent, Message: "no such container"}, lifecycle.Result{})
	case inside(f.kind) && (w.truth[slot].presence != lifecycle.Running || w.truth[slot].paused):
		w.answer(slot, lifecycle.Failure{Class: lifecycle.Permanent, Message: "not running"}, lifecycle.Result{})
	default:
		w.answer(slot, lifecycle.Failure{}, r)
	}
}

// inside reports whether an operation needs a container that runs.
func inside(k lifecycle.Kind) bool {
	return k == lifecycle.Probe || k == lifecycle.PostStart || k == lifecycle.PreStop
}
