package main

import (
	"context"
	"fmt"

	"github.com/podtask/podtask/internal/cleanup"
	"github.com/podtask/podtask/internal/console"
	"github.com/urfave/cli/v2"
)

func gcCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:  "gc",
		Usage: "remove pods and networks whose task no longer exists",
		Description: `If podtask is killed while it creates or removes a task, a pod may be left without a
record. Owners of tasks look for such pods at most every ten minutes. This command does it
now and lists what it removes. It removes only what podtask created for this state
directory, and nothing of a task that has a record or an owner.

Examples:
  podtask gc
  podtask gc --format json`,
		Flags:  []cli.Flag{formatFlag("json or a Go template")},
		Action: p.withHost(gc),
	}
}

func gc(ctx context.Context, s *session, c *cli.Context) error {
	if err := noArguments(c); err != nil {
		return err
	}
	removed, swept := s.Agent.Orphans.Sweep(ctx)
	if removed == nil {
		removed = []cleanup.Orphan{}
	}
	var err error
	switch format := c.String("format"); format {
	case "":
		for _, o := range removed {
			fmt.Fprintf(s.stdout, "removed %s %s of task %s\n", o.Kind, o.Name, console.ShortID(o.Task))
		}
	case "json":
		err = console.WriteJSON(s.stdout, removed)
	default:
		err = formatted(s.stdout, "gc", format, removed)
	}
	if swept != nil {
		return swept
	}
	return err
}
