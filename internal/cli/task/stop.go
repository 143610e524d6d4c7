package task

import (
	"context"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/urfave/cli/v2"
)

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
		}, command.ManyTasksFlags("stop", "stop all tasks")...),
		Action: p.WithMachine(stop),
	}
}

func stop(ctx context.Context, s *command.Machine, c *cli.Context) error {
	limit, err := command.ParseGrace(c)
	if err != nil {
		return err
	}
	return s.ForEach(c, command.IsRunning, func(st lifecycle.State, show *console.Progress) error {
		return limit.Stop(ctx, s.Connector, st, "podtask stop", show)
	})
}

func KillCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:        "kill",
		Usage:       "kill tasks, as stop --time 0",
		ArgsUsage:   "TASK ...",
		Description: "Prints the IDs of the tasks.\n\nExamples:\n  podtask kill web",
		Flags:       command.ManyTasksFlags("kill", "kill all tasks"),
		Action: p.WithMachine(func(ctx context.Context, s *command.Machine, c *cli.Context) error {
			return s.ForEach(c, command.IsRunning, func(st lifecycle.State, show *console.Progress) error {
				return command.Grace{Given: true}.Stop(ctx, s.Connector, st, "podtask kill", show)
			})
		}),
	}
}
