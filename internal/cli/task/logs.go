package task

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/cli/part"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/engine/act/logdelivery"
	"github.com/podtask/podtask/internal/engine/act/observe"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/unitfile/unitdir"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"
)

// LogsCommand is `podtask logs`.
func LogsCommand(p *command.Program, build part.Build) *cli.Command {
	return &cli.Command{
		Name:      "logs",
		Usage:     "show the logs of a task",
		ArgsUsage: "TASK|SERVICE|SCHEDULE ... [CONTAINER]",
		Description: `The name of a service stands for its copies, with -f also for those that it starts meanwhile
(one that sleeps is woken); that of a schedule for its latest run. The stdout of a container is printed to stdout, its stderr to stderr. Each line begins with
the name of the container, unless one is chosen, and of the task where there are several.
A last argument that is the name of a container of each of the tasks chooses it too.

Examples:
  podtask logs -f web
  podtask logs --tail 20 nightly
  podtask logs --tail 20 -t web nginx
  podtask logs -f -c app web worker
  podtask logs --since 1h --until 50m web
  podtask logs --since 10m --grep '(?i)error|warn' web
  podtask logs --routes web`,
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "continue until the containers have ended"},
			&cli.StringFlag{Name: "container", Aliases: []string{"c"}, Usage: "show `CONTAINER` only"},
			&cli.StringFlag{Name: "since", Usage: "show what was written after `TIME`: 2006-01-02T15:04:05Z, seconds since 1970 or how long ago (10m)"},
			&cli.StringFlag{Name: "until", Usage: "show what was written before `TIME`, in the same forms"},
			&cli.StringFlag{Name: "tail", Aliases: []string{"n"}, Usage: "begin with the last `N` lines of each container, with --until of those before it", DefaultText: "all"},
			&cli.StringFlag{Name: "grep", Aliases: []string{"g"}, Usage: "show only lines that match the `REGEXP` of Go; (?i) at its beginning ignores case"},
			&cli.BoolFlag{Name: "routes", Usage: "show where the output of each container is sent, and how much of it was"},
			// Without -o, because -follow would be -f -o llow.
			&cli.StringFlag{Name: "format", Usage: "with --routes: print in `FORMAT` " + command.ListFormats},
			&cli.BoolFlag{Name: "timestamps", Aliases: []string{"t"}, Usage: "show when each line was written"},
		}, command.PositionFlags()...),
		Action: command.WithMachine(p, newLogs(build)),
	}
}

type logsOptions struct {
	out      io.Writer
	errOut   io.Writer
	getenv   func(string) string
	warn     func(format string, args ...any)
	tasks    *record.Tasks
	groups   groups
	logs     *observe.Logs
	delivery *logdelivery.Deliverer
}

func newLogs(build part.Build) func(*command.Machine) logsOptions {
	return func(m *command.Machine) logsOptions {
		return logsOptions{
			out:      m.Program.Stdout,
			errOut:   m.Program.Stderr,
			getenv:   m.Program.Getenv,
			warn:     m.Program.Warn,
			tasks:    m.Engine.Tasks,
			groups:   groups{m.Engine.Tasks, m.Connector, build, m.Program.Stderr},
			logs:     m.Engine.Logs,
			delivery: m.Engine.Delivery,
		}
	}
}

// Run implements command.Runner.
func (o logsOptions) Run(ctx context.Context, c *cli.Context) error {
	opts, err := parseLogOptions(c)
	if err != nil {
		return err
	}
	from, err := o.sources(ctx, c, opts)
	if err != nil {
		return err
	}
	if c.Bool("routes") {
		return o.printRoutes(c, from.states, from.container)
	}
	if c.String("format") != "" {
		return command.Usagef("logs", "--format is for --routes")
	}
	wanted, err := regexp.Compile(c.String("grep"))
	if err != nil {
		return command.Usagef("logs", "--grep: %v", err)
	}
	var places *logPlaces
	if c.Bool(command.PositionsFlag) {
		if places, err = newLogPlaces(o.out, c.StringSlice(command.ResumeFlag), &opts); err != nil {
			return err
		}
	}
	read := func(ctx context.Context, st lifecycle.State, printer *console.LogPrinter, opts observe.LogOptions) error {
		err := o.logs.Read(ctx, st, from.container, opts, func(l observe.LogLine) error {
			if !wanted.MatchString(l.Text) {
				return nil
			}
			if places != nil {
				return places.print(printer, st.ID, l)
			}
			return printer.Line(l)
		})
		if errors.As(err, new(*observe.IncompleteError)) {
			o.warn("%v", err)
			return nil
		}
		return err
	}
	if opts.Follow {
		return o.follow(ctx, from, opts, read)
	}
	for i, printer := range from.printers(o) {
		if err := read(ctx, from.states[i], printer, opts); err != nil {
			return err
		}
	}
	return nil
}

// follow reads all logs at once, also those of copies that the services get meanwhile.
func (o logsOptions) follow(ctx context.Context, from logSources, opts observe.LogOptions, read func(context.Context, lifecycle.State, *console.LogPrinter, observe.LogOptions) error) error {
	all, ctx := errgroup.WithContext(ctx)
	for i, printer := range from.printers(o) {
		all.Go(func() error { return read(ctx, from.states[i], printer, opts) })
	}
	if len(from.services) > 0 {
		all.Go(func() error {
			return o.followCopies(ctx, from, func(st lifecycle.State) {
				whole := opts
				whole.Tail = -1
				all.Go(func() error { return read(ctx, st, from.printer(o, st), whole) })
			})
		})
	}
	return all.Wait()
}

// logSources are the tasks that a command line names.
type logSources struct {
	states []lifecycle.State
	// services are the services whose copies are among the tasks.
	services []string
	// container is the container in each of the tasks; empty for all.
	container string
	// stamps: each line begins with its time.
	stamps bool
}

// printers returns a printer for each of the tasks.
func (s logSources) printers(o logsOptions) []*console.LogPrinter {
	printers := console.NewLogPrinters(o.out, o.errOut, s.states, o.getenv)
	for i, p := range printers {
		if len(s.services) > 0 {
			printers[i] = s.printer(o, s.states[i])
			continue
		}
		p.Prefix, p.Stamps = p.Prefix || s.container == "", s.stamps
	}
	return printers
}

// printer returns the printer of one of several tasks whose number is not known.
func (s logSources) printer(o logsOptions, st lifecycle.State) *console.LogPrinter {
	p := console.NewLogPrinter(o.out, o.errOut, st, o.getenv)
	p.Task, p.Prefix, p.Stamps = st.DisplayName()+"/", true, s.stamps
	p.Width += len(p.Task)
	return p
}

// followCopies calls begin for each copy that the services get from now on, until the context ends.
func (o logsOptions) followCopies(ctx context.Context, from logSources, begin func(lifecycle.State)) error {
	known := make(map[string]bool)
	listed := false
	for _, st := range from.states {
		known[st.ID] = true
	}
	return o.tasks.Store.FollowRecords(ctx, func(id string) {
		if known[id] {
			return
		}
		known[id] = true
		if st, err := o.tasks.Get(id); err == nil && slices.Contains(from.services, st.Options.Service) && (listed || !st.Settled()) {
			begin(st)
		}
	}, func() { listed = true })
}

// sources returns the tasks that the command line names, and the container in each of them.
func (o logsOptions) sources(ctx context.Context, c *cli.Context, opts observe.LogOptions) (from logSources, err error) {
	refs := c.Args().Slice()
	from.stamps = opts.Timestamps
	from.container = c.String("container")
	if len(refs) == 0 {
		return from, command.Usagef("logs", "no TASK to show the logs of")
	}
	for i, ref := range refs {
		last := i > 0 && i == len(refs)-1 && from.container == ""
		if last && hasContainer(from.states, ref) { // even if the ID of a task begins with it
			from.container = ref
			break
		}
		st, err := o.tasks.FindToShow(ref)
		if connect.IsGone(err) {
			found, failed := o.group(ctx, ref, opts.Follow, &from)
			if failed != nil {
				return from, failed
			}
			if found {
				continue
			}
		}
		if last && i == 1 && connect.IsGone(err) {
			return from, fmt.Errorf("there is no task %q, and task %s has no such container", ref, from.states[0].DisplayName())
		}
		if connect.IsGone(err) {
			return from, cmp.Or(unitdir.Named(o.getenv, ref), err)
		}
		if err != nil {
			return from, err
		}
		from.states = append(from.states, st)
	}
	for _, st := range from.states {
		if _, ok := st.Task.Index(from.container); !ok && from.container != "" {
			return from, fmt.Errorf("task %s has no container %q", st.DisplayName(), from.container)
		}
	}
	return from, nil
}

// group adds the tasks of a name that is not their own. Who follows the logs of a service that sleeps wakes it, and sees the copies
// that it gets.
func (o logsOptions) group(ctx context.Context, name string, follow bool, from *logSources) (found bool, err error) {
	states, service := o.groups.find(name)
	if follow && (service || len(states) == 0) {
		if service, err = o.groups.wake(ctx, name, "podtask logs --follow", false); err != nil {
			return false, err
		}
		service = service || len(states) > 0
	}
	from.states = append(from.states, states...)
	if service {
		from.services = append(from.services, name)
	}
	return service || len(states) > 0, nil
}

// hasContainer reports whether each of the tasks has a container of that name.
func hasContainer(states []lifecycle.State, name string) bool {
	return !slices.ContainsFunc(states, func(s lifecycle.State) bool {
		_, ok := s.Task.Index(name)
		return !ok
	})
}

func parseLogOptions(c *cli.Context) (observe.LogOptions, error) {
	opts := observe.LogOptions{Follow: c.Bool("follow"), Timestamps: c.Bool("timestamps"), Tail: -1}
	var err error
	now := time.Now()
	if opts.Since, err = command.ParseTime(c.String("since"), now); err != nil {
		return opts, command.Usagef("logs", "--since: %v", err)
	}
	if opts.Until, err = command.ParseTime(c.String("until"), now); err != nil {
		return opts, command.Usagef("logs", "--until: %v", err)
	}
	if opts.Follow && !opts.Until.IsZero() {
		return opts, command.Usagef("logs", "--follow and --until exclude each other")
	}
	if tail := c.String("tail"); tail != "" && tail != "all" {
		if opts.Tail, err = strconv.Atoi(tail); err != nil {
			return opts, command.Usagef("logs", "--tail is a number of lines or all, not %q", tail)
		}
	}
	return opts, nil
}
