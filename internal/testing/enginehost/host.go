package enginehost

import (
	"context"
	"path/filepath"
	"sync"
	"testing"

	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/engine"
	"github.com/podtask/podtask/internal/engine/act/imagestore"
	"github.com/podtask/podtask/internal/engine/facts/conn"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/internal/testing/enginetest"
)

const (
	// Image is in the image store of a new host.
	Image = "localhost/testbox:1"
	// RegistryImage is in the fake registry of a new host, and not pulled yet.
	RegistryImage = "registry.example/testbox:1"
)

// Engine is podtask as one process opens it.
type Engine = engine.Engine

// Host is one user's machine with one vCPU for tasks. The exported fields may be changed before
// an engine is opened.
type Host struct {
	Podman *enginetest.Fake
	// Dial connects an engine to Podman, by default to the fake one; nil means a real one.
	Dial func(context.Context) (conn.Podman, error)
	// Registry is by default the fake one; nil means the real ones.
	Registry imagestore.Registry
	// FS is where records are written; nil means the real file system.
	FS state.FS

	t   testing.TB
	dir string
	env sync.Map
}

// New returns a host that lasts until the end of the test.
func New(t testing.TB) *Host {
	t.Helper()
	podman := enginetest.New(enginetest.Wall{})
	podman.Load(Image, enginetest.Image{})
	podman.Push(RegistryImage, enginetest.Image{})
	h := &Host{t: t, dir: t.TempDir(), Podman: podman, Registry: podman.Registry()}
	h.Connect(podman)
	h.Setenv("PODTASK_BUDGET_CPU", "1")
	h.Setenv("PODTASK_BUDGET_MEMORY", "none")
	return h
}

// Connect makes engines that are opened later use another Podman.
func (h *Host) Connect(podman conn.Podman) {
	h.Dial = func(context.Context) (conn.Podman, error) { return podman, nil }
}

// Setenv sets a variable of the environment that engines read. They read settings when they are
// opened, and other variables when they need them.
func (h *Host) Setenv(name, value string) { h.env.Store(name, value) }

// Unsetenv removes a variable.
func (h *Host) Unsetenv(name string) { h.env.Delete(name) }

// Getenv returns the value of a variable.
func (h *Host) Getenv(name string) string {
	value, _ := h.env.Load(name)
	text, _ := value.(string)
	return text
}

// Dir is a directory of the host that the test may write to.
func (h *Host) Dir() string { return h.dir }

// StateDir is the state directory of all engines.
func (h *Host) StateDir() string { return filepath.Join(h.dir, "state") }

// Open opens an engine, as another process does.
func (h *Host) Open() *Engine {
	h.t.Helper()
	settings, err := config.FromEnvironment(h.Getenv)
	if err != nil {
		h.t.Fatal(err)
	}
	e, err := engine.Open(engine.Config{
		StateDir: h.StateDir(), RuntimeDir: filepath.Join(h.dir, "run"), FS: h.FS,
		Settings: settings, Getenv: h.Getenv, Registry: h.Registry, Dial: h.Dial,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = e.Close() })
	return e
}

// CreatePod creates a pod for a task of a state directory, without podtask.
func (h *Host) CreatePod(name, id, stateDir string) {
	h.t.Helper()
	spec := libpod.PodSpec{Name: name, TaskID: id, Network: "none", Labels: map[string]string{"podtask.state-dir": stateDir}}
	if _, err := enginetest.EnsurePod(h.t.Context(), h.Podman, spec); err != nil {
		h.t.Fatal(err)
	}
}

// Starts counts the starts of containers.
func (h *Host) Starts() (n int) {
	for _, f := range h.Podman.Facts(0) {
		if f.What == enginetest.Started {
			n++
		}
	}
	return n
}

// Calls counts the calls of an operation that Podman has received.
func (h *Host) Calls(op string) (n int) {
	for _, c := range h.Podman.Calls() {
		if c.Op == op {
			n++
		}
	}
	return n
}
