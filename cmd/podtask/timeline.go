//go:build remote && containers_image_openpgp

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/podtask/podtask/internal/console"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/timeline"
	"github.com/urfave/cli/v2"
)

func timelineCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "timeline",
		Usage:     "draw how long a task and its containers were in each state",
		ArgsUsage: "TASK",
		Description: `The bars are as wide as the terminal. They start when the task was created and end when it
stopped, or now.

Examples:
  podtask timeline web
  podtask timeline --svg web.svg web
  podtask timeline --format json web`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "svg", Usage: "write a picture to `FILE` instead; - is stdout"},
			formatFlag("json or yaml"),
		},
		Action: p.withHost(drawTimeline),
	}
}

func drawTimeline(ctx context.Context, s *session, c *cli.Context) error {
	if c.Args().Len() != 1 {
		return usagef("timeline", "timeline takes one TASK, not %d arguments", c.Args().Len())
	}
	format, file := c.String("format"), c.String("svg")
	if format != "" && format != console.FormatJSON && format != console.FormatYAML {
		return usagef("timeline", "--format is json or yaml, not %q", format)
	}
	if format != "" && file != "" {
		return usagef("timeline", "--format and --svg exclude each other")
	}
	t, err := s.inspectTask(ctx, c.Args().First())
	if err != nil {
		return err
	}
	chart := chartOf(t, time.Now())
	switch {
	case format == console.FormatJSON:
		return console.WriteJSON(s.stdout, wireTimeline(t, chart))
	case format == console.FormatYAML:
		return console.WriteYAML(s.stdout, wireTimeline(t, chart))
	case file == "-":
		_, err = io.WriteString(s.stdout, chart.SVG())
	case file != "":
		err = os.WriteFile(file, []byte(chart.SVG()), 0o644)
	default:
		on := console.ColorsFor(s.stdout, s.getenv)
		_, err = io.WriteString(s.stdout, chart.Text(console.Columns(s.stdout, s.getenv), func(state, glyphs string) string {
			return on.Paint(stateInks[state], glyphs)
		}))
	}
	return err
}

// stateInks color the bars.
var stateInks = map[string]console.Ink{
	lifecycle.StatusNone.String():      console.Faint,
	lifecycle.StatusRunning.String():   console.Green,
	lifecycle.HealthHealthy.String():   console.Green,
	lifecycle.HealthUnhealthy.String(): console.Red,
}

// chartOf makes a chart of a task's history.
func chartOf(t api.Task, now time.Time) timeline.Chart {
	changes := map[string][]timeline.Change{}
	end := now
	for _, h := range t.History {
		state := h.Status
		if state == lifecycle.HealthUnknown.String() {
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
	chart.Title = fmt.Sprintf("%s (%s) %s, %s", cmp.Or(t.Name, t.Family), console.ShortID(t.ID), t.Status, console.Span(end.Sub(t.CreatedAt)))
	lane := func(name, container, note string) {
		l := timeline.LaneOf(name, lifecycle.StatusNone.String(), lifecycle.StatusStopped.String(), t.CreatedAt, end, changes[container])
		l.Note = note
		chart.Lanes = append(chart.Lanes, l)
	}
	lane(console.TaskLabel, "", exitNote(t.ExitCode))
	lane(console.InfraLabel, lifecycle.Infra, "")
	for _, c := range t.Containers {
		lane(c.Name, c.Name, exitNote(c.ExitCode))
	}
	return chart
}

func exitNote(code *api.ExitCode) string {
	if code == nil {
		return ""
	}
	return "exit code " + code.String()
}

// timelineDocument is a timeline on the wire.
type timelineDocument struct {
	Task string    `json:"task"`
	From time.Time `json:"from"`
	// To is when the task stopped, or now.
	To    time.Time      `json:"to"`
	Lanes []timelineLane `json:"lanes"`
}

type timelineLane struct {
	// Container is absent for the task itself and "~infra" for the pod.
	Container string         `json:"container,omitempty"`
	Spans     []timelineSpan `json:"spans"`
}

type timelineSpan struct {
	State   string    `json:"state"`
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
		for _, s := range l.Spans {
			lane.Spans = append(lane.Spans, timelineSpan{State: s.State, From: s.From, To: s.To, Seconds: s.To.Sub(s.From).Seconds()})
		}
		doc.Lanes = append(doc.Lanes, lane)
	}
	return doc
}
