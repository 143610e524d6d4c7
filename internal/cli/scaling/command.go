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

// verb is a command of `podtask service scaling`. It takes least to most arguments.
type verb struct {
	name, args, usage, description string
	least, most                    int
	flags                          []cli.Flag
	do                             func(call, context.Context, []string) error
}

// many is the number of arguments of a command without a limit.
const many = 1 << 30

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
	for _, v := range verbs() {
		group.Subcommands = append(group.Subcommands, &cli.Command{
			Name: v.name, Usage: v.usage, ArgsUsage: v.args, Flags: v.flags, Description: v.description,
			Action: command.WithMachine(p, newCall(v)),
		})
	}
	return group
}

func verbs() []verb {
	output, sorted := command.FormatFlag(command.ListFormats), command.SortFlag()
	bounds := []cli.Flag{
		&cli.IntFlag{Name: "min", Usage: "never fewer than `NUMBER` copies", DefaultText: "1"},
		&cli.IntFlag{Name: "max", Usage: "never more than `NUMBER` copies"},
	}
	return []verb{
		{
			"set", "SERVICE", "set the bounds and targets of a service; what is not named stays",
			`A target of 0 removes it. Three samples in a row above a target add copies; fifteen minutes
below nine tenths of all targets remove some. A service with a desired count of 0 stays so.

Examples:
  podtask service scaling set web --min 1 --max 4 --cpu 60 --memory 80
  podtask service scaling set web --cpu 0 --requests 600
  podtask service scaling set web --cooldown-in 10m --only-out`,
			1, 1, append(append([]cli.Flag{}, bounds...),
				&cli.Float64Flag{Name: "cpu", Usage: "keep the CPU use of a copy at `PERCENT` of its limit"},
				&cli.Float64Flag{Name: "memory", Usage: "keep the memory use of a copy at `PERCENT` of its limit"},
				&cli.Float64Flag{Name: "requests", Usage: "keep a copy at `NUMBER` requests to the public addresses in a minute"},
				&cli.Float64Flag{Name: "connections", Usage: "keep a copy at `NUMBER` new connections to the listeners in a minute"},
				&cli.DurationFlag{Name: "cooldown-out", Usage: "expect copies that were added to have their effect after `TIME`", DefaultText: "5m"},
				&cli.DurationFlag{Name: "cooldown-in", Usage: "remove no copies for `TIME` after a change", DefaultText: "5m"},
				&cli.BoolFlag{Name: "only-out", Usage: "add copies, and remove none"},
			), call.set,
		},
		{
			"at", "SERVICE NAME [TIME]", "change the bounds at set times",
			`TIME is a calendar event of systemd.time(7), five fields of cron, or rate(), cron() or at() of
EventBridge, which are in UTC unless --timezone is given. Copies follow the new bounds at once.

Examples:
  podtask service scaling at web morning 'Mon..Fri 07:00' --min 3
  podtask service scaling at web evening 'Mon..Fri 20:00' --min 1 --max 2
  podtask service scaling at web morning --rm`,
			2, 3, append(append([]cli.Flag{}, bounds...),
				&cli.StringFlag{Name: "timezone", Usage: "read the time in time zone `TZ`, such as Europe/Berlin", DefaultText: "that of the host"},
				&cli.BoolFlag{Name: "rm", Usage: "remove it"},
			), call.at,
		},
		{"ls", " ", "list services that scale", "Examples:\n  podtask service scaling ls", 0, 0, []cli.Flag{command.QuietFlag("names"), output, sorted}, call.list},
		{
			"show", "SERVICE", "show targets, what is measured, and the latest changes with their reasons", "Examples:\n  podtask service scaling show web\n  podtask service scaling show web --format json", 1, 1,
			[]cli.Flag{command.FormatFlag(command.ItemFormats)}, call.show,
		},
		{
			"suspend", "SERVICE ...", "change no desired counts for now", "Examples:\n  podtask service scaling suspend web", 1, many,
			nil, func(o call, ctx context.Context, args []string) error {
				return o.suspend(ctx, args, scaling.Suspended{In: true, Out: true, Scheduled: true})
			},
		},
		{
			"resume", "SERVICE ...", "scale suspended services again", "Examples:\n  podtask service scaling resume web", 1, many,
			nil, func(o call, ctx context.Context, args []string) error {
				return o.suspend(ctx, args, scaling.Suspended{})
			},
		},
		{"rm", "SERVICE ...", "end the scaling of services; their desired counts stay", "Examples:\n  podtask service scaling rm web", 1, many, nil, call.rm},
	}
}

// options are the dependencies of `podtask service scaling`.
type options struct {
	verb        verb
	out, errOut io.Writer
	warn        func(format string, args ...any)
	connector   *connect.Connector
	calendar    run.Calendar
	failed      error // to open the store
	store       *run.Store
	now         func() time.Time
}

func newCall(v verb) func(*command.Machine) options {
	return func(m *command.Machine) options {
		store, err := run.Open(m.Connector.StateDir, state.OS{})
		return options{
			verb: v, out: m.Program.Stdout, errOut: m.Program.Stderr, warn: m.Program.Warn, connector: m.Connector, failed: err, store: store, now: time.Now,
			calendar: schedule.SystemdCalendar{Path: m.Program.Getenv("PATH")},
		}
	}
}

// call is a command line of `podtask service scaling`.
type call struct {
	options
	c *cli.Context
}

// Run implements command.Runner.
func (o options) Run(ctx context.Context, c *cli.Context) error {
	args, path := c.Args().Slice(), command.Path(c)
	switch {
	case o.failed != nil:
		return o.failed
	case len(args) < o.verb.least && o.verb.least == 2:
		return command.Usagef(path, "%s needs the name of a service and one for the change", path)
	case len(args) < o.verb.least:
		return command.Usagef(path, "%s needs the name of a service", path)
	case len(args) > o.verb.most:
		return command.Usagef(path, "%s does not take %q", path, args[o.verb.most])
	}
	return o.verb.do(call{o, c}, ctx, args)
}
