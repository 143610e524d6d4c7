package conn_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/podtask/podtask/internal/engine/facts/conn"
	"github.com/podtask/podtask/internal/host/libpod"
)

// told is a Podman that counts how often it was asked about the machine.
type told struct {
	service string
	asked   int
}

func (h *told) Identity() string { return h.service }

func (h *told) Host(context.Context) (libpod.Host, error) {
	h.asked++
	return libpod.Host{Version: "5.0.0", CgroupManager: h.service, GraphRoot: "/storage/of/" + h.service}, nil
}

// The processes of a user share what one service said, and only that service.
func TestFactsAreSharedByProcesses(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "host.json")
	for _, c := range []struct {
		service string
		asked   int
	}{{"first", 1}, {"first", 0}, {"second", 1}, {"first", 1}, {"", 1}, {"", 1}} {
		podman := &told{service: c.service}
		process := conn.Facts{File: file, Podman: func(context.Context) (conn.HostReader, error) { return podman, nil }}
		for range 2 {
			got, err := process.Get(t.Context())
			if err != nil || got.CgroupManager != c.service {
				t.Errorf("service %q: %+v, %v", c.service, got, err)
			}
		}
		if podman.asked != c.asked {
			t.Errorf("service %q was asked %d times, want %d", c.service, podman.asked, c.asked)
		}
	}
}

// Where a service keeps containers is asked once in its life, whatever the age of the answer and the process that asked.
func TestStorageIsAskedOncePerService(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "host.json")
	podman := &told{service: "first"}
	process := conn.Facts{File: file, Podman: func(context.Context) (conn.HostReader, error) { return podman, nil }}
	for _, c := range []struct {
		service string
		asked   int
	}{{"first", 1}, {"first", 1}, {"second", 2}, {"second", 2}} {
		podman.service = c.service
		if got, err := process.Storage(t.Context()); err != nil || got != "/storage/of/"+c.service || podman.asked != c.asked {
			t.Errorf("service %s: %q, %v, asked %d times, want %d", c.service, got, err, podman.asked, c.asked)
		}
	}
	other := conn.Facts{File: file, Podman: process.Podman}
	if got, err := other.Storage(t.Context()); err != nil || got != "/storage/of/second" || podman.asked != 2 {
		t.Errorf("another process: %q, %v, asked %d times", got, err, podman.asked)
	}
}
