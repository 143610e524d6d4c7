// Package top is the full-screen view of tasks and services: a list of tasks with health and usage, for one
// task its containers, what it waits for, a timeline, logs and events; a list of services, and for one the copies of
// each revision, how connections shift from one to the other, hooks and events. The model is pure:
// messages change it, and View draws it. Data comes from a Source, and changes are made by Actions: the
// package neither reads records nor calls Podman.
package top

import (
	"context"
	"os/exec"
	"time"

	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/cli/timeline"
	"github.com/podtask/podtask/pkg/api"
)

// Source provides the data of the view. Its methods may be called concurrently.
type Source interface {
	// Tasks returns all tasks, the newest first, with their usage since the previous call.
	Tasks(ctx context.Context) ([]Task, error)
	// Services returns all services; none without an agent.
	Services(ctx context.Context) ([]api.Service, error)
	// Beside returns the schedules and stacks.
	Beside(ctx context.Context) (console.Beside, error)
	// Explain returns the details of a task.
	Explain(ctx context.Context, id string) (Detail, error)
	// Follow calls fn for the last lines of the containers, then for new ones, until the containers have
	// ended.
	Follow(ctx context.Context, id string, fn func(Line) error) error
}

// Actions changes tasks and services. Its methods may be called concurrently.
type Actions interface {
	// Stop stops a task and returns when it has stopped.
	Stop(ctx context.Context, id string) error
	// Restart stops a task and starts its definition again.
	Restart(ctx context.Context, id string) error
	// Shell returns a command that runs a shell in a container, on the terminal of the view.
	Shell(ctx context.Context, id, container string) (*exec.Cmd, error)
	// Continue ends the pause of a service's deployment.
	Continue(ctx context.Context, service string) error
	// Rollback returns a service to the revision before.
	Rollback(ctx context.Context, service string) error
}

// Hosts is a Source of several hosts, or of another one.
type Hosts interface {
	// Hosts returns the hosts in their order.
	Hosts() []HostState
}

// HostState is a host of the view.
type HostState struct {
	Name string
	// Why explains why the host is down or slow; empty for one that answers.
	Why string
	// Tasks is the number of its tasks that are known.
	Tasks int
}

// Task is a task in the list.
type Task struct {
	api.Task
	// Host is the host of the task; empty if there is only one.
	Host string `json:",omitempty"`
	// Use is nil while no container of the task runs.
	Use *Use
	// ContainerUse has the usage of the running containers, by name.
	ContainerUse map[string]Use
	// QueuedFor is a word for what a queued task waits for, Place its place in the queue, from 1; 0 if it is not
	// queued.
	QueuedFor string
	Place     int
}

// Use is the CPU and memory usage of a task or container.
type Use struct {
	// CPUPercent is the average between two samples; 100 is one CPU.
	CPUPercent float64
	// Memory and MemoryLimit are in bytes; a limit of 0 is none.
	Memory, MemoryLimit uint64
}

// Detail has the details of a task.
type Detail struct {
	Task api.Task
	// Why explains the status in one sentence.
	Why   string
	Chart timeline.Chart
}

// Line is a line of the output of a container.
type Line struct{ Container, Text string }

// Options configures the view.
type Options struct {
	// Open is the ID of the task that is shown first; empty for the list.
	Open string
	// All shows stopped tasks too.
	All    bool
	Colors console.Colors
	// Pace is the time between two samples.
	Pace time.Duration
	Now  func() time.Time
	// Warning returns a message from outside of the view; empty for none.
	Warning func() string
}
