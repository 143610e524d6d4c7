package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/urfave/cli/v2"
)

func (p *program) waitCommand() *cli.Command {
	return &cli.Command{
		Name:      "wait",
		Usage:     "wait for tasks and print their exit codes",
		ArgsUsage: "TASK ...",
		Description: `The exit codes come in the order of the tasks, one a line; -1 stands for a task
that has none yet, as when it is waited for until it runs.

Examples:
  podtask wait web
  podtask wait --condition healthy web`,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "condition", Value: string(untilStopped), Usage: "stopped, running or healthy"},
		}, manyTasksFlags("wait for", "wait for all tasks")...),
		Action: p.withHost(wait),
	}
}

func wait(ctx context.Context, s *session, c *cli.Context) error {
	what, err := parseCondition("wait", c.String("condition"))
	if err != nil {
		return err
	}
	refs := c.Args().Slice()
	var errs []error
	switch {
	case ofMany(c):
		var states []lifecycle.State
		if states, errs = s.named(c, func(lifecycle.State) bool { return true }); len(errs) > 0 {
			return errors.Join(errs...)
		}
		for _, st := range states {
			refs = append(refs, st.ID)
		}
	case len(refs) == 0:
		return usagef("wait", "no TASK to wait for")
	}
	for _, ref := range refs {
		st, err := s.host.Tasks.Find(ref)
		if isGone(err) && c.Bool("ignore") {
			fmt.Fprintln(s.stdout, -1)
			continue
		}
		var t api.Task
		if err == nil {
			t, err = s.await(ctx, st, what, func(api.Task) {})
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		code := -1
		if t.ExitCode != nil {
			code = int(*t.ExitCode)
		}
		fmt.Fprintln(s.stdout, code)
	}
	return errors.Join(errs...)
}

// condition is what a task can be waited for.
type condition string

const (
	untilRunning condition = "running"
	untilHealthy condition = "healthy"
	untilStopped condition = "stopped"
)

func parseCondition(verb, text string) (condition, error) {
	switch c := condition(text); c {
	case untilRunning, untilHealthy, untilStopped:
		return c, nil
	}
	return "", usagef(verb, "there is no waiting for %q: it is running, healthy or stopped", text)
}

// missedError says that a task stopped before it was what it was waited for.
type missedError struct {
	task api.Task
	what condition
}

func (e *missedError) Error() string {
	return fmt.Sprintf("task %s stopped before it was %s: %s", shortID(e.task.ID), e.what, oneLine(firstOf(e.task.StoppedReason, "no reason is known")))
}

// reached tells whether the condition is met. The error is a *missedError when it
// cannot be met any more. A task that ran and has stopped did meet "running".
func (c condition) reached(t api.Task) (bool, error) {
	stopped := t.Status == lifecycle.StatusStopped.String()
	switch {
	case c == untilStopped:
		return stopped, nil
	case c == untilRunning && !t.StartedAt.IsZero():
		return true, nil
	case c == untilHealthy && t.Status == lifecycle.StatusRunning.String() && allHealthy(t):
		return true, nil
	case stopped:
		return false, &missedError{task: t, what: c}
	}
	return false, nil
}

// allHealthy: every essential container that has a health check is healthy.
func allHealthy(t api.Task) bool {
	for _, c := range t.Containers {
		if c.Essential && c.Health != nil && c.Health.Status != lifecycle.HealthHealthy.String() {
			return false
		}
	}
	return true
}

// await waits until the task meets a condition and returns it. A task that is
// removed meanwhile has stopped; what was last seen of it is returned.
func (s *session) await(ctx context.Context, st lifecycle.State, what condition, show func(api.Task)) (api.Task, error) {
	last := s.fromState(st)
	if done, err := what.reached(last); done || err != nil {
		show(last)
		return last, err
	}
	err := s.until(ctx, st.ID, nil, func(t api.Task) (bool, error) {
		last = t
		show(t)
		return what.reached(t)
	})
	if isGone(err) && what == untilStopped {
		err = nil
	}
	return last, err
}
