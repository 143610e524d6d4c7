package task

import (
	"context"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/serve/ownerapi"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/urfave/cli/v2"
)

func RmCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "rm",
		Usage:     "remove tasks with their containers, pods, slices and logs",
		ArgsUsage: "TASK ...",
		Description: `Images are kept. Prints the IDs of the tasks.

Examples:
  podtask rm web
  podtask rm -f web     # kill it first
  podtask rm --all      # all that have stopped
  podtask rm --all -f   # all`,
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "force", Aliases: []string{"f"}, Usage: "kill a task that has not stopped"},
		}, command.ManyTasksFlags("remove", "remove all tasks that have stopped; with --force all tasks")...),
		Action: p.WithMachine(rm),
	}
}

func rm(ctx context.Context, s *command.Machine, c *cli.Context) error {
	force := c.Bool("force")
	fits := func(st lifecycle.State) bool { return ownerapi.Removable(st, force) == nil }
	return s.ForEach(c, fits, func(st lifecycle.State, show *console.Progress) error {
		if err := ownerapi.Removable(st, force); err != nil {
			return err
		}
		return s.Connector.Remove(ctx, st.ID, "podtask rm", force, show.Show)
	})
}
