package main

import (
	"context"
	"strconv"
	"time"

	"github.com/podtask/podtask/internal/console"
	"github.com/podtask/podtask/internal/observe"
	"github.com/urfave/cli/v2"
)

func logsCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "logs",
		Usage:     "show what the containers of a task wrote",
		ArgsUsage: "TASK [CONTAINER]",
		Description: `The stdout of a container is printed to stdout, its stderr to stderr. Without CONTAINER
each line begins with the name of the container.

Examples:
  podtask logs -f web
  podtask logs --tail 20 -t web nginx
  podtask logs --since 1h --until 50m web`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "continue until the containers have ended"},
			&cli.StringFlag{Name: "since", Usage: "show what was written after `TIME`: 2006-01-02T15:04:05Z, seconds since 1970 or how long ago (10m)"},
			&cli.StringFlag{Name: "until", Usage: "show what was written before `TIME`, said in the same ways"},
			&cli.StringFlag{Name: "tail", Aliases: []string{"n"}, Usage: "begin with the last `N` lines of each container, with --until of those before it", DefaultText: "all"},
			&cli.BoolFlag{Name: "timestamps", Aliases: []string{"t"}, Usage: "show when each line was written"},
		},
		Action: p.withHost(logs),
	}
}

func logs(ctx context.Context, s *session, c *cli.Context) error {
	if n := c.Args().Len(); n < 1 || n > 2 {
		return usagef("logs", "logs takes a TASK and perhaps a CONTAINER, not %d arguments", n)
	}
	opts := observe.LogOptions{Follow: c.Bool("follow"), Timestamps: c.Bool("timestamps"), Tail: -1}
	var err error
	now := time.Now()
	if opts.Since, err = parseTime(c.String("since"), now); err != nil {
		return usagef("logs", "--since: %v", err)
	}
	if opts.Until, err = parseTime(c.String("until"), now); err != nil {
		return usagef("logs", "--until: %v", err)
	}
	if opts.Follow && !opts.Until.IsZero() {
		return usagef("logs", "--follow and --until exclude each other")
	}
	if tail := c.String("tail"); tail != "" && tail != "all" {
		if opts.Tail, err = strconv.Atoi(tail); err != nil {
			return usagef("logs", "--tail is a number of lines or all, not %q", tail)
		}
	}
	st, err := s.Agent.Tasks.Find(c.Args().First())
	if err != nil {
		return err
	}
	container := c.Args().Get(1)
	printer := console.NewLogPrinter(s.stdout, s.stderr, st, s.getenv)
	printer.Prefix, printer.Stamps = container == "", opts.Timestamps
	return s.Agent.Logs.Read(ctx, st, container, opts, printer.Line)
}
