package task

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/serve/ownerapi"
	"github.com/podtask/podtask/pkg/api"
	"github.com/urfave/cli/v2"
)

func InspectCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "inspect",
		Usage:     "print all that is known of tasks, as a JSON array",
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
		Action: p.WithMachine(inspect),
	}
}

func inspect(ctx context.Context, s *command.Machine, c *cli.Context) error {
	if !c.Args().Present() {
		return command.Usagef("inspect", "no TASK to inspect")
	}
	if c.String("format") == "podstatus" {
		return inspectPods(ctx, s, c)
	}
	if err := command.CheckFormat(c); err != nil {
		return err
	}
	tasks := []api.Task{}
	var errs []error
	for _, ref := range c.Args().Slice() {
		t, err := s.InspectTask(ctx, ref)
		switch {
		case err == nil:
			tasks = append(tasks, t)
		case !connect.IsGone(err) || !c.Bool("ignore"):
			errs = append(errs, err)
		}
	}
	err := command.PrintItems(s.Program.Stdout, c, tasks, func(bool) error { return console.WriteJSON(s.Program.Stdout, tasks) })
	return errors.Join(append(errs, err)...)
}

// inspectPods prints tasks as Kubernetes Pods.
func inspectPods(ctx context.Context, s *command.Machine, c *cli.Context) error {
	pods := []json.RawMessage{}
	var errs []error
	for _, ref := range c.Args().Slice() {
		pod, err := podStatus(ctx, s, ref)
		switch {
		case err == nil:
			pods = append(pods, pod)
		case !connect.IsGone(err) || !c.Bool("ignore"):
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, console.WriteJSON(s.Program.Stdout, pods))...)
}

// podStatus asks the task's owner, else the record.
func podStatus(ctx context.Context, s *command.Machine, ref string) (json.RawMessage, error) {
	st, err := s.Engine.Tasks.Find(ref)
	if err != nil {
		return nil, err
	}
	for _, socket := range []string{s.Connector.Socket(st.ID), s.Connector.AgentSocket} {
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
	return ownerapi.PodOf(ctx, s.Engine, st)
}
