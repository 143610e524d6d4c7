package driver

import (
	"reflect"
	"testing"

	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/service"
)

func TestAStepThatCannotBeSavedIsUndone(t *testing.T) {
	t.Parallel()
	d, twin := NewTask(newState(), 0, EncodeTask), NewTask(newState(), 0, EncodeTask)
	first := step(t, d, at, lifecycle.Restarted{})
	step(t, twin, at, lifecycle.Restarted{})
	resolved := lifecycle.OpFinished{ID: first.Start[0].Op(), Result: lifecycle.Result{Digest: "sha256:1"}}
	lost := step(t, d, at, lifecycle.TimerFired{}, resolved, lifecycle.QueueMoved{}, lifecycle.QueueMoved{})
	if lost.Record == nil || len(lost.Start) == 0 || lost.Outcome().Lowers {
		t.Fatalf("the step saves %s, starts %v and lowers: %t", lost.Record, lost.Start, lost.Outcome().Lowers)
	}
	batch := d.Undo([]lifecycle.Event{lifecycle.TimerFired{}, resolved, lifecycle.QueueMoved{}, lifecycle.QueueMoved{}})
	if want := []lifecycle.Event{resolved, lifecycle.QueueMoved{}}; !reflect.DeepEqual(batch, want) {
		t.Errorf("%v is kept, want %v", batch, want)
	}
	again, want := step(t, d, at, batch...), step(t, twin, at, batch...)
	if !reflect.DeepEqual(again, want) {
		t.Errorf("after an undone step it decides %+v, want %+v", again, want)
	}
}

func TestARequestComesFirstAfterAnUndoneStep(t *testing.T) {
	t.Parallel()
	stop, remove := lifecycle.StopRequested{By: "test"}, lifecycle.RemoveRequested{By: "test", Force: true}
	d := NewTask(runningState(), 0, EncodeTask)
	step(t, d, at)
	got := d.Undo([]lifecycle.Event{lifecycle.Hinted{Index: 0}, stop, lifecycle.Restarted{}, stop, remove, lifecycle.Hinted{Index: 0}})
	if want := []lifecycle.Event{lifecycle.Restarted{}, stop, remove, lifecycle.Hinted{Index: 0}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestStoppingNeedsNoSave(t *testing.T) {
	t.Parallel()
	stop := lifecycle.StopRequested{By: "test"}
	d := NewTask(runningState(), 0, EncodeTask)
	stopping := step(t, d, at, stop)
	if o := stopping.Outcome(); !o.Lowers || len(stopping.Start) == 0 {
		t.Fatalf("a stop lowers: %t, and starts %v", o.Lowers, stopping.Start)
	}
	d.Unsaved()
	if again := step(t, d, at); again.Record == nil {
		t.Error("what was not saved is not to be saved later")
	}
	// An owner that has just taken the task over is asked to stop it.
	taken := NewTask(newState(), 0, EncodeTask)
	if got := step(t, taken, at, lifecycle.Restarted{}, stop); !got.Outcome().Lowers {
		t.Errorf("it does not lower, because of %v", got.Start)
	}
	if got := step(t, NewTask(settledState(lifecycle.Gone), 0, EncodeTask), at); !got.Outcome().Erases {
		t.Error("a task that is removed needs a record")
	}
	if got := step(t, NewTask(settledState(lifecycle.Down), 0, EncodeTask), at); got.Outcome().Erases {
		t.Error("a task that has stopped needs no record")
	}
}

func TestAServiceForgetsTimersThatWereUndone(t *testing.T) {
	t.Parallel()
	v := &Service{}
	heard := Message{Input: service.Heard{}}
	got := v.Undo([]Message{{Input: service.TimerFired{}}, heard, {Input: service.TimerFired{}}})
	if want := []Message{heard}; !reflect.DeepEqual(got, want) {
		t.Errorf("it keeps %v, want %v", got, want)
	}
}
