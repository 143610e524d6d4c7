package task

import (
	"context"
	"errors"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/engine/act/admit"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/urfave/cli/v2"
)

// DrainCommand is `podtask drain`.
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
		Action: command.WithMachine(p, newDrain),
	}
}

type drainOptions struct {
	warn      func(format string, args ...any)
	selection command.Selection
	owners    *connect.Connector
	tasks     *record.Tasks
	ledger    *admit.Ledger
}

func newDrain(m *command.Machine) drainOptions {
	return drainOptions{
		warn:      m.Program.Warn,
		selection: m.Selection(),
		owners:    m.Connector,
		tasks:     m.Engine.Tasks,
		ledger:    m.Engine.Ledger,
	}
}

// Run implements command.Runner.
func (o drainOptions) Run(ctx context.Context, c *cli.Context) error {
	if err := command.NoArguments(c); err != nil {
		return err
	}
	if c.Bool("undo") {
		return o.ledger.SetDraining(ctx, false)
	}
	if err := o.ledger.SetDraining(ctx, true); err != nil {
		return err
	}
	states, errs := o.tasks.States()
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
	// Queued tasks first, so that none is admitted when a running one ends.
	for _, group := range [][]lifecycle.State{queued, running} {
		errs = append(errs, o.selection.Concurrently(group, func(st lifecycle.State, show *console.Progress) (string, error) {
			if !c.Bool("force") {
				if err := o.awaitUnprotected(ctx, st); err != nil {
					return st.ID, err
				}
			}
			return st.ID, o.owners.StopTask(ctx, st.ID, "podtask drain", false, show.Show)
		}))
	}
	return errors.Join(errs...)
}

// awaitUnprotected waits until a task is no longer protected, or is removed.
func (o drainOptions) awaitUnprotected(ctx context.Context, st lifecycle.State) error {
	if st.ProtectedUntil.IsZero() {
		return nil
	}
	var warned time.Time
	err := o.owners.Ask(ctx, st.ID, nil, func(t api.Task) (bool, error) {
		if until := t.ProtectedUntil; !until.Equal(warned) && !until.IsZero() {
			warned = until
			o.warn("%s is protected until %s and is stopped then; --force stops it now", st.DisplayName(), until.Local().Format(time.DateTime))
		}
		return t.ProtectedUntil.IsZero(), nil
	})
	if connect.IsGone(err) {
		return nil
	}
	return err
}
