package main

import (
	"context"
	"errors"

	"github.com/podtask/podtask/internal/console"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/urfave/cli/v2"
)

func drainCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:  "drain",
		Usage: "take no new tasks, and stop those there are",
		Description: `From then on run refuses, until --undo. Tasks that wait in the queue leave it first;
then those that run are stopped, each with its containers in order, as with
"podtask stop". The ids of the tasks are printed. What was refused or stopped is not
started again by --undo.

Examples:
  podtask drain
  podtask drain --undo`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "undo", Usage: "take new tasks again"},
		},
		Action: p.withHost(drain),
	}
}

func drain(ctx context.Context, s *session, c *cli.Context) error {
	if err := noArguments(c); err != nil {
		return err
	}
	if c.Bool("undo") {
		return s.Agent.Ledger.SetDraining(ctx, false)
	}
	if err := s.Agent.Ledger.SetDraining(ctx, true); err != nil {
		return err
	}
	states, errs := s.Agent.Tasks.States()
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
		errs = append(errs, s.sideBySide(group, func(st lifecycle.State, show *console.Progress) error {
			return s.StopTask(ctx, st.ID, "podtask drain", false, show.Show)
		}))
	}
	return errors.Join(errs...)
}
