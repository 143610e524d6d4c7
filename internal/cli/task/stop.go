package task

import (
	"context"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/urfave/cli/v2"
)

// StopCommand is `podtask stop`.
func StopCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "stop",
		Usage:     "stop tasks and wait until they have stopped",
		ArgsUsage: "TASK ...",
		Description: `Containers stop in the reverse order of their dependencies, each with the stopTimeout of
its definition between SIGTERM and SIGKILL. --time shortens this: it limits the whole task.
Containers and logs are kept until the task is removed. Prints the IDs of the tasks.

Examples:
  podtask stop web
  podtask stop --time 0 web     # kill
  podtask stop -t 10 web db     # kill those that have not stopped after ten seconds
  podtask stop --filter family=batch
  podtask stop --all`,
		Flags: append([]cli.Flag{
			command.TimeFlag(),
		}, command.SelectionFlags("stop", "stop all tasks")...),
		Action: command.WithMachine(p, newStop),
	}
}

// stopOptions is what `podtask stop` and `podtask kill` use.
type stopOptions struct {
	selection command.Selection
	owners    *connect.Connector
}

func newStop(m *command.Machine) stopOptions {
	return stopOptions{selection: m.Selection(), owners: m.Connector}
}

// Run implements command.Runner.
func (o stopOptions) Run(ctx context.Context, c *cli.Context) error {
	limit, err := command.ParseGrace(c)
	if err != nil {
		return err
	}
	return o.stop(ctx, c, limit)
}

func (o stopOptions) stop(ctx context.Context, c *cli.Context, limit command.Grace) error {
	return o.selection.ForEach(c, command.IsRunning, func(st lifecycle.State, show *console.Progress) error {
		return limit.Stop(ctx, o.owners, st, "podtask "+c.Command.Name, show)
	})
}

// KillCommand is `podtask kill`.
func KillCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:        "kill",
		Usage:       "kill tasks, as stop --time 0",
		ArgsUsage:   "TASK ...",
		Description: "Prints the IDs of the tasks.\n\nExamples:\n  podtask kill web",
		Flags:       command.SelectionFlags("kill", "kill all tasks"),
		Action:      command.WithMachine(p, newKill),
	}
}

// killOptions is stopOptions for `podtask kill`.
type killOptions struct{ stopOptions }

func newKill(m *command.Machine) killOptions { return killOptions{newStop(m)} }

// Run implements command.Runner.
func (o killOptions) Run(ctx context.Context, c *cli.Context) error {
	return o.stop(ctx, c, command.Grace{Given: true})
}
