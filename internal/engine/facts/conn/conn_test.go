package conn_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/podtask/podtask/internal/engine/facts/conn"
	"github.com/podtask/podtask/internal/host/libpod"
)

// podman counts how often it was closed.
type podman struct{ closed atomic.Int32 }

func (*podman) Host(context.Context) (libpod.Host, error) { return libpod.Host{Version: "5.4.2"}, nil }

func (p *podman) Close() error {
	p.closed.Add(1)
	return nil
}

// Components share one connection, which is made when the first needs it.
func TestPodmanIsConnectedOnce(t *testing.T) {
	t.Parallel()
	var p podman
	dials := 0
	failure := errors.New("connection refused")
	lazy := &conn.Lazy{Dial: func(context.Context) (conn.Podman, error) {
		dials++ // one at a time
		if dials == 1 {
			return nil, failure
		}
		return &p, nil
	}}
	if err := lazy.Close(); err != nil || dials != 0 {
		t.Errorf("Close before the first use: %v, %d connections", err, dials)
	}
	host := conn.As[conn.HostReader](lazy)
	if _, err := host(t.Context()); !errors.Is(err, failure) {
		t.Errorf("the first connection: %v", err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if h, err := host(t.Context()); err != nil || h != &p {
				t.Errorf("%v, %v", h, err)
			}
		})
	}
	wg.Wait()
	if dials != 2 {
		t.Errorf("%d connections, want a failed one and one", dials)
	}
	if err := lazy.Close(); err != nil || p.closed.Load() != 1 {
		t.Errorf("Close: %v, closed %d times", err, p.closed.Load())
	}
}

// A Podman may lack what a component needs.
func TestPodmanThatLacksACallIsUnsupported(t *testing.T) {
	t.Parallel()
	lazy := &conn.Lazy{Dial: func(context.Context) (conn.Podman, error) { return &podman{}, nil }}
	type lister interface{ List(ctx context.Context) }
	if got, err := conn.As[lister](lazy)(t.Context()); !errors.Is(err, errors.ErrUnsupported) || got != nil {
		t.Errorf("%v, %v", got, err)
	}
}

// A host without a user manager is asked once. A caller that gave up has learned nothing.
func TestAbsentUserManagerIsRemembered(t *testing.T) {
	t.Parallel()
	asked := 0
	user := &conn.UserManager{Log: slog.New(slog.DiscardHandler), Getenv: func(string) string { asked++; return "" }}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := user.Get(canceled); err == nil {
		t.Error("there is a user manager")
	}
	before := asked
	_, first := user.Get(t.Context())
	if first == nil || asked == before {
		t.Errorf("%v; asked again: %t", first, asked > before)
	}
	before = asked
	if _, again := user.Get(t.Context()); !errors.Is(again, first) || asked != before {
		t.Errorf("%v; asked again: %t", again, asked > before)
	}
	if user.ShuttingDown(t.Context()) {
		t.Error("a host without a user manager is shutting down")
	}
	user.Close()
}

// The space for a directory that is made later is that of the nearest one that exists.
func TestFreeSpaceOfADirectoryThatDoesNotExist(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bytes, files, err := conn.FreeSpace(filepath.Join(dir, "not", "yet"))
	if err != nil || bytes == 0 || files < 0 || files > 100 {
		t.Errorf("%d bytes, %d%% of the files, %v", bytes, files, err)
	}
	if _, _, err := conn.FreeSpace(dir + "\x00"); err == nil || !strings.Contains(err.Error(), "read the free space of") {
		t.Errorf("of no path: %v", err)
	}
}
