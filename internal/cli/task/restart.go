package task

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/serve/ownerapi"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/urfave/cli/v2"
)

// RestartCommand is `podtask restart`.
func RestartCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "restart",
		Usage:     "stop tasks, and run the same definitions again in the background",
		ArgsUsage: "TASK[/CONTAINER] ...",
		Description: `A task runs once. restart stops it, if it has not stopped, and creates a new task with the
same definition, name and options; images are resolved and pulled as for a run. Prints the
IDs of the new tasks. The old ones are kept, with their logs, until they are removed.

TASK/CONTAINER restarts one container of a task while the others run on: it is stopped within its
stopTimeout and started again at once, whatever its restart policy, with the same image and logs.

The copies of a service, and the task of a systemd unit, are restarted by the service or
unit: the error names the command.

Examples:
  podtask restart web
  podtask restart --time 0 web    # kill the old one
  podtask restart shop/web        # one container of the task shop
  podtask restart --filter family=batch`,
		Flags:  append([]cli.Flag{command.TimeFlag()}, command.SelectionFlags("restart", "restart all tasks that run")...),
		Action: command.WithMachine(p, newRestart),
	}
}

type restartOptions struct {
	selection command.Selection
	restarter command.Restarter
	owners    *connect.Connector
	tasks     *record.Tasks
	out       io.Writer
}

func newRestart(m *command.Machine) restartOptions {
	return restartOptions{
		selection: m.Selection(),
		restarter: m.Restarter(),
		owners:    m.Connector,
		out:       m.Program.Stdout,
		tasks:     m.Engine.Tasks,
	}
}

// Run implements command.Runner.
func (o restartOptions) Run(ctx context.Context, c *cli.Context) error {
	limit, err := command.ParseGrace(c)
	if err != nil {
		return err
	}
	if containers := o.containers(c.Args().Slice()); containers > 0 {
		if c.IsSet("time") || containers < c.Args().Len() {
			return command.Usagef("restart", "TASK/CONTAINER stands without --time and without a TASK: the stopTimeout of the container counts")
		}
		return o.restartContainers(ctx, c)
	}
	running := func(st lifecycle.State) bool {
		return st.Status() != lifecycle.StatusStopped && connect.Restartable(st) == nil
	}
	return o.selection.Replace(c, running, func(st lifecycle.State, show *console.Progress) (string, error) {
		return o.restarter.Restart(ctx, st, limit, show)
	})
}

// containers counts the arguments that name a container of a task; a name of a task may have a slash.
func (o restartOptions) containers(args []string) (n int) {
	for _, arg := range args {
		if _, err := o.tasks.Find(arg); connect.IsGone(err) && strings.Contains(arg, "/") && !strings.HasSuffix(arg, "/") {
			n++
		}
	}
	return n
}

// restartContainers restarts one container after the other, and prints the names as they were given.
func (o restartOptions) restartContainers(ctx context.Context, c *cli.Context) error {
	var errs []error
	for _, arg := range c.Args().Slice() {
		at := strings.LastIndex(arg, "/")
		st, err := o.tasks.Find(arg[:at])
		if err == nil {
			err = o.restartContainer(ctx, st, arg[at+1:])
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		fmt.Fprintln(o.out, arg)
	}
	return errors.Join(errs...)
}

// restartContainer returns when the container runs again.
func (o restartOptions) restartContainer(ctx context.Context, st lifecycle.State, container string) error {
	request, err := ownerapi.RestartOf(st, container)
	if err != nil {
		return err
	}
	i := request.Container
	before := st.Containers[i].Restarts
	asked := false
	return o.owners.Ask(ctx, st.ID,
		func(r *connect.Task) error {
			// The owner that was asked has ended. The record says whether it had taken the request.
			if now, err := o.tasks.Find(st.ID); asked && err == nil && restarting(now.Containers[i], before) {
				return nil
			}
			err := r.RestartContainer(ctx, container)
			asked = asked || err == nil
			return err
		},
		func(t api.Task) (bool, error) { return restarted(t, i, before) })
}

// restarting reports whether a container has been restarted since it had a number of restarts, or is about to be.
func restarting(c lifecycle.Container, before int) bool {
	return c.Restarts > before || c.RestartRequested || c.Presence != lifecycle.Running
}

// restarted reports whether a container has been started again. An error says that it never will be.
func restarted(t api.Task, container, before int) (bool, error) {
	c := t.Containers[container]
	switch {
	case c.RestartCount > before:
		return true, nil
	case t.DesiredStatus != lifecycle.StatusRunning.String():
		return false, fmt.Errorf("task %s stopped before %s was started again: `podtask why %[1]s` says why", cmp.Or(t.Name, t.ID), c.Name)
	case c.Status == lifecycle.StatusStopped.String():
		return false, fmt.Errorf("container %s of task %s could not be started again: `podtask why %[2]s` says why", c.Name, cmp.Or(t.Name, t.ID))
	}
	return false, nil
}
