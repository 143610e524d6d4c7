package schedule

import (
	"context"
	"io"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/engine/act/imagestore"
	"github.com/podtask/podtask/internal/engine/act/preflight"
	"github.com/podtask/podtask/internal/engine/act/tasksecrets"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/run/owner"
	"github.com/podtask/podtask/internal/engine/run/schedule"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/urfave/cli/v2"
)

// verb is a command of `podtask schedule`. It takes least to most arguments.
type verb struct {
	name, args, usage, description string
	least, most                    int
	flags                          []cli.Flag
	do                             func(call, context.Context, []string) error
}

// many is the number of arguments of a command without a limit.
const many = 1 << 30

// Command is `podtask schedule`.
func Command(p *command.Program) *cli.Command {
	group := &cli.Command{
		Name:  "schedule",
		Usage: "run tasks at set times",
		Description: `A schedule is a task definition with times. A timer of systemd's user manager wakes it; no
agent is needed. A time has at most one run, whatever is killed, suspended or set back.
See docs/schedules.md.

Examples:
  podtask schedule create nightly job.yaml --at 'Mon..Fri 03:00' --catch-up
  podtask schedule ls
  podtask schedule history nightly
  podtask schedule run nightly
  podtask schedule pause nightly
  podtask schedule rm nightly`,
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
	return []verb{
		{
			"create", "NAME FILE|-|FAMILY[:REV]", "create a schedule of a definition, which is read now",
			`--at is a calendar event of systemd.time(7), or rate(), cron() or at() of EventBridge, which
are in UTC unless --timezone is given. A CronJob says itself when it is due.
With --overlap forbid, a run is left out while an earlier one has not ended; replace stops
the earlier one first. Times at which the host was off or asleep are left out, or with
--catch-up made up for by one run.

Examples:
  podtask schedule create nightly job.yaml --at 'Mon..Fri 03:00' --timezone Europe/Berlin
  podtask schedule create poll poll.json --at '*:0/5' --overlap replace`,
			2, 2, append([]cli.Flag{
				&cli.StringSliceFlag{Name: "at", Usage: "run at `TIME`; may be given again"},
				&cli.StringFlag{Name: "timezone", Usage: "read the times in time zone `TZ`, such as Europe/Berlin", DefaultText: "that of the host"},
				&cli.StringFlag{Name: "overlap", Value: string(schedule.Forbid), Usage: "if an earlier run has not ended: `RULE` forbid, replace or allow"},
				&cli.BoolFlag{Name: "catch-up", Usage: "make up for missed times with one run"},
				&cli.BoolFlag{Name: "paused", Usage: "create it paused, until podtask schedule resume"},
			}, command.TaskFlags()...), call.create,
		},
		{"ls", " ", "list schedules with their latest and next runs", "Examples:\n  podtask schedule ls", 0, 0, []cli.Flag{command.QuietFlag("names"), output, sorted}, call.list},
		{"history", "NAME", "list the latest hundred runs of a schedule", "Examples:\n  podtask schedule history nightly", 1, 1, []cli.Flag{output, sorted}, call.history},
		{
			"run", "NAME", "run a schedule now, and print the ID of the task", "The rule for overlaps holds. A paused schedule runs, too.\n\nExamples:\n  podtask schedule run nightly", 1, 1,
			[]cli.Flag{&cli.BoolFlag{Name: "due", Usage: "run it if it is due, as its timer does"}}, call.run,
		},
		{"pause", "NAME ...", "suspend schedules; runs missed meanwhile are not caught up", "A run that has begun continues.\n\nExamples:\n  podtask schedule pause nightly", 1, many, nil, call.pause},
		{"resume", "NAME ...", "continue paused schedules, and renew their timers", "Examples:\n  podtask schedule resume nightly", 1, many, nil, call.resume},
		{
			"rm", "NAME ...", "remove schedules; the tasks that have ended stay", "Examples:\n  podtask schedule rm nightly", 1, many,
			[]cli.Flag{&cli.BoolFlag{Name: "force", Aliases: []string{"f"}, Usage: "stop the runs first that have not ended"}}, call.rm,
		},
	}
}

// options holds the dependencies of a command of `podtask schedule`.
type options struct {
	verb        verb
	out, errOut io.Writer
	warn        func(format string, args ...any)
	environ     func() []string
	getenv      func(string) string
	executable  func() (string, error)
	definition  func(c *cli.Context, name string) (command.Definition, error)
	defaults    func(*schedule.State)
	flags       []string

	failed    error // to open the store
	store     *schedule.Store
	calendar  schedule.SystemdCalendar
	tasks     *record.Tasks
	events    *record.Events
	owners    *owner.Owners
	creator   *owner.Creator
	preflight *preflight.Checker
	secrets   *tasksecrets.Store
	images    *imagestore.Resolver
	launcher  *connect.Launcher
}

func newCall(v verb) func(*command.Machine) options {
	return func(m *command.Machine) options {
		p, e := m.Program, m.Engine
		store, err := schedule.Open(m.Connector.StateDir, state.OS{})
		return options{
			failed: err,
			verb:   v, out: p.Stdout, errOut: p.Stderr, warn: p.Warn, environ: p.Environ, getenv: p.Getenv, executable: p.Executable,
			definition: p.TaskDefinition, flags: m.Config.FlagArgs(),
			defaults: func(s *schedule.State) {
				d := m.Config.Tasks
				s.Options.Pull, s.Options.Limits, s.Options.Quota = d.Pull, d.Limits, d.Quota
				if m.Config.Origin("logs") == "--logs" {
					s.Options.Logs = d.Logs
				}
			},
			store: store, calendar: schedule.SystemdCalendar{Path: p.Getenv("PATH")}, tasks: e.Tasks, events: e.Events, owners: e.Owners, creator: e.Creator,
			preflight: e.Preflight, secrets: e.Secrets, images: e.Images, launcher: m.Launcher(),
		}
	}
}

// call is a command line of `podtask schedule`.
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
		return command.Usagef(path, "%s needs a name and a definition", path)
	case len(args) < o.verb.least:
		return command.Usagef(path, "%s needs the name of a schedule", path)
	case len(args) > o.verb.most:
		return command.Usagef(path, "%s does not take %q", path, args[o.verb.most])
	}
	return o.verb.do(call{o, c}, ctx, args)
}

// manager connects to systemd's user manager, without which no schedule is woken.
func (o options) manager(ctx context.Context) (*cgroups.User, error) {
	return cgroups.Dial(ctx, o.getenv)
}
