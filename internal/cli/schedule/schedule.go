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
	group.Subcommands = command.Verbs(p, newCall, verbs())
	return group
}

func verbs() []command.Verb[call] {
	output, sorted, whole, one := command.FormatFlag(command.ListFormats), command.SortFlag(), command.NoTruncFlag("what is too wide"), "the name of a schedule"
	return []command.Verb[call]{
		{
			Name: "create", Args: "NAME FILE|-|FAMILY[:REV]", Usage: "create a schedule of a definition, which is read now",
			Description: `--at is a calendar event of systemd.time(7), or rate(), cron() or at() of EventBridge, which
are in UTC unless --timezone is given. A CronJob says itself when it is due.
With --overlap forbid, a run is left out while an earlier one has not ended; replace stops
the earlier one first. Times at which the host was off or asleep are left out, or with
--catch-up made up for by one run.

Examples:
  podtask schedule create nightly job.yaml --at 'Mon..Fri 03:00' --timezone Europe/Berlin
  podtask schedule create poll poll.json --at '*:0/5' --overlap replace`,
			Least: 2, Most: 2, Needs: "a name and a definition", Flags: append([]cli.Flag{
				&cli.StringSliceFlag{Name: "at", Usage: "run at `TIME`; may be given again"},
				&cli.StringFlag{Name: "timezone", Usage: "read the times in time zone `TZ`, such as Europe/Berlin", DefaultText: "that of the host"},
				&cli.StringFlag{Name: "overlap", Value: string(schedule.Forbid), Usage: "if an earlier run has not ended: `RULE` forbid, replace or allow"},
				&cli.BoolFlag{Name: "catch-up", Usage: "make up for missed times with one run"},
				&cli.BoolFlag{Name: "paused", Usage: "create it paused, until podtask schedule resume"},
			}, command.TaskFlags()...), Do: call.create,
		},
		{Name: "ls", Args: " ", Usage: "list schedules with their latest and next runs", Description: "Examples:\n  podtask schedule ls", Flags: []cli.Flag{command.QuietFlag("names"), whole, output, sorted}, Do: call.list},
		{Name: "history", Args: "NAME", Usage: "list the latest hundred runs of a schedule", Description: "Examples:\n  podtask schedule history nightly", Least: 1, Most: 1, Needs: one, Flags: []cli.Flag{whole, output, sorted}, Do: call.history},
		{
			Name: "run", Args: "NAME", Usage: "run a schedule now, and print the ID of the task", Description: "The rule for overlaps holds. A paused schedule runs, too.\n\nExamples:\n  podtask schedule run nightly", Least: 1, Most: 1, Needs: one,
			Flags: []cli.Flag{&cli.BoolFlag{Name: "due", Usage: "run it if it is due, as its timer does"}}, Do: call.run,
		},
		{Name: "pause", Args: "NAME ...", Usage: "suspend schedules; runs missed meanwhile are not caught up", Description: "A run that has begun continues.\n\nExamples:\n  podtask schedule pause nightly", Least: 1, Most: command.Many, Needs: one, Do: call.pause},
		{Name: "resume", Args: "NAME ...", Usage: "continue paused schedules, and renew their timers", Description: "Examples:\n  podtask schedule resume nightly", Least: 1, Most: command.Many, Needs: one, Do: call.resume},
		{
			Name: "rm", Args: "NAME ...", Usage: "remove schedules; the tasks that have ended stay", Description: "Examples:\n  podtask schedule rm nightly", Least: 1, Most: command.Many, Needs: one,
			Flags: []cli.Flag{&cli.BoolFlag{Name: "force", Aliases: []string{"f"}, Usage: "stop the runs first that have not ended"}}, Do: call.rm,
		},
	}
}

// options holds the dependencies of a command of `podtask schedule`.
type options struct {
	out, errOut io.Writer
	warn        func(format string, args ...any)
	getenv      func(string) string
	units       schedule.Units
	definition  func(c *cli.Context, name string) (command.Definition, error)
	defaults    func(*schedule.State)

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

func newCall(m *command.Machine, c *cli.Context) (call, error) {
	p, e := m.Program, m.Engine
	store, err := schedule.Open(m.Connector.StateDir, state.OS{})
	return call{c: c, options: options{
		out: p.Stdout, errOut: p.Stderr, warn: p.Warn, getenv: p.Getenv,
		units:      schedule.Units{Getenv: p.Getenv, Environ: p.Environ, Executable: p.Executable, Flags: m.Config.FlagArgs()},
		definition: p.TaskDefinition,
		defaults: func(s *schedule.State) {
			d := m.Config.Tasks
			s.Options.Pull, s.Options.Limits, s.Options.Quota = d.Pull, d.Limits, d.Quota
			if m.Config.Origin("logs") == "--logs" {
				s.Options.Logs = d.Logs
			}
		},
		store: store, calendar: schedule.SystemdCalendar{Path: p.Getenv("PATH")}, tasks: e.Tasks, events: e.Events, owners: e.Owners, creator: e.Creator,
		preflight: e.Preflight, secrets: e.Secrets, images: e.Images, launcher: m.Launcher(),
	}}, err
}

// call is a command line of `podtask schedule`.
type call struct {
	options
	c *cli.Context
}

// manager connects to systemd's user manager, without which no schedule is woken.
func (o options) manager(ctx context.Context) (*cgroups.User, error) {
	return cgroups.Dial(ctx, o.getenv)
}
