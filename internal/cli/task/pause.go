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
		Flags: command.ManyTasksFlags("pause", "pause all running tasks"),
		Action: p.WithMachine(func(ctx context.Context, s *command.Machine, c *cli.Context) error {
			return pauseTasks(ctx, s, c, true)
		}),
	}
}

func UnpauseCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "unpause",
		Usage:     "resume paused tasks",
		ArgsUsage: "TASK ...",
		Description: `Health checks continue at their next interval. Prints the IDs of the tasks.

Examples:
  podtask unpause web
  podtask unpause --all`,
		Flags: command.ManyTasksFlags("unpause", "unpause all tasks"),
		Action: p.WithMachine(func(ctx context.Context, s *command.Machine, c *cli.Context) error {
			return pauseTasks(ctx, s, c, false)
		}),
	}
}

// pauseTasks freezes tasks or resumes them, and returns when their owners have seen it.
func pauseTasks(ctx context.Context, s *command.Machine, c *cli.Context, pause bool) error {
	return s.ForEach(c, func(st lifecycle.State) bool { return ownerapi.Pausable(st) == nil }, func(st lifecycle.State, show *console.Progress) error {
		return s.Connector.Ask(ctx, st.ID,
			func(r *connect.Task) error { return r.Pause(ctx, pause) },
			func(t api.Task) (bool, error) {
				show.Show(t)
				paused, running := pausedOf(t)
				return pause && paused == running || !pause && paused == 0, nil
			})
	})
}

// pausedOf counts the containers of a task that are paused, and those that run.
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
