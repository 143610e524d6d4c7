package task

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/serve/ownerapi"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/urfave/cli/v2"
)

// InspectCommand is `podtask inspect`.
func InspectCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "inspect",
		Usage:     "print everything about tasks as JSON",
		ArgsUsage: "TASK ...",
		Description: `The output contains the values of environment variables. Values that are only in the
memory of the owner, such as the time of the next attempt of a pull, come from the owner.
If the task has no owner, "observed" is true and its containers are as Podman says now.

Examples:
  podtask inspect web
  podtask inspect --format '{{.Status}} {{.StoppedReason}}' web
  podtask inspect --format podstatus web | jq '.[0].status.phase'
  podtask inspect web | jq '.[0].containers[].imageDigest'`,
		Flags:  []cli.Flag{command.FormatFlag("json, yaml, a Go template, or podstatus: the tasks as Kubernetes Pods with their status"), command.IgnoreFlag()},
		Action: command.WithMachine(p, newInspect),
	}
}

type inspectOptions struct {
	out         io.Writer
	reader      command.TaskReader
	owners      *connect.Connector
	tasks       *record.Tasks
	recordedPod func(context.Context, lifecycle.State) (json.RawMessage, error)
}

func newInspect(m *command.Machine) inspectOptions {
	return inspectOptions{
		out:    m.Program.Stdout,
		reader: m.TaskReader(),
		owners: m.Connector,
		tasks:  m.Engine.Tasks,
		recordedPod: func(ctx context.Context, st lifecycle.State) (json.RawMessage, error) {
			return ownerapi.PodOf(ctx, m.Engine, st)
		},
	}
}

// Run implements command.Runner.
func (o inspectOptions) Run(ctx context.Context, c *cli.Context) error {
	if !c.Args().Present() {
		return command.Usagef("inspect", "no TASK to inspect")
	}
	if c.String("format") == "podstatus" {
		return o.printPods(ctx, c)
	}
	if err := command.CheckFormat(c); err != nil {
		return err
	}
	tasks := []api.Task{}
	var errs []error
	for _, ref := range c.Args().Slice() {
		t, err := o.reader.Inspect(ctx, ref)
		switch {
		case err == nil:
			tasks = append(tasks, t)
		case !connect.IsGone(err) || !c.Bool("ignore"):
			errs = append(errs, err)
		}
	}
	err := command.PrintItems(o.out, c, tasks, func(bool) error { return console.WriteJSON(o.out, tasks) })
	return errors.Join(append(errs, err)...)
}

// printPods prints tasks as Kubernetes Pods.
func (o inspectOptions) printPods(ctx context.Context, c *cli.Context) error {
	pods := []json.RawMessage{}
	var errs []error
	for _, ref := range c.Args().Slice() {
		pod, err := o.podStatus(ctx, ref)
		switch {
		case err == nil:
			pods = append(pods, pod)
		case !connect.IsGone(err) || !c.Bool("ignore"):
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, console.WriteJSON(o.out, pods))...)
}

// podStatus asks the owner of a task for its Pod, and makes it from the record if there is none.
func (o inspectOptions) podStatus(ctx context.Context, ref string) (json.RawMessage, error) {
	st, err := o.tasks.FindToShow(ref)
	if err != nil {
		return nil, err
	}
	for _, socket := range []string{o.owners.Socket(st.ID), o.owners.AgentSocket} {
		c, err := api.Dial(ctx, socket)
		if err != nil {
			continue
		}
		pod, err := api.PodStatus(ctx, c, st.ID)
		c.Close()
		if err == nil {
			return pod, nil
		}
	}
	return o.recordedPod(ctx, st)
}
