package conn_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/podtask/podtask/internal/engine/conn"
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
	return libpod.Host{Version: "5.0.0", CgroupManager: h.service}, nil
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
