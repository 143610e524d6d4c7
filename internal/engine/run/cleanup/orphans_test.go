package cleanup_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/engine/run/cleanup"
	"github.com/podtask/podtask/internal/testing/enginehost"
)

func TestSweepRemovesPodsWithoutATask(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	e := host.Open()
	stateDir := host.StateDir()
	orphan, elsewhere, owned := strings.Repeat("1", 32), strings.Repeat("2", 32), host.Create(e, host.Box(0, 0, "exit", "0"), "", enginehost.Admitted).ID
	host.CreatePod("orphan", orphan, stateDir)
	host.CreatePod("elsewhere", elsewhere, "/another/state")
	host.CreatePod("recorded", owned, stateDir)
	host.CreatePod("strange", "no id", stateDir)
	removed, err := e.Orphans.Sweep(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []cleanup.Orphan{{Kind: "pod", Name: "orphan", Task: orphan}}
	if !slices.Equal(removed, want) {
		t.Errorf("removed %v, want %v", removed, want)
	}
	if left := host.Podman.Left(orphan); len(left) > 0 {
		t.Errorf("there is left: %v", left)
	}
	for _, id := range []string{elsewhere, owned, "no id"} {
		if len(host.Podman.Left(id)) == 0 {
			t.Errorf("the pod of %s is gone", id)
		}
	}
	if again, err := e.Orphans.Sweep(t.Context()); err != nil || len(again) > 0 {
		t.Errorf("a second time it removes %v (%v)", again, err)
	}
}

// A pod is made only under its task's lock, so a sweep in that moment leaves it.
func TestSweepLeavesWhatAnOwnerIsAboutToMake(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	r := host.RunSleeper(0, "")
	record := filepath.Join(host.StateDir(), "tasks", r.ID+".json")
	content, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(record); err != nil {
		t.Fatal(err)
	}
	if removed, err := host.Open().Orphans.Sweep(t.Context()); err != nil || len(removed) > 0 {
		t.Errorf("removed %v (%v)", removed, err)
	}
	if err := os.WriteFile(record, content, 0o600); err != nil {
		t.Fatal(err)
	}
	r.Stop()
}

// A corrupt record says nothing of its task, so what has its labels stays until the user
// asks for the removal.
func TestCorruptRecordIsRemovedOnRequestWithWhatBelongsToIt(t *testing.T) {
	t.Parallel()
	host := enginehost.New(t)
	r := host.RunSleeper(0, "")
	r.Kill()
	record := filepath.Join(host.StateDir(), "tasks", r.ID+".json")
	if err := os.WriteFile(record, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	e := host.Open()
	_, _ = e.Tasks.States() // moves it aside
	if removed, err := e.Orphans.Sweep(t.Context()); err != nil || len(removed) > 0 || len(host.Podman.Left(r.ID)) == 0 {
		t.Errorf("the sweep removed %v (%v), left is %v", removed, err, host.Podman.Left(r.ID))
	}
	found, err := e.Orphans.Corrupt()
	if err != nil || len(found) != 1 || found[0].Task != r.ID || !found[0].Kept {
		t.Fatalf("found %v (%v)", found, err)
	}
	removed, err := e.Orphans.RemoveCorrupt(t.Context())
	if err != nil || !slices.ContainsFunc(removed, func(o cleanup.Orphan) bool { return o.Kind == found[0].Kind && !o.Kept }) {
		t.Errorf("removed %v (%v)", removed, err)
	}
	if left := host.Podman.Left(r.ID); len(left) > 0 {
		t.Errorf("there is left: %v", left)
	}
	if found, err := e.Orphans.Corrupt(); err != nil || len(found) > 0 {
		t.Errorf("found after the removal: %v (%v)", found, err)
	}
}
