package scaling

import (
	"context"
	"io"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/connect"
	run "github.com/podtask/podtask/internal/engine/run/scaling"
	"github.com/podtask/podtask/internal/engine/run/schedule"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/scaling"
	"github.com/urfave/cli/v2"
)

// Command is `podtask service scaling`.
func Command(p *command.Program) *cli.Command {
	group := &cli.Command{
		Name:  "scaling",
		Usage: "have the number of copies follow the load",
		Description: `A service that scales has a minimum and a maximum, and targets for what its copies use: the
agent measures every 20 seconds and changes the desired count. See docs/autoscaling.md.

Examples:
  podtask service scaling set web --min 1 --max 4 --cpu 60
  podtask service scaling set web --requests 600
  podtask service scaling at web evening '*-*-* 22:00' --max 1
  podtask service scaling show web`,
	}
	group.Subcommands = command.Verbs(p, newCall, verbs())
	return group
}

// targetFlags are the flags of `set` that are about targets.
func targetFlags() []cli.Flag {
	return []cli.Flag{
		&cli.Float64Flag{Name: "cpu", Usage: "keep the CPU use of a copy at `PERCENT` of its limit"},
		&cli.Float64Flag{Name: "memory", Usage: "keep the memory use of a copy at `PERCENT` of its limit"},
		&cli.Float64Flag{Name: "requests", Usage: "keep a copy at `NUMBER` requests to the public addresses in a minute"},
		&cli.Float64Flag{Name: "connections", Usage: "keep a copy at `NUMBER` new connections to the listeners in a minute"},
		&cli.StringSliceFlag{Name: "metric", Usage: "keep a metric that the copies serve themselves at a number: `ENDPOINT` is 'CONTAINER:PORT[/PATH] NAME=NUMBER'"},
		&cli.StringSliceFlag{Name: "step", Usage: "add or remove copies while a metric is in a range: `STEP` is 'METRIC FROM..TO=CHANGE', the change +1, -1, +50%, -50% or a number of copies"},
		&cli.IntFlag{Name: "min-adjustment", Usage: "have a step in percent change at least `NUMBER` copies", DefaultText: "1"},
		&cli.DurationFlag{Name: "cooldown-out", Usage: "expect copies that were added to have their effect after `TIME`", DefaultText: "5m"},
		&cli.DurationFlag{Name: "cooldown-in", Usage: "remove no copies for `TIME` after a change", DefaultText: "5m"},
		&cli.BoolFlag{Name: "only-out", Usage: "add copies, and remove none"},
	}
}

func verbs() []command.Verb[call] {
	output, sorted, one := command.FormatFlag(command.ListFormats), command.SortFlag(), "the name of a service"
	bounds := []cli.Flag{
		&cli.IntFlag{Name: "min", Usage: "never fewer than `NUMBER` copies", DefaultText: "1"},
		&cli.IntFlag{Name: "max", Usage: "never more than `NUMBER` copies"},
	}
	return []command.Verb[call]{
		{
			Name: "set", Args: "SERVICE", Usage: "set the bounds and targets of a service; what is not named stays",
			Description: `A target of 0 removes it. Three samples in a row above a target add copies; fifteen minutes
below nine tenths of all targets remove some. A service with a desired count of 0 stays so.

Examples:
  podtask service scaling set web --min 1 --max 4 --cpu 60 --memory 80
  podtask service scaling set web --cpu 0 --requests 600
  podtask service scaling set worker --max 8 --metric 'app:9090/metrics jobs_waiting{queue="mail"}=10'
  podtask service scaling set web --step 'cpu 70..90=+1' --step 'cpu 90..=+50%' --step 'cpu ..30=-1'
  podtask service scaling set web --cooldown-in 10m --only-out`,
			Least: 1, Most: 1, Needs: one, Flags: append(append([]cli.Flag{}, bounds...), targetFlags()...), Do: call.set,
		},
		{
			Name: "at", Args: "SERVICE NAME [TIME]", Usage: "change the bounds at set times",
			Description: `TIME is a calendar event of systemd.time(7), five fields of cron, or rate(), cron() or at() of
EventBridge, which are in UTC unless --timezone is given. Copies follow the new bounds at once.

Examples:
  podtask service scaling at web morning 'Mon..Fri 07:00' --min 3
  podtask service scaling at web evening 'Mon..Fri 20:00' --min 1 --max 2
  podtask service scaling at web morning --rm`,
			Least: 2, Most: 3, Needs: one + " and one for the change", Flags: append(append([]cli.Flag{}, bounds...),
				&cli.StringFlag{Name: "timezone", Usage: "read the time in time zone `TZ`, such as Europe/Berlin", DefaultText: "that of the host"},
				&cli.BoolFlag{Name: "rm", Usage: "remove it"},
			), Do: call.at,
		},
		{Name: "ls", Args: " ", Usage: "list services that scale", Description: "Examples:\n  podtask service scaling ls", Flags: []cli.Flag{command.QuietFlag("names"), output, sorted}, Do: call.list},
		{
			Name: "show", Args: "SERVICE", Usage: "show targets, what is measured, and the latest changes with their reasons", Description: "Examples:\n  podtask service scaling show web\n  podtask service scaling show web --format json", Least: 1, Most: 1, Needs: one,
			Flags: []cli.Flag{command.FormatFlag(command.ItemFormats)}, Do: call.show,
		},
		{
			Name: "suspend", Args: "SERVICE ...", Usage: "change no desired counts for now", Description: "Examples:\n  podtask service scaling suspend web", Least: 1, Most: command.Many, Needs: one,
			Do: func(o call, ctx context.Context, args []string) error {
				return o.suspend(ctx, args, scaling.Suspended{In: true, Out: true, Scheduled: true})
			},
		},
		{
			Name: "resume", Args: "SERVICE ...", Usage: "scale suspended services again", Description: "Examples:\n  podtask service scaling resume web", Least: 1, Most: command.Many, Needs: one,
			Do: func(o call, ctx context.Context, args []string) error {
				return o.suspend(ctx, args, scaling.Suspended{})
			},
		},
		{Name: "rm", Args: "SERVICE ...", Usage: "end the scaling of services; their desired counts stay", Description: "Examples:\n  podtask service scaling rm web", Least: 1, Most: command.Many, Needs: one, Do: call.rm},
	}
}

// options are the dependencies of `podtask service scaling`.
type options struct {
	out, errOut io.Writer
	warn        func(format string, args ...any)
	connector   *connect.Connector
	calendar    run.Calendar
	store       *run.Store
	now         func() time.Time
}

func newCall(m *command.Machine, c *cli.Context) (call, error) {
	store, err := run.Open(m.Connector.StateDir, state.OS{})
	return call{c: c, options: options{
		out: m.Program.Stdout, errOut: m.Program.Stderr, warn: m.Program.Warn, connector: m.Connector, store: store, now: time.Now,
		calendar: schedule.SystemdCalendar{Path: m.Program.Getenv("PATH")},
	}}, err
}

// call is a command line of `podtask service scaling`.
type call struct {
	options
	c *cli.Context
}
