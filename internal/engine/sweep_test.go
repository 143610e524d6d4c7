package engine_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/engine/cleanup"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/internal/testing/enginetest"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// pod makes a pod behind podtask's back, for a task of a state directory.
func (s *site) pod(name, id, stateDir string) {
	s.t.Helper()
	_, err := enginetest.EnsurePod(s.t.Context(), s.podman, libpod.PodSpec{Name: name, TaskID: id, Network: "none", Labels: map[string]string{"podtask.state-dir": stateDir}})
	if err != nil {
		s.t.Fatal(err)
	}
}

func TestSweepRemovesPodsWithoutATask(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	h := s.process()
	stateDir := filepath.Join(s.dir, "state")
	orphan, elsewhere, owned := strings.Repeat("1", 32), strings.Repeat("2", 32), s.create(h, s.box(0, 0, "exit", "0"), "")
	s.pod("orphan", orphan, stateDir)
	s.pod("elsewhere", elsewhere, "/another/state")
	s.pod("recorded", owned, stateDir)
	s.pod("strange", "no id", stateDir)
	removed, err := h.Orphans.Sweep(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []cleanup.Orphan{{Kind: "pod", Name: "orphan", Task: orphan}}
	if !slices.Equal(removed, want) {
		t.Errorf("removed %v, want %v", removed, want)
	}
	if left := s.podman.Left(orphan); len(left) > 0 {
		t.Errorf("there is left: %v", left)
	}
	for _, id := range []string{elsewhere, owned, "no id"} {
		if len(s.podman.Left(id)) == 0 {
			t.Errorf("the pod of %s is gone", id)
		}
	}
	if again, err := h.Orphans.Sweep(t.Context()); err != nil || len(again) > 0 {
		t.Errorf("a second time it removes %v (%v)", again, err)
	}
}

// A pod is made only under its task's lock, so a sweep in that moment leaves it.
func TestSweepLeavesWhatAnOwnerIsAboutToMake(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.running(0, "")
	record := filepath.Join(s.dir, "state", "tasks", r.id+".json")
	content, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(record); err != nil {
		t.Fatal(err)
	}
	if removed, err := s.process().Orphans.Sweep(t.Context()); err != nil || len(removed) > 0 {
		t.Errorf("removed %v (%v)", removed, err)
	}
	if err := os.WriteFile(record, content, 0o600); err != nil {
		t.Fatal(err)
	}
	r.stop()
}

// What a killed owner had asked Podman for may be made after the task was removed.
func TestNextOwnerSweepsAfterATaskWasErasedInTheMaking(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.run(s.box(0, 0, "exit", "0"), "").end() // sweeps, so that none is due
	h := s.process()
	id := s.create(h, s.box(0, 0, "sleep", "forever"), "")
	st, err := h.Tasks.Find(id)
	if err != nil {
		t.Fatal(err)
	}
	// An owner has resolved, asked for the pod, and was killed.
	st.Sandbox.Reservation, st.Sandbox.Dirty, st.Containers[0].Resolved = lifecycle.ReservationGranted, true, true
	store, err := state.Open(filepath.Join(s.dir, "state"), state.OS{})
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
	r := s.own(h, id)
	r.owner.Send(lifecycle.RemoveRequested{By: "test"})
	r.end()
	s.pod("late", id, filepath.Join(s.dir, "state"))
	s.run(s.box(0, 0, "sleep", "50ms", "--", "exit", "0"), "").end()
	if left := s.podman.Left(id); len(left) > 0 {
		t.Errorf("there is left: %v", left)
	}
}

// A corrupt record says nothing of its task, so what has its labels stays until the user
// asks for the removal.
func TestCorruptRecordIsRemovedOnRequestWithWhatBelongsToIt(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.running(0, "")
	r.kill()
	record := filepath.Join(s.dir, "state", "tasks", r.id+".json")
	if err := os.WriteFile(record, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := s.process()
	_, _ = h.Tasks.States() // moves it aside
	if removed, err := h.Orphans.Sweep(t.Context()); err != nil || len(removed) > 0 || len(s.podman.Left(r.id)) == 0 {
		t.Errorf("the sweep removed %v (%v), left is %v", removed, err, s.podman.Left(r.id))
	}
	found, err := h.Orphans.Corrupt()
	if err != nil || len(found) != 1 || found[0].Task != r.id || !found[0].Kept {
		t.Fatalf("found %v (%v)", found, err)
	}
	removed, err := h.Orphans.RemoveCorrupt(t.Context())
	if err != nil || !slices.ContainsFunc(removed, func(o cleanup.Orphan) bool { return o.Kind == found[0].Kind && !o.Kept }) {
		t.Errorf("removed %v (%v)", removed, err)
	}
	if left := s.podman.Left(r.id); len(left) > 0 {
		t.Errorf("there is left: %v", left)
	}
	if found, err := h.Orphans.Corrupt(); err != nil || len(found) > 0 {
		t.Errorf("found after the removal: %v (%v)", found, err)
	}
}
