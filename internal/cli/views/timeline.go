package views

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/cli/timeline"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/urfave/cli/v2"
)

// TimelineCommand is `podtask timeline`.
func TimelineCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "timeline",
		Usage:     "draw what a task and its containers did, and for how long",
		ArgsUsage: "TASK",
		Description: `The bars are as wide as the terminal. They start when the task was created and end when it
stopped, or now. The lines below name each activity and how long it took: resolve (the digest
of the image), pull, create, wait for another container, start, run, healthy or unhealthy,
restart. For the task itself, prepare is the time until all containers were created.

With --format otlp the task is a trace, whose ID is that of the task: a file for the OTLP/JSON
receiver of an OpenTelemetry collector, or for POST to its /v1/traces.

Examples:
  podtask timeline web
  podtask timeline --svg web.svg web
  podtask timeline --format json web
  podtask timeline --format otlp web | curl -H 'Content-Type: application/json' -d @- http://localhost:4318/v1/traces`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "svg", Usage: "write a picture to `FILE` instead; - is stdout"},
			command.FormatFlag("json, yaml, or otlp: a trace for OpenTelemetry, in OTLP/JSON"),
		},
		Action: command.WithMachine(p, newTimeline),
	}
}

type timelineOptions struct {
	out    io.Writer
	getenv func(string) string
	reader command.TaskReader
}

func newTimeline(m *command.Machine) timelineOptions {
	return timelineOptions{
		out:    m.Program.Stdout,
		getenv: m.Program.Getenv,
		reader: m.TaskReader(),
	}
}

// Run implements command.Runner.
func (o timelineOptions) Run(ctx context.Context, c *cli.Context) error {
	if c.Args().Len() != 1 {
		return command.Usagef("timeline", "timeline takes one TASK, not %d arguments", c.Args().Len())
	}
	format, file := c.String("format"), c.String("svg")
	if !slices.Contains([]string{"", console.FormatJSON, console.FormatYAML, formatOTLP}, format) {
		return command.Usagef("timeline", "--format is json, yaml or otlp, not %q", format)
	}
	if format != "" && file != "" {
		return command.Usagef("timeline", "--format and --svg exclude each other")
	}
	t, err := o.reader.Inspect(ctx, c.Args().First())
	if err != nil {
		return err
	}
	chart := chartOf(t, time.Now())
	switch {
	case format == console.FormatJSON:
		return console.WriteJSON(o.out, wireTimeline(t, chart))
	case format == console.FormatYAML:
		return console.WriteYAML(o.out, wireTimeline(t, chart))
	case format == formatOTLP:
		return writeTrace(o.out, t, chart)
	case file == "-":
		_, err = io.WriteString(o.out, chart.SVG())
	case file != "":
		err = os.WriteFile(file, []byte(chart.SVG()), 0o644)
	default:
		on := console.ColorsFor(o.out, o.getenv)
		width := console.Columns(o.out, o.getenv)
		paint := func(kind, text string) string { return on.Paint(console.ActivityInk(kind), text) }
		_, err = io.WriteString(o.out, chart.Text(width, paint)+"\n"+chart.Steps(width, paint))
	}
	return err
}

// chartOf returns the chart of a task's history.
func chartOf(t api.Task, now time.Time) timeline.Chart {
	changes := map[string][]timeline.Change{}
	end, faults := now, 0
	for _, h := range t.History {
		state := h.Status
		switch state {
		case lifecycle.HealthUnknown.String():
			state = lifecycle.StatusRunning.String()
		case lifecycle.FaultStarted:
			faults++
		case lifecycle.FaultStopped:
			if faults = max(0, faults-1); faults > 0 {
				continue
			}
			state = lifecycle.StatusRunning.String()
		}
		changes[h.Container] = append(changes[h.Container], timeline.Change{State: state, At: h.At})
		if h.Container == "" && h.Status == lifecycle.StatusStopped.String() {
			end = h.At
		}
	}
	if end.Before(t.CreatedAt) {
		end = t.CreatedAt // the clock was set back
	}
	chart := timeline.Chart{From: t.CreatedAt, To: end}
	shown := t
	shown.Owner.Alive = true // the picture is of the task, not of its process
	chart.Title = fmt.Sprintf("%s (%s): %s, %s", cmp.Or(t.Name, t.Family), lifecycle.ShortID(t.ID), console.TaskState(shown, ""), console.Span(end.Sub(t.CreatedAt)))
	lane := func(name, container string) *timeline.Lane {
		chart.Lanes = append(chart.Lanes, timeline.LaneOf(name, lifecycle.StatusNone.String(), lifecycle.StatusStopped.String(), t.CreatedAt, end, changes[container]))
		return &chart.Lanes[len(chart.Lanes)-1]
	}
	names := activities{t}
	names.task(lane(console.TaskLabel, ""))
	pod := lane(console.InfraLabel, lifecycle.Infra)
	names.pod(pod)
	pod.Quiet = true // its containers say that they wait for it
	for _, c := range t.Containers {
		names.container(lane(c.Name, c.Name), c)
	}
	return chart
}

// timelineDocument is the JSON form of a timeline.
type timelineDocument struct {
	Task string    `json:"task"`
	From time.Time `json:"from"`
	// To is the time at which the task stopped, or now.
	To    time.Time      `json:"to"`
	Lanes []timelineLane `json:"lanes"`
}

type timelineLane struct {
	// Container is absent for the task itself and "~infra" for the pod.
	Container string         `json:"container,omitempty"`
	Spans     []timelineSpan `json:"spans"`
}

type timelineSpan struct {
	State string `json:"state"`
	// Activity was done in that state, such as "pull" or "wait for db".
	Activity string `json:"activity"`
	// Failed: the activity ended with a failure.
	Failed  bool      `json:"failed,omitempty"`
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	Seconds float64   `json:"seconds"`
}

func wireTimeline(t api.Task, c timeline.Chart) timelineDocument {
	doc := timelineDocument{Task: t.ID, From: c.From, To: c.To}
	for i, l := range c.Lanes {
		lane := timelineLane{Container: l.Name, Spans: []timelineSpan{}}
		switch i {
		case 0:
			lane.Container = ""
		case 1:
			lane.Container = lifecycle.Infra
		}
		for k, s := range l.Spans {
			lane.Spans = append(lane.Spans, timelineSpan{State: s.State, Activity: s.Activity, Failed: s.Failed || l.Failed && k == len(l.Spans)-1, From: s.From, To: s.To, Seconds: s.To.Sub(s.From).Seconds()})
		}
		doc.Lanes = append(doc.Lanes, lane)
	}
	return doc
}
