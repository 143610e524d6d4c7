package task

import (
	"context"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/urfave/cli/v2"
)

// RestartCommand is `podtask restart`.
func RestartCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "restart",
		Usage:     "stop tasks, and run the same definitions again in the background",
		ArgsUsage: "TASK ...",
		Description: `A task runs once. restart stops it, if it has not stopped, and creates a new task with the
same definition, name and options; images are resolved and pulled as for a run. Prints the
IDs of the new tasks. The old ones are kept, with their logs, until they are removed.

The copies of a service, and the task of a systemd unit, are restarted by the service or
unit: the error names the command.

Examples:
  podtask restart web
  podtask restart --time 0 web    # kill the old one
  podtask restart --filter family=batch`,
		Flags:  append([]cli.Flag{command.TimeFlag()}, command.SelectionFlags("restart", "restart all tasks that run")...),
		Action: command.WithMachine(p, newRestart),
	}
}

type restartOptions struct {
	selection command.Selection
	restarter command.Restarter
}

func newRestart(m *command.Machine) restartOptions {
	return restartOptions{
		selection: m.Selection(),
		restarter: m.Restarter(),
	}
}

// Run implements command.Runner.
func (o restartOptions) Run(ctx context.Context, c *cli.Context) error {
	limit, err := command.ParseGrace(c)
	if err != nil {
		return err
	}
	running := func(st lifecycle.State) bool {
		return st.Status() != lifecycle.StatusStopped && connect.Restartable(st) == nil
	}
	return o.selection.Replace(c, running, func(st lifecycle.State, show *console.Progress) (string, error) {
		return o.restarter.Restart(ctx, st, limit, show)
	})
}
