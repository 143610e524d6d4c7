package task

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/urfave/cli/v2"
)

// WaitCommand is `podtask wait`.
func WaitCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "wait",
		Usage:     "wait for tasks and print their exit codes",
		ArgsUsage: "TASK ...",
		Description: `Prints the exit codes in the order of the tasks, one per line; -1 means that a task has no
exit code yet.

Examples:
  podtask wait web
  podtask wait --condition healthy web`,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "condition", Value: string(connect.UntilStopped), Usage: "wait for `CONDITION` stopped, running, steady (still running a second later) or healthy"},
		}, command.SelectionFlags("wait for", "wait for all tasks")...),
		Action: command.WithMachine(p, newWait),
	}
}

type waitOptions struct {
	out       io.Writer
	selection command.Selection
	owners    *connect.Connector
	tasks     *record.Tasks
}

func newWait(m *command.Machine) waitOptions {
	return waitOptions{
		out:       m.Program.Stdout,
		selection: m.Selection(),
		owners:    m.Connector,
		tasks:     m.Engine.Tasks,
	}
}

// Run implements command.Runner.
func (o waitOptions) Run(ctx context.Context, c *cli.Context) error {
	what, err := connect.ParseCondition(c.String("condition"))
	if err != nil {
		return command.Usagef("wait", "%v", err)
	}
	refs := c.Args().Slice()
	var errs []error
	switch {
	case command.IsFiltered(c):
		var states []lifecycle.State
		if states, errs = o.selection.Select(c, func(lifecycle.State) bool { return true }); len(errs) > 0 {
			return errors.Join(errs...)
		}
		for _, st := range states {
			refs = append(refs, st.ID)
		}
	case len(refs) == 0:
		return command.Usagef("wait", "no TASK to wait for")
	}
	for _, ref := range refs {
		st, err := o.tasks.Find(ref)
		if connect.IsGone(err) && c.Bool("ignore") {
			fmt.Fprintln(o.out, -1)
			continue
		}
		var t api.Task
		if err == nil {
			t, err = o.owners.Await(ctx, st, what, nil, func(api.Task) {})
		}
		if missed, ok := errors.AsType[*connect.MissedError](err); ok {
			err = &command.ExitError{Code: max(1, connect.CodeOf(missed.Task)), What: err.Error()}
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		code := -1
		if t.ExitCode != nil {
			code = int(*t.ExitCode)
		}
		fmt.Fprintln(o.out, code)
	}
	return errors.Join(errs...)
}
