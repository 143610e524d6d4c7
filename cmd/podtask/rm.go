package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/urfave/cli/v2"
)

func (p *program) rmCommand() *cli.Command {
	return &cli.Command{
		Name:      "rm",
		Usage:     "remove tasks with their containers, pods, slices and logs",
		ArgsUsage: "TASK ...",
		Description: `Images stay. The ids of the tasks are printed.

Examples:
  podtask rm web
  podtask rm -f web     # kill it first
  podtask rm --all      # all that have stopped
  podtask rm --all -f   # all`,
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "force", Aliases: []string{"f"}, Usage: "kill a task that has not stopped"},
		}, manyTasksFlags("remove", "remove all tasks that have stopped; with --force all tasks")...),
		Action: p.withHost(rm),
	}
}

func rm(ctx context.Context, s *session, c *cli.Context) error {
	force := c.Bool("force")
	fits := func(st lifecycle.State) bool { return removable(st, force) == nil }
	return s.forEach(c, fits, func(st lifecycle.State, show *progress) error {
		if err := removable(st, force); err != nil {
			return err
		}
		return s.remove(ctx, st.ID, "podtask rm", force, show.show)
	})
}

// remove removes a task and returns when nothing of it is left.
func (s *session) remove(ctx context.Context, id, by string, force bool, show func(api.Task)) error {
	asked := false
	err := s.until(ctx, id,
		func(r reached) error { return r.Remove(ctx, by, force) },
		func(t api.Task) (bool, error) {
			show(t)
			if t.Goal == lifecycle.Gone.String() {
				asked = true
			} else if asked { // it was given up
				return false, notRemoved(t)
			}
			// The record goes last: that there is none is the end.
			return false, nil
		})
	if isGone(err) {
		return s.removeOwnerLog(id)
	}
	if err == nil || errors.Is(err, errHandedOn) {
		err = fmt.Errorf("task %s is still there: try again", shortID(id))
	}
	return err
}

func notRemoved(t api.Task) error {
	why := "Podman did not remove it"
	if n := len(t.Errors); n > 0 {
		why = oneLine(t.Errors[n-1].Message)
	}
	return fmt.Errorf("task %s cannot be removed: %s", shortID(t.ID), why)
}
