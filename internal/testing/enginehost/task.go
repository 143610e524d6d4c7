package enginehost

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/engine/act/limits"
	"github.com/podtask/podtask/internal/engine/run/owner"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

var (
	// Admitted are options of a task that needs a reservation.
	Admitted = lifecycle.Options{Pull: lifecycle.PullNever, Limits: limits.BestEffort}
	// Unlimited are options of a task that is not accounted for.
	Unlimited = lifecycle.Options{Pull: lifecycle.PullNever, Limits: limits.Off}
)

// Fields are members of a JSON object in a task definition.
type Fields = map[string]any

// Box returns a task of one container, app, with that many CPU units. Port is a host port; 0 means
// none. The command is one of internal/testing/enginetest.Program.
func (h *Host) Box(cpu int, port uint16, command ...string) taskdef.Task {
	h.t.Helper()
	app := Fields{"name": "app", "image": Image, "command": command}
	if port > 0 {
		app["portMappings"] = []any{Fields{"containerPort": 80, "hostPort": port}}
	}
	definition := Fields{"family": "box", "containerDefinitions": []any{app}}
	if cpu > 0 {
		definition["cpu"] = fmt.Sprint(cpu)
	}
	return h.Parse(definition)
}

// Task returns a task with volumes and containers. They all get Image; their commands are split
// at spaces.
func (h *Host) Task(volumes []any, containers ...Fields) taskdef.Task {
	h.t.Helper()
	for _, c := range containers {
		c["image"] = Image
		c["command"] = strings.Fields(c["command"].(string))
	}
	return h.Parse(Fields{"family": "web", "volumes": volumes, "containerDefinitions": containers})
}

// Server returns a task that runs until it is stopped. Its image is in the registry.
func (h *Host) Server() taskdef.Task {
	return taskdef.Task{Family: "web", Network: taskdef.NetworkBridge, Containers: []taskdef.Container{
		{Name: "app", Image: RegistryImage, Essential: true, StopTimeout: time.Second, Command: []string{"serve"}},
	}}
}

// Parse parses a task definition.
func (h *Host) Parse(definition Fields) taskdef.Task {
	h.t.Helper()
	src, err := json.Marshal(definition)
	if err != nil {
		h.t.Fatal(err)
	}
	task, report, err := taskdef.Parse("task.json", src)
	if err != nil {
		h.t.Fatal(err, report)
	}
	return task
}

// WriteFile writes a file of the host that only its owner may read.
func (h *Host) WriteFile(name, text string) (path string) {
	h.t.Helper()
	path = filepath.Join(h.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
	return path
}

// Create records a task and starts nothing.
func (h *Host) Create(e *Engine, task taskdef.Task, name string, o lifecycle.Options) lifecycle.State {
	h.t.Helper()
	s, err := Record(h.t.Context(), e.Creator, task, name, o)
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

// CreateServer records a task that runs until it is stopped.
func (h *Host) CreateServer(e *Engine) lifecycle.State {
	h.t.Helper()
	return h.Create(e, h.Server(), "", lifecycle.Options{Limits: limits.Off})
}

// IsRunning reports whether a task runs.
func IsRunning(s lifecycle.State) bool { return s.Status() == lifecycle.StatusRunning }

// IsStopped reports whether a task has stopped.
func IsStopped(s lifecycle.State) bool { return s.Status() == lifecycle.StatusStopped }

// Record records a task as a process does that ends before the task has another owner, and returns its state.
func Record(ctx context.Context, c *owner.Creator, t taskdef.Task, name string, o lifecycle.Options) (lifecycle.State, error) {
	own, err := c.Record(ctx, owner.Launch{Task: t, Name: name, Options: o})
	if err != nil {
		return lifecycle.State{}, err
	}
	return own.State(), own.Close()
}
