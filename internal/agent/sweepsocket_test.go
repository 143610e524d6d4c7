package agent_test

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The sockets of dead owners go; one that is served, or was made just now, stays, and so
// does what is no socket.
func TestSweepRemovesSocketsOfDeadOwners(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	short, err := os.MkdirTemp("/tmp", "") // a socket's path has 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	s.dir = short
	dir := filepath.Join(short, "run", "tasks")
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
	if removed, err := s.process().Orphans.Sweep(t.Context()); err != nil || len(removed) > 0 {
		t.Errorf("told of %v, %v", removed, err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if want := []string{path("2"), path("3"), path("4")}; err != nil || !slices.Equal(left, want) {
		t.Errorf("left %v (%v), want %v", left, err, want)
	}
}
