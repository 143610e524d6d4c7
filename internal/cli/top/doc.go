// Package top is the full-screen view of tasks: a list with health and usage, and for one
// task its containers, what it waits for, a timeline, logs and events. The model is pure:
// messages change it, and View draws it. The command `podtask top` gives it what to show and
// what to do. It never reads records, calls Podman or decides about a task.
package top

import (
	"context"
	"os/exec"
	"time"

	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/cli/timeline"
	"github.com/podtask/podtask/pkg/api"
)

// Source says what there is to see. Its methods may be called concurrently.
type Source interface {
	// Tasks returns all tasks, the newest first, with what they have used since the call
	// before.
	Tasks(ctx context.Context) ([]Task, error)
	// Explain returns what one task does.
	Explain(ctx context.Context, id string) (Detail, error)
	// Follow calls fn for the lines that the containers write, the last ones first,
	// until they have ended.
	Follow(ctx context.Context, id string, fn func(Line) error) error
}

// Actions changes tasks. Its methods may be called concurrently.
type Actions interface {
	// Stop stops a task and returns when it has stopped.
	Stop(ctx context.Context, id string) error
	// Restart stops a task and starts its definition again.
	Restart(ctx context.Context, id string) error
	// Shell returns the command of a shell in a container, which takes over the terminal.
	Shell(ctx context.Context, id, container string) (*exec.Cmd, error)
}

// Task is a task in the list.
type Task struct {
	api.Task
	// Use is nil while nothing of the task runs.
	Use *Use
	// ContainerUse has what runs of it, by name.
	ContainerUse map[string]Use
}

// Use is what a task or container uses.
type Use struct {
	// CPUPercent is over the time between two samples; 100 is one CPU.
	CPUPercent float64
	// Memory and MemoryLimit are in bytes; a limit of 0 is none.
	Memory, MemoryLimit uint64
}

// Detail is what one task does.
type Detail struct {
	Task api.Task
	// Why is one sentence.
	Why   string
	Chart timeline.Chart
}

// Line is what a container wrote.
type Line struct{ Container, Text string }

// Options are how the view looks and behaves.
type Options struct {
	// Open is the ID of the task to begin with; empty for the list.
	Open string
	// All shows stopped tasks too.
	All    bool
	Colors console.Colors
	// Pace is the time between two samples.
	Pace time.Duration
	Now  func() time.Time
	// Warning returns a message that came up outside of the view; empty for none.
	Warning func() string
}
