package command

import (
	"context"
	"time"

	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/define"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/urfave/cli/v2"
)

// What follows is for commands without an options struct.

// runnerFunc is the action of a command that takes all of a Machine.
type runnerFunc func(ctx context.Context, c *cli.Context) error

// Run implements Runner.
func (f runnerFunc) Run(ctx context.Context, c *cli.Context) error { return f(ctx, c) }

// WithMachine returns the action of a command that takes all of a Machine.
func (p *Program) WithMachine(action func(ctx context.Context, m *Machine, c *cli.Context) error) cli.ActionFunc {
	return WithMachine(p, func(m *Machine) runnerFunc {
		return func(ctx context.Context, c *cli.Context) error { return action(ctx, m, c) }
	})
}

// Open opens podtask on this host. Close its Engine.
func (p *Program) Open(c *cli.Context) (*Machine, error) { return p.open(c) }

// PrintProblems prints a finding.
func (p *Program) PrintProblems(f Finding) { f.Print(p.Stderr) }

// Runnable prints a finding and reports whether the task can run.
func Runnable(p *Program, f Finding) bool { return f.Runnable(p.Stderr) }

// ParseDefinition reads and checks a definition.
func ParseDefinition(_ *Program, d Definition) (taskdef.Task, Finding, error) { return d.Read() }

// ParseDocument checks a document.
func ParseDocument(_ *Program, d Definition, doc define.Document) (taskdef.Task, Finding, error) {
	return d.Check(doc)
}

// ForEach does something with each selected task.
func (m *Machine) ForEach(c *cli.Context, fits func(lifecycle.State) bool, do func(lifecycle.State, *console.Progress) error) error {
	return m.Selection().ForEach(c, fits, do)
}

// Exchange replaces each selected task.
func (m *Machine) Exchange(c *cli.Context, fits func(lifecycle.State) bool, do func(lifecycle.State, *console.Progress) (string, error)) error {
	return m.Selection().Exchange(c, fits, do)
}

// SideBySide does something with several tasks concurrently.
func (m *Machine) SideBySide(states []lifecycle.State, do func(lifecycle.State, *console.Progress) (string, error)) error {
	return m.Selection().Concurrently(states, do)
}

// Named returns the selected tasks.
func (m *Machine) Named(c *cli.Context, fits func(lifecycle.State) bool) ([]lifecycle.State, []error) {
	return m.Selection().Select(c, fits)
}

// InspectTask returns a task as its owner knows it.
func (m *Machine) InspectTask(ctx context.Context, ref string) (api.Task, error) {
	return m.TaskReader().Inspect(ctx, ref)
}

// ObservedTasks returns tasks as recorded.
func (m *Machine) ObservedTasks(ctx context.Context, states []lifecycle.State, now time.Time) []api.Task {
	return m.TaskReader().Observe(ctx, states, now)
}

// RunAgain stops a task and runs its definition again.
func RunAgain(ctx context.Context, m *Machine, st lifecycle.State, limit Grace, show *console.Progress) (string, error) {
	return m.Restarter().Restart(ctx, st, limit, show)
}
