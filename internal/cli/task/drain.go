package task

import (
	"context"
	"errors"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/urfave/cli/v2"
)

func DrainCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:  "drain",
		Usage: "refuse new tasks and stop all existing ones",
		Description: `After this command "podtask run" refuses new tasks until --undo. Tasks in the queue are
stopped first, then the running ones, each like with "podtask stop". Prints the IDs of the
tasks. A task that has protected itself is stopped when its protection ends, or at once
with --force. --undo does not start tasks again that were refused or stopped.

Examples:
  podtask drain
  podtask drain --undo`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "undo", Usage: "accept new tasks again"},
			&cli.BoolFlag{Name: "force", Aliases: []string{"f"}, Usage: "stop protected tasks too"},
		},
		Action: p.WithMachine(drain),
	}
}

func drain(ctx context.Context, s *command.Machine, c *cli.Context) error {
	if err := command.NoArguments(c); err != nil {
		return err
	}
	if c.Bool("undo") {
		return s.Engine.Ledger.SetDraining(ctx, false)
	}
	if err := s.Engine.Ledger.SetDraining(ctx, true); err != nil {
		return err
	}
	states, errs := s.Engine.Tasks.States()
	var queued, running []lifecycle.State
	for _, st := range states {
		switch {
		case st.Status() == lifecycle.StatusStopped:
		case st.Sandbox.Reservation == lifecycle.ReservationRequested && !st.Sandbox.Dirty:
			queued = append(queued, st)
		default:
			running = append(running, st)
		}
	}
	// Those who wait go first, so that none is let in by another's end.
	for _, group := range [][]lifecycle.State{queued, running} {
		errs = append(errs, s.SideBySide(group, func(st lifecycle.State, show *console.Progress) (string, error) {
			if !c.Bool("force") {
				if err := awaitUnprotected(ctx, s, st); err != nil {
					return st.ID, err
				}
			}
			return st.ID, s.Connector.StopTask(ctx, st.ID, "podtask drain", false, show.Show)
		}))
	}
	return errors.Join(errs...)
}

// awaitUnprotected returns when a task is not protected, or is removed.
func awaitUnprotected(ctx context.Context, s *command.Machine, st lifecycle.State) error {
	if st.ProtectedUntil.IsZero() {
		return nil
	}
	var told time.Time
	err := s.Connector.Ask(ctx, st.ID, nil, func(t api.Task) (bool, error) {
		if until := t.ProtectedUntil; !until.Equal(told) && !until.IsZero() {
			told = until
			s.Program.Warn("%s is protected until %s and is stopped then; --force stops it now", st.DisplayName(), until.Local().Format(time.DateTime))
		}
		return t.ProtectedUntil.IsZero(), nil
	})
	if connect.IsGone(err) {
		return nil
	}
	return err
}
