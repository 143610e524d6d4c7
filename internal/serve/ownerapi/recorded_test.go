package ownerapi

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/engine"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// An owner that saves its last state and exits after the record was read has not died.
func TestRecordedByAnOwnerThatHasJustEnded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store, err := state.Open(dir, state.OS{})
	if err != nil {
		t.Fatal(err)
	}
	locks, err := state.OpenLocks(dir, state.Holder{})
	if err != nil {
		t.Fatal(err)
	}
	s := Host{Engine: &engine.Engine{Tasks: &record.Tasks{Store: store, Locks: locks}}}
	task, _, err := taskdef.Parse("app.json", []byte(`{"family": "app", "containerDefinitions": [{"name": "app", "image": "registry.example.com/app:1"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	stopping := lifecycle.New(record.NewID(), "", task, lifecycle.Options{}, time.Now())
	stopping.Goal, stopping.Stop.Code, stopping.Containers[0].Ended = lifecycle.Down, lifecycle.StopUserInitiated, true
	stopping.Sandbox.Phase, stopping.Sandbox.Reservation = lifecycle.SandboxStopped, lifecycle.ReservationGranted
	if _, got := s.Recorded(stopping); got.Settled {
		t.Error("a task that is not recorded is settled")
	}
	save := func(st lifecycle.State) {
		t.Helper()
		data, err := json.Marshal(st)
		if err == nil {
			err = store.Put(st.ID, data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	save(stopping)
	if st, got := s.Recorded(stopping); got.Settled || got.Owner.Alive || st.Settled() {
		t.Errorf("its owner has died: %+v", got)
	}
	stopped := stopping
	stopped.Sandbox.Reservation = lifecycle.ReservationNone
	save(stopped)
	if st, got := s.Recorded(stopping); !got.Settled || !st.Settled() {
		t.Errorf("its owner has ended: %+v", got)
	}
}
