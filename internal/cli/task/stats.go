package task

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/docker/go-units"
	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/engine/act/observe"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/cgroups"
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

// taskStats has the usage of a task in an interval; templates see its fields.
type taskStats struct {
	ID     string    `json:"id"`
	Name   string    `json:"name,omitempty"`
	Family string    `json:"family"`
	At     time.Time `json:"at"`
	// Source is cgroup (the kernel's files) or podman.
	Source string `json:"source"`
	use
	// Network is the traffic of all containers together; absent if the host has no figures.
	Network    *netns.Traffic   `json:"network,omitempty"`
	Containers []containerStats `json:"containers"`
}

// containerStats has the usage of a container in an interval.
type containerStats struct {
	Name string `json:"name"`
	use
}

// use has the usage of a task or container.
type use struct {
	// CPUPercent is the average of the interval; 100 is one CPU.
	CPUPercent float64 `json:"cpuPercent"`
	// ThrottledPercent is the share of the interval in which the CPU limit throttled; absent without a limit.
	ThrottledPercent *float64 `json:"throttledPercent,omitempty"`
	// MemoryPercent is relative to the limit of the container, else of the task; absent without a limit.
	MemoryPercent *float64 `json:"memoryPercent,omitempty"`
	cgroups.Usage
}

// statsOptions is what `podtask stats` uses.
type statsOptions struct {
	out       io.Writer
	getenv    func(string) string
	selection command.Selection
	sampler   sampler
}

func newStats(m *command.Machine) statsOptions {
	return statsOptions{out: m.Program.Stdout, getenv: m.Program.Getenv, selection: m.Selection(), sampler: newSampler(m)}
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
	before, err := o.sampler.sample(ctx, wanted, !c.Args().Present())
	if err != nil {
		return err
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	live := console.CanMoveCursor(o.out, o.getenv)
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		after, err := o.sampler.sample(ctx, wanted, !c.Args().Present())
		if err != nil {
			return err
		}
		lines := compare(before, after)
		if err := o.print(format, lines, !c.Bool("no-stream"), live); err != nil || c.Bool("no-stream") {
			return err
		}
		if c.Args().Present() && len(after) == 0 {
			return nil // all of them have stopped
		}
		before = after
	}
}

// taskUsage is a task with its usage counters.
type taskUsage struct {
	lifecycle.State
	observe.Usage
}

// sampler measures the usage of tasks.
type sampler struct {
	tasks *record.Tasks
	stats *observe.Stats
}

func newSampler(m *command.Machine) sampler {
	return sampler{tasks: m.Engine.Tasks, stats: m.Engine.Stats}
}

// sample measures the given tasks, or all. Tasks without a running container are left out.
func (s sampler) sample(ctx context.Context, wanted []lifecycle.State, all bool) ([]taskUsage, error) {
	var states []lifecycle.State
	if all {
		states, _ = s.tasks.States()
	}
	for _, st := range wanted {
		st, err := s.tasks.Find(st.ID) // it may have changed since
		if connect.IsGone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		states = append(states, st)
	}
	found, err := s.stats.ReadAll(ctx, states)
	if err != nil {
		return nil, err
	}
	var out []taskUsage
	for i, u := range found {
		if u != nil {
			out = append(out, taskUsage{states[i], *u})
		}
	}
	return out, nil
}

// compare returns the statistics of the tasks that are in both samples.
func compare(before, after []taskUsage) []taskStats {
	old := map[string]observe.Usage{}
	for _, b := range before {
		old[b.ID] = b.Usage
	}
	lines := []taskStats{}
	for _, a := range after {
		b, known := old[a.ID]
		if !known {
			continue
		}
		span := a.At.Sub(b.At)
		limit := uint64(0)
		if a.Usage.Task.Memory != nil {
			limit = a.Usage.Task.Memory.Limit
		}
		t := taskStats{
			ID: a.ID, Name: a.Name, Family: a.State.Task.Family, At: a.At.UTC(), Source: a.Source,
			use: newUse(b.Task, a.Usage.Task, span, limit), Network: a.Network, Containers: []containerStats{},
		}
		for _, c := range a.Usage.Containers {
			earlier := c.Usage // of a new container nothing is known for this interval
			for _, o := range b.Containers {
				if o.Name == c.Name {
					earlier = o.Usage
				}
			}
			t.Containers = append(t.Containers, containerStats{c.Name, newUse(earlier, c.Usage, span, limit)})
		}
		lines = append(lines, t)
	}
	return lines
}

// newUse returns the usage between two samples. A counter that went back belongs to a restarted container.
func newUse(before, after cgroups.Usage, span time.Duration, limit uint64) use {
	u := use{Usage: after, CPUPercent: percent(counterDelta(before.CPUUsec, after.CPUUsec), uint64(span.Microseconds()))}
	if t, b := after.Throttling, before.Throttling; t != nil && b != nil && t.Periods > 0 {
		share := percent(counterDelta(b.Throttled, t.Throttled), max(counterDelta(b.Periods, t.Periods), 1))
		u.ThrottledPercent = &share
	}
	if m := after.Memory; m != nil {
		if m.Limit > 0 && (limit == 0 || m.Limit < limit) {
			limit = m.Limit
		}
		if limit > 0 {
			share := percent(m.Used, limit)
			u.MemoryPercent = &share
		}
	}
	return u
}

// counterDelta returns by how much a counter has grown.
func counterDelta(before, after uint64) uint64 {
	if after < before {
		return after
	}
	return after - before
}

// percent returns part of whole in percent, rounded to a tenth.
func percent(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(uint64(float64(part)/float64(whole)*1000+0.5)) / 10
}

func (o statsOptions) print(format string, lines []taskStats, stream, live bool) error {
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
func statsTable(lines []taskStats) [][]string {
	table := [][]string{{"TASK", "CONTAINER", "CPU %", "THROTTLED %", "MEMORY", "LIMIT", "MEM %", "PEAK", "PIDS", "NET IN / OUT", "DISK R / W", "PRESSURE C M I %"}}
	for _, l := range lines {
		name := cmp.Or(l.Name, lifecycle.ShortID(l.ID))
		table = append(table, l.row(name, "(task)", l.Network))
		for _, c := range l.Containers {
			table = append(table, c.row("", c.Name, nil))
		}
	}
	return table
}

func (u use) row(task, container string, network *netns.Traffic) []string {
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
