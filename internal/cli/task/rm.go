package task

import (
	"context"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/serve/ownerapi"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/urfave/cli/v2"
)

// RmCommand is `podtask rm`.
func RmCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "rm",
		Usage:     "remove tasks with their containers, pods, slices and logs",
		ArgsUsage: "TASK ...",
		Description: `Images are kept. Prints the IDs of the tasks. --force kills at once, as that of Docker: no stop
signal, no stopTimeout, no hooks. To let a task end by itself, stop it first.

Examples:
  podtask rm web
  podtask rm -f web     # kill it first
  podtask rm --all      # all that have stopped
  podtask rm --all -f   # all`,
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "force", Aliases: []string{"f"}, Usage: "kill a task that has not stopped"},
		}, command.SelectionFlags("remove", "remove all tasks that have stopped; with --force all tasks")...),
		Action: command.WithMachine(p, newRm),
	}
}

type rmOptions struct {
	selection command.Selection
	owners    *connect.Connector
}

func newRm(m *command.Machine) rmOptions {
	return rmOptions{
		selection: m.Selection(),
		owners:    m.Connector,
	}
}

// Run implements command.Runner.
func (o rmOptions) Run(ctx context.Context, c *cli.Context) error {
	force := c.Bool("force")
	fits := func(st lifecycle.State) bool { return ownerapi.Removable(st, force) == nil }
	return o.selection.ForEach(c, fits, func(st lifecycle.State, show *console.Progress) error {
		if err := ownerapi.Removable(st, force); err != nil {
			return err
		}
		return o.owners.Remove(ctx, st.ID, "podtask rm", force, show.Show)
	})
}
