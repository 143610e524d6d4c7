package statetest_test

import (
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/internal/state/statetest"
)

func TestStoreSurvivesPowerLossAnywhere(t *testing.T) {
	t.Parallel()
	res, err := statetest.Check(func(d *statetest.Disk) state.FS { return d })
	if err != nil {
		t.Fatal(err)
	}
	if res.Losses < 40 || res.Disks < 2*res.Losses {
		t.Errorf("only %d losses and %d disks were tried: the check has become blind", res.Losses, res.Disks)
	}
	t.Logf("%d power losses, %d disks afterwards", res.Losses, res.Disks)
}

// A check that nothing can fail proves nothing: each of these leaves out one
// thing the store does, and must be noticed.
func TestCheckNoticesSabotage(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		wrap func(*statetest.Disk) state.FS
	}{
		{"file not synced", func(d *statetest.Disk) state.FS { return noFileSync{d} }},
		{"directory not synced", func(d *statetest.Disk) state.FS { return noDirSync{d} }},
		{"written in place, not renamed", func(d *statetest.Disk) state.FS { return inPlace{d} }},
		{"old name removed before the rename", func(d *statetest.Disk) state.FS { return removeFirst{d} }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := statetest.Check(tt.wrap)
			if err == nil {
				t.Fatal("not noticed")
			}
			t.Log(err)
		})
	}
}

type noFileSync struct{ *statetest.Disk }

func (n noFileSync) Create(name string) (state.File, error) {
	f, err := n.Disk.Create(name)
	return unsynced{f}, err
}

type unsynced struct{ state.File }

func (unsynced) Sync() error { return nil }

type noDirSync struct{ *statetest.Disk }

func (noDirSync) SyncDir(string) error { return nil }

type inPlace struct{ *statetest.Disk }

func (i inPlace) Create(name string) (state.File, error) {
	return i.Disk.Create(strings.NewReplacer("/.", "/", ".tmp", ".json").Replace(name))
}

func (inPlace) Rename(string, string) error { return nil }

type removeFirst struct{ *statetest.Disk }

func (r removeFirst) Rename(from, to string) error {
	if err := r.Disk.Remove(to); err != nil && r.Off() {
		return err
	}
	return r.Disk.Rename(from, to)
}
