package task

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/docker/go-units"
	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/cli/usage"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/netns"
	"github.com/urfave/cli/v2"
)

// StatsCommand is `podtask stats`.
func StatsCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "stats",
		Usage:     "show the CPU and memory use of tasks and their containers",
		ArgsUsage: "[TASK ...]",
		Description: `Without a TASK all running tasks are shown, updated each second until Ctrl-C. 100 % of cpu
are one CPU. Memory does not include caches that can be dropped. A dash means that this
host does not count the value.

With --format json each line is a sample of a task; with --no-stream the output is one
array.

Examples:
  podtask stats
  podtask stats --no-stream web
  podtask stats --no-stream --format '{{.Name}} {{.CPUPercent}}'`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "no-stream", Usage: "show one sample and end"},
			&cli.DurationFlag{Name: "interval", Aliases: []string{"i"}, Value: time.Second, Usage: "measure for `TIME`, at least 100ms"},
			command.FormatFlag(command.ListFormats),
		},
		Action: command.WithMachine(p, newStats),
	}
}

type statsOptions struct {
	out       io.Writer
	getenv    func(string) string
	selection command.Selection
	sampler   usage.Sampler
}

func newStats(m *command.Machine) statsOptions {
	return statsOptions{out: m.Program.Stdout, getenv: m.Program.Getenv, selection: m.Selection(), sampler: usage.NewSampler(m)}
}

// Run implements command.Runner.
func (o statsOptions) Run(ctx context.Context, c *cli.Context) error {
	interval := c.Duration("interval")
	if interval < 100*time.Millisecond {
		return command.Usagef("stats", "--interval is 100ms or more, not %s", interval)
	}
	wanted, errs := o.selection.Select(c, nil)
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	if err := command.CheckFormat(c); err != nil {
		return err
	}
	format := c.String("format")
	before, err := o.sampler.Sample(ctx, wanted, !c.Args().Present())
	if err != nil {
		return err
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	live := console.CanMoveCursor(o.out, o.getenv)
	starts := 0
	if c.Bool("no-stream") {
		starts = mostStarts
	}
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		after, err := o.sampler.Sample(ctx, wanted, !c.Args().Present())
		if err != nil {
			return err
		}
		lines := usage.Compare(before, after)
		if starts > 0 && len(lines) == 0 && (len(after) > 0 || c.Args().Present() && slices.ContainsFunc(wanted, command.IsRunning)) {
			starts, before = starts-1, after
			continue
		}
		if err := o.print(format, lines, !c.Bool("no-stream"), live); err != nil || c.Bool("no-stream") {
			return err
		}
		if c.Args().Present() && len(after) == 0 {
			return nil // all of them have stopped
		}
		before = after
	}
}

// mostStarts limits the intervals for which --no-stream waits for tasks that are just starting.
const mostStarts = 5

func (o statsOptions) print(format string, lines []usage.Task, stream, live bool) error {
	switch {
	case format == "json" && stream:
		enc := json.NewEncoder(term.JSON(o.out))
		for _, l := range lines {
			if err := enc.Encode(l); err != nil {
				return err
			}
		}
		return nil
	case format == console.FormatJSON:
		return console.WriteJSON(o.out, lines)
	case format == console.FormatYAML:
		return console.WriteYAML(o.out, lines)
	case format != "" && format != console.FormatTable && format != console.FormatWide:
		return command.PrintTemplate(o.out, "stats", format, lines)
	}
	var b strings.Builder
	if stream && live {
		b.WriteString(console.Home)
	}
	if err := console.WriteTable(console.CutLines(console.TerminalWidth(o.out), &b), statsTable(lines)); err != nil {
		return err
	}
	_, err := fmt.Fprint(o.out, b.String()) // in one write, so that nothing flickers
	return err
}

// statsTable returns a row for each task and for each of its containers.
func statsTable(lines []usage.Task) [][]string {
	table := [][]string{{"TASK", "CONTAINER", "CPU %", "THROTTLED %", "MEMORY", "LIMIT", "MEM %", "PEAK", "PIDS", "NET IN / OUT", "DISK R / W", "PRESSURE C M I %"}}
	for _, l := range lines {
		name := cmp.Or(l.Name, lifecycle.ShortID(l.ID))
		table = append(table, usageRow(l.Use, name, "(task)", l.Network))
		for _, c := range l.Containers {
			table = append(table, usageRow(c.Use, "", c.Name, nil))
		}
	}
	return table
}

// usageRow returns the row of a task or a container.
func usageRow(u usage.Use, task, container string, network *netns.Traffic) []string {
	memory, limit, peak, pids, disk, pressure, net := command.NoValue, command.NoValue, command.NoValue, command.NoValue, command.NoValue, command.NoValue, command.NoValue
	if m := u.Memory; m != nil {
		memory, peak, limit = amount(m.Used), command.Size(int64(m.Peak)), command.Size(int64(m.Limit))
	}
	if p := u.PIDs; p != nil {
		pids = fmt.Sprint(p.Current)
		if p.Limit > 0 {
			pids += fmt.Sprintf("/%d", p.Limit)
		}
	}
	if network != nil {
		net = amount(network.Received) + " / " + amount(network.Sent)
	}
	if io := u.IO; io != nil {
		disk = amount(io.Read) + " / " + amount(io.Written)
	}
	if p := u.Pressure; p != nil {
		pressure = fmt.Sprintf("%.0f %.0f %.0f", p.CPU.Some, p.Memory.Some, p.IO.Some)
	}
	return []string{task, container, fmt.Sprintf("%.1f", u.CPUPercent), share(u.ThrottledPercent), memory, limit, share(u.MemoryPercent), peak, pids, net, disk, pressure}
}

func amount(bytes uint64) string { return units.BytesSize(float64(bytes)) }

func share(p *float64) string {
	if p == nil {
		return command.NoValue
	}
	return fmt.Sprintf("%.1f", *p)
}
