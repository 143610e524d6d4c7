package task

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/engine/record"
	"github.com/podtask/podtask/internal/serve/ownerapi"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/urfave/cli/v2"
)

// EventsCommand is `podtask events`.
func EventsCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:  "events",
		Usage: "show the changes of all tasks as they happen",
		Description: `Events are numbered across all tasks of this host. Without --since only new events are
shown; with a number, events after it are shown. If the log no longer contains some of
them, a warning is printed to stderr.

Examples:
  podtask events --filter name=web
  podtask events --stream=false --since 1h
  podtask events --since 42 --format json`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "stream", Aliases: []string{"f", "follow"}, Value: true, Usage: "continue with new events; --stream=false shows past ones only"},
			&cli.StringFlag{Name: "since", Usage: "begin after event `NUMBER`, or at a time: 2006-01-02T15:04:05Z or how long ago (10m)"},
			command.FormatFlag("json (JSON Lines), yaml (a document for each) or a Go template"),
			command.FilterFlag("task, name, family, container, status"),
		},
		Action: command.WithMachine(p, newEvents),
	}
}

// eventLine is an event as it is printed; templates see its fields.
type eventLine = api.Event

// eventsOptions is what `podtask events` uses.
type eventsOptions struct {
	out    io.Writer
	warn   func(format string, args ...any)
	events *record.Events
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
	if err := command.NoArguments(c); err != nil {
		return err
	}
	wanted, err := command.ParseFilters("events", c.StringSlice("filter"), "task", "name", "family", "container", "status")
	if err != nil {
		return err
	}
	stream := c.Bool("stream")
	after, from, err := o.start(ctx, c.String("since"), stream)
	if err != nil {
		return err
	}
	if err := command.CheckFormat(c); err != nil {
		return err
	}
	format := c.String("format")
	numbered := c.IsSet("since") && from.IsZero()
	return o.events.Read(ctx, after, stream, func(e record.Event) error {
		if numbered && e.Seq > after+1 {
			o.warn("events %d to %d are not in the log any more", after+1, e.Seq-1)
		}
		after = e.Seq
		has := map[string]string{"task": e.Task, "name": e.Name, "family": e.Family, "container": e.Container, "status": e.Status}
		if e.At.Before(from) || !wanted.Match(has) {
			return nil
		}
		return o.print(ownerapi.NewEvent(e), format)
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

func (o eventsOptions) print(e eventLine, format string) error {
	switch format {
	case "", console.FormatTable, console.FormatWide:
		return o.printText(e)
	case console.FormatYAML:
		fmt.Fprintln(o.out, "---")
		return console.WriteYAML(o.out, e)
	case console.FormatJSON:
		return json.NewEncoder(o.out).Encode(e)
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
