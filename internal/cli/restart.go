package cli

import (
	"context"
	"fmt"

	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/urfave/cli/v2"
)

func restartCommand(p *program) *cli.Command {
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
		Flags:  append([]cli.Flag{timeFlag()}, manyTasksFlags("restart", "restart all tasks that run")...),
		Action: p.withHost(restart),
	}
}

func restart(ctx context.Context, s *session, c *cli.Context) error {
	limit, err := parseGrace(c)
	if err != nil {
		return err
	}
	running := func(st lifecycle.State) bool {
		return st.Status() != lifecycle.StatusStopped && connect.Restartable(st) == nil
	}
	return s.exchange(c, running, func(st lifecycle.State, show *console.Progress) (string, error) {
		return runAgain(ctx, s, st, limit, show)
	})
}

// runAgain stops a task and runs its definition again; it returns the ID of the new task.
func runAgain(ctx context.Context, s *session, st lifecycle.State, limit grace, show *console.Progress) (string, error) {
	if err := connect.Restartable(st); err != nil {
		return "", err
	}
	if missing := s.Engine.Secrets.Missing(st); len(missing) > 0 {
		return "", fmt.Errorf("task %s takes secrets from where it was started: set %v here, or run its definition again", st.DisplayName(), missing)
	}
	if err := s.Engine.Preflight.Check(ctx, st.Task, st.Options); err != nil {
		return "", err
	}
	if err := limit.stop(ctx, s, st, "podtask restart", show); err != nil {
		return "", err
	}
	again, err := s.Engine.Creator.Create(ctx, st.Task, st.Name, st.Options)
	if err != nil {
		return "", fmt.Errorf("task %s has stopped, and was not started again: %w", st.DisplayName(), err)
	}
	return again.ID, s.launcher().HandOver(ctx, again.ID)
}
