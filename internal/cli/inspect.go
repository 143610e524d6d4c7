package cli

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/serve"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/urfave/cli/v2"
)

func inspectCommand(p *program) *cli.Command {
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
		Flags:  []cli.Flag{formatFlag("json, yaml, a Go template, or podstatus: the tasks as Kubernetes Pods with their status"), ignoreFlag()},
		Action: p.withHost(inspect),
	}
}

func inspect(ctx context.Context, s *session, c *cli.Context) error {
	if !c.Args().Present() {
		return usagef("inspect", "no TASK to inspect")
	}
	if c.String("format") == "podstatus" {
		return inspectPods(ctx, s, c)
	}
	if err := checkFormat(c); err != nil {
		return err
	}
	tasks := []api.Task{}
	var errs []error
	for _, ref := range c.Args().Slice() {
		t, err := s.inspectTask(ctx, ref)
		switch {
		case err == nil:
			tasks = append(tasks, t)
		case !connect.IsGone(err) || !c.Bool("ignore"):
			errs = append(errs, err)
		}
	}
	err := printItems(s.stdout, c, tasks, func(bool) error { return console.WriteJSON(s.stdout, tasks) })
	return errors.Join(append(errs, err)...)
}

// inspectTask asks the owner of the task; without an owner it reads the record, and asks
// Podman what has become of its containers.
func (s *session) inspectTask(ctx context.Context, ref string) (api.Task, error) {
	st, err := s.Engine.Tasks.Find(ref)
	if err != nil {
		return api.Task{}, err
	}
	for _, socket := range []string{s.Socket(st.ID), s.AgentSocket} {
		c, err := api.Dial(ctx, socket)
		if err != nil {
			continue
		}
		t, err := c.Task(ctx, st.ID)
		c.Close()
		if err == nil {
			return t, nil
		}
	}
	now := time.Now()
	return serve.WithLogs(s.observedTasks(ctx, []lifecycle.State{st}, now)[0], s.Engine.Delivery, st, now), nil
}

// inspectPods prints tasks as Kubernetes Pods.
func inspectPods(ctx context.Context, s *session, c *cli.Context) error {
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
	return errors.Join(append(errs, console.WriteJSON(s.stdout, pods))...)
}

// podStatus asks the task's owner, else the record.
func podStatus(ctx context.Context, s *session, ref string) (json.RawMessage, error) {
	st, err := s.Engine.Tasks.Find(ref)
	if err != nil {
		return nil, err
	}
	for _, socket := range []string{s.Socket(st.ID), s.AgentSocket} {
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
	return serve.PodOf(ctx, s.Engine, st)
}
