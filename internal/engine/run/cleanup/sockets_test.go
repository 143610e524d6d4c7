package cleanup_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/engine/act/leftover"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/run/cleanup"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/state"
)

// noPodman is a Podman without any object.
type noPodman struct{ cleanup.Podman }

func (noPodman) List(context.Context) ([]libpod.Found, error) { return nil, nil }

// The sockets of dead owners are removed. One that is served, a new one, and files that are
// not sockets are kept.
func TestSweepRemovesSocketsOfDeadOwners(t *testing.T) {
	t.Parallel()
	short, err := os.MkdirTemp("/tmp", "") // a socket's path has 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	dir := filepath.Join(short, "tasks")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := func(digit string) string { return filepath.Join(dir, strings.Repeat(digit, 32)+".sock") }
	socket := func(digit string, served bool) {
		t.Helper()
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path(digit), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		t.Cleanup(func() { _ = l.Close() })
		if !served {
			_ = l.Close()
		}
	}
	socket("1", false)
	socket("2", true)
	socket("3", false)
	if err := os.WriteFile(path("4"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	for _, digit := range []string{"1", "2", "4"} {
		if err := os.Chtimes(path(digit), old, old); err != nil {
			t.Fatal(err)
		}
	}
	store, err := state.Open(t.TempDir(), state.OS{})
	if err != nil {
		t.Fatal(err)
	}
	orphans := cleanup.Orphans{RuntimeDir: short, Leftover: &leftover.Remover{Dir: filepath.Join(short, "interrupted")}, Tasks: &record.Tasks{Store: store}, Podman: func(context.Context) (cleanup.Podman, error) { return noPodman{}, nil }}
	if removed, err := orphans.Sweep(t.Context()); err != nil || len(removed) > 0 {
		t.Errorf("removed %v, %v", removed, err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if want := []string{path("2"), path("3"), path("4")}; err != nil || !slices.Equal(left, want) {
		t.Errorf("left %v (%v), want %v", left, err, want)
	}
}
