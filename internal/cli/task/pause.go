package task

import (
	"context"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/serve/ownerapi"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/urfave/cli/v2"
)

// PauseCommand is `podtask pause`.
func PauseCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "pause",
		Usage:     "freeze running tasks",
		ArgsUsage: "TASK ...",
		Description: `The processes of the containers are frozen until "podtask unpause"; they keep their
memory. Health checks are suspended. "podtask stop" resumes a paused task first. Requires
cgroups v2. Prints the IDs of the tasks.

Examples:
  podtask pause web
  podtask pause --filter family=batch`,
		Flags:  command.SelectionFlags("pause", "pause all running tasks"),
		Action: command.WithMachine(p, newPause),
	}
}

// UnpauseCommand is `podtask unpause`.
func UnpauseCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "unpause",
		Usage:     "resume paused tasks",
		ArgsUsage: "TASK ...",
		Description: `Health checks continue at their next interval. Prints the IDs of the tasks.

Examples:
  podtask unpause web
  podtask unpause --all`,
		Flags:  command.SelectionFlags("unpause", "unpause all tasks"),
		Action: command.WithMachine(p, newUnpause),
	}
}

// pauseOptions is what `podtask pause` and `podtask unpause` use.
type pauseOptions struct {
	selection command.Selection
	owners    *connect.Connector
	pause     bool // or unpause
}

func newPause(m *command.Machine) pauseOptions {
	return pauseOptions{selection: m.Selection(), owners: m.Connector, pause: true}
}

func newUnpause(m *command.Machine) pauseOptions {
	return pauseOptions{selection: m.Selection(), owners: m.Connector}
}

// Run pauses or unpauses tasks, and returns when their owners report it.
func (o pauseOptions) Run(ctx context.Context, c *cli.Context) error {
	pausable := func(st lifecycle.State) bool { return ownerapi.Pausable(st) == nil }
	return o.selection.ForEach(c, pausable, func(st lifecycle.State, show *console.Progress) error {
		return o.owners.Ask(ctx, st.ID,
			func(r *connect.Task) error { return r.Pause(ctx, o.pause) },
			func(t api.Task) (bool, error) {
				show.Show(t)
				paused, running := pausedOf(t)
				return o.pause && paused == running || !o.pause && paused == 0, nil
			})
	})
}

// pausedOf returns the number of paused containers of a task, and of running ones.
func pausedOf(t api.Task) (paused, running int) {
	for _, c := range t.Containers {
		if c.Status == lifecycle.StatusRunning.String() && c.RestartAt.IsZero() {
			running++
		}
		if c.Paused {
			paused++
		}
	}
	return paused, running
}
