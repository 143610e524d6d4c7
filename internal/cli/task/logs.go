package task

import (
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
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/engine/act/logdelivery"
	"github.com/podtask/podtask/internal/engine/act/observe"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"
)

// LogsCommand is `podtask logs`.
func LogsCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "logs",
		Usage:     "show the logs of a task",
		ArgsUsage: "TASK ... [CONTAINER]",
		Description: `The stdout of a container is printed to stdout, its stderr to stderr. Each line begins with
the name of the container, unless one is chosen, and of the task where there are several.
A last argument that is the name of a container of each of the tasks chooses it too.

Examples:
  podtask logs -f web
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
		Action: command.WithMachine(p, newLogs),
	}
}

type logsOptions struct {
	out      io.Writer
	errOut   io.Writer
	getenv   func(string) string
	warn     func(format string, args ...any)
	tasks    *record.Tasks
	logs     *observe.Logs
	delivery *logdelivery.Deliverer
}

func newLogs(m *command.Machine) logsOptions {
	return logsOptions{
		out:      m.Program.Stdout,
		errOut:   m.Program.Stderr,
		getenv:   m.Program.Getenv,
		warn:     m.Program.Warn,
		tasks:    m.Engine.Tasks,
		logs:     m.Engine.Logs,
		delivery: m.Engine.Delivery,
	}
}

// Run implements command.Runner.
func (o logsOptions) Run(ctx context.Context, c *cli.Context) error {
	opts, err := parseLogOptions(c)
	if err != nil {
		return err
	}
	states, container, err := o.sources(c)
	if err != nil {
		return err
	}
	if c.Bool("routes") {
		return o.printRoutes(c, states, container)
	}
	if c.String("format") != "" {
		return command.Usagef("logs", "--format is for --routes")
	}
	printers := console.NewLogPrinters(o.out, o.errOut, states, o.getenv)
	for _, p := range printers {
		p.Prefix, p.Stamps = p.Prefix || container == "", opts.Timestamps
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
	read := func(ctx context.Context, i int) error {
		err := o.logs.Read(ctx, states[i], container, opts, func(l observe.LogLine) error {
			if !wanted.MatchString(l.Text) {
				return nil
			}
			if places != nil {
				return places.print(printers[i], states[i].ID, l)
			}
			return printers[i].Line(l)
		})
		if errors.As(err, new(*observe.IncompleteError)) {
			o.warn("%v", err)
			return nil
		}
		return err
	}
	if !opts.Follow {
		for i := range states {
			if err := read(ctx, i); err != nil {
				return err
			}
		}
		return nil
	}
	all, ctx := errgroup.WithContext(ctx)
	for i := range states {
		all.Go(func() error { return read(ctx, i) })
	}
	return all.Wait()
}

// sources returns the tasks that the command line names, and the container in each of them; empty
// for all.
func (o logsOptions) sources(c *cli.Context) (states []lifecycle.State, container string, err error) {
	refs, container := c.Args().Slice(), c.String("container")
	if len(refs) == 0 {
		return nil, "", command.Usagef("logs", "no TASK to show the logs of")
	}
	for i, ref := range refs {
		last := i > 0 && i == len(refs)-1 && container == ""
		if last && hasContainer(states, ref) { // even if the ID of a task begins with it
			container = ref
			break
		}
		st, err := o.tasks.FindToShow(ref)
		if last && i == 1 && connect.IsGone(err) {
			return nil, "", fmt.Errorf("there is no task %q, and task %s has no such container", ref, states[0].DisplayName())
		}
		if err != nil {
			return nil, "", err
		}
		states = append(states, st)
	}
	for _, st := range states {
		if _, ok := st.Task.Index(container); !ok && container != "" {
			return nil, "", fmt.Errorf("task %s has no container %q", st.DisplayName(), container)
		}
	}
	return states, container, nil
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
