package owner_test

import (
	"encoding/json"
	"testing"

	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/internal/testing/enginehost"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// Podman may create what a killed owner has requested after the task was removed.
func TestNextOwnerSweepsAfterATaskWasErasedInTheMaking(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	host.Start(host.Box(0, 0, "exit", "0"), "").Wait() // sweeps, so that none is due
	e := host.Open()
	id := host.Create(e, host.Box(0, 0, "sleep", "forever"), "", enginehost.Admitted).ID
	st, err := e.Tasks.Find(id)
	if err != nil {
		t.Fatal(err)
	}
	// An owner has resolved, asked for the pod, and was killed.
	st.Sandbox.Reservation, st.Sandbox.Dirty, st.Containers[0].Resolved = lifecycle.ReservationGranted, true, true
	store, err := state.Open(host.StateDir(), state.OS{})
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(st)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Put(id, data); err != nil {
		t.Fatal(err)
	}
	r := host.Own(e, id)
	r.Owner.Send(lifecycle.RemoveRequested{By: "test"})
	r.Wait()
	host.CreatePod("late", id, host.StateDir())
	host.Start(host.Box(0, 0, "sleep", "50ms", "--", "exit", "0"), "").Wait()
	if left := host.Podman.Left(id); len(left) > 0 {
		t.Errorf("there is left: %v", left)
	}
}
