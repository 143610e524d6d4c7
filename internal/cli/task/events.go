package task

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/serve/ownerapi"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/urfave/cli/v2"
)

// EventsCommand is `podtask events`.
func EventsCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "events",
		Usage:     "show the changes of tasks as they happen",
		ArgsUsage: "[TASK ...]",
		Description: `Without TASK, the events of all tasks. A TASK may have been removed since. Events are numbered across all
tasks of this host. Without --since and --tail only new events are shown; with a number,
events after it are shown. If the log no longer contains some of them, a warning is printed
to stderr.

Examples:
  podtask events web --tail 20
  podtask events --filter name=web
  podtask events --stream=false --since 1h
  podtask events --since 42 --format json`,
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "stream", Aliases: []string{"f", "follow"}, Value: true, Usage: "continue with new events; --stream=false shows past ones only"},
			&cli.StringFlag{Name: "since", Usage: "begin after event `NUMBER`, or at a time: 2006-01-02T15:04:05Z or how long ago (10m)"},
			&cli.IntFlag{Name: "tail", Aliases: []string{"n"}, Value: -1, Usage: "begin with the last `N` events", DefaultText: "none"},
			command.FormatFlag("json (JSON Lines), yaml (a document for each) or a Go template"),
			command.FilterFlag("task, name, family, container, status"),
		}, command.PositionFlags()...),
		Action: command.WithMachine(p, newEvents),
	}
}

// eventLine is an event as it is printed; templates see its fields.
type eventLine = api.Event

type eventsOptions struct {
	out    io.Writer
	warn   func(format string, args ...any)
	events *record.Events
	places bool // each event is printed with its position
}

func newEvents(m *command.Machine) eventsOptions {
	return eventsOptions{
		out:    m.Program.Stdout,
		warn:   m.Program.Warn,
		events: m.Engine.Events,
	}
}

// Run implements command.Runner.
func (o eventsOptions) Run(ctx context.Context, c *cli.Context) error {
	wanted, err := command.ParseFilters("events", c.StringSlice("filter"), "task", "name", "family", "container", "status")
	if err != nil {
		return err
	}
	stream := c.Bool("stream")
	since := c.String("since")
	for _, position := range c.StringSlice(command.ResumeFlag) {
		_, since, _ = command.ParsePosition(position)
	}
	after, from, err := o.start(ctx, since, stream)
	if err != nil {
		return err
	}
	if err := command.CheckFormat(c); err != nil {
		return err
	}
	format, tail := c.String("format"), c.Int("tail")
	numbered := since != "" && from.IsZero()
	if o.places = c.Bool(command.PositionsFlag); o.places && from.IsZero() {
		if err := command.WritePosition(o.out, eventSource, strconv.FormatUint(after, 10), nil); err != nil {
			return err
		}
	}
	fits := func(e record.Event) bool {
		has := map[string]string{"task": e.Task, "name": e.Name, "family": e.Family, "container": e.Container, "status": e.Status}
		return !e.At.Before(from) && isOneOf(e, c.Args().Slice()) && wanted.Match(has)
	}
	if c.IsSet("tail") && !c.IsSet(command.ResumeFlag) {
		if tail < 0 {
			return command.Usagef("events", "--tail is a number of events, not %d", tail)
		}
		if !c.IsSet("since") {
			after = 0
		}
		if after, err = o.printLast(ctx, after, tail, fits, format); err != nil || !stream {
			return err
		}
	}
	return o.events.Read(ctx, after, stream, func(e record.Event) error {
		if numbered && e.Seq > after+1 {
			o.warn("events %d to %d are not in the log any more", after+1, e.Seq-1)
		}
		after = e.Seq
		if !fits(e) {
			return nil
		}
		return o.print(ownerapi.NewEvent(e), format)
	})
}

// printLast prints the last n past events after a number that fit, and returns the number of the last past event.
func (o eventsOptions) printLast(ctx context.Context, after uint64, n int, fits func(record.Event) bool, format string) (last uint64, err error) {
	var events []record.Event
	err = o.events.Read(ctx, after, false, func(e record.Event) error {
		last = e.Seq
		if fits(e) {
			events = append(events, e)
		}
		if len(events) > n {
			events = events[1:]
		}
		return nil
	})
	for _, e := range events {
		if err == nil {
			err = o.print(ownerapi.NewEvent(e), format)
		}
	}
	return max(last, after), err
}

// isOneOf reports whether an event is of one of the tasks, which are given by name or the beginning of the ID; without any, it is.
func isOneOf(e record.Event, refs []string) bool {
	return len(refs) == 0 || slices.ContainsFunc(refs, func(ref string) bool {
		return ref == e.Name || len(ref) >= 4 && strings.HasPrefix(e.Task, ref)
	})
}

// start returns the number or the time of --since, from which on events are printed.
func (o eventsOptions) start(ctx context.Context, since string, stream bool) (after uint64, from time.Time, err error) {
	if since == "" {
		if !stream {
			return 0, time.Time{}, nil
		}
		return o.events.Last(ctx), time.Time{}, nil
	}
	if after, err = strconv.ParseUint(since, 10, 64); err == nil {
		return after, time.Time{}, nil
	}
	if from, err = command.ParseTime(since, time.Now()); err != nil {
		return 0, time.Time{}, command.Usagef("events", "--since: %v", err)
	}
	return 0, from, nil
}

// eventSource is the source of the positions of events; a place is a number of an event.
const eventSource = "event"

// print prints an event, with its position if that was asked for.
func (o eventsOptions) print(e eventLine, format string) error {
	if !o.places {
		return o.printOne(e, format)
	}
	var text bytes.Buffer
	to := o.out
	o.out = &text
	if err := o.printOne(e, format); err != nil {
		return err
	}
	return command.WritePosition(to, eventSource, strconv.FormatUint(e.Seq, 10), text.Bytes())
}

func (o eventsOptions) printOne(e eventLine, format string) error {
	switch format {
	case "", console.FormatTable, console.FormatWide:
		return o.printText(e)
	case console.FormatYAML:
		fmt.Fprintln(o.out, "---")
		return console.WriteYAML(o.out, e)
	case console.FormatJSON:
		return json.NewEncoder(term.JSON(o.out)).Encode(e)
	default:
		return command.PrintTemplate(o.out, "events", format, []eventLine{e})
	}
}

func (o eventsOptions) printText(e eventLine) error {
	words := []string{e.At.Format(time.RFC3339Nano), lifecycle.ShortID(e.Task), cmp.Or(e.Name, e.Family), console.Label(e.Container), e.Status}
	if e.Digest != "" {
		words = append(words, console.ShortDigest(e.Digest))
	}
	if e.ExitCode != nil {
		words = append(words, fmt.Sprintf("exitCode=%d", *e.ExitCode))
	}
	if e.Reason != "" {
		words = append(words, strconv.Quote(term.Line(e.Reason)))
	}
	_, err := fmt.Fprintln(o.out, strings.Join(words, " "))
	return err
}
