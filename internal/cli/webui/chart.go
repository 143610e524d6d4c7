package webui

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/docker/go-units"
	"github.com/podtask/podtask/internal/cli/top"
)

// unknown stands for what the host does not count.
const unknown = "-"

// usage is what a task uses of CPU and memory.
type usage struct{ CPU, Memory meter }

// meter is one kind of usage, now and over time.
type meter struct {
	// Now and Limit are for people; Now is "-" if it is not known, Limit empty without one.
	Now, Limit string
	// Share of the limit in percent, at most 100; 0 without one. Tight: nearly all of it is used.
	Share int
	Tight bool
	// Spark is a small line of the latest values, empty for less than sparkLeast.
	Spark string
	Chart chart
}

// chart is a picture of usage over time, in a box of chartWidth by chartHeight.
type chart struct {
	// Line and Area have the points of the line and of the area below it; empty for fewer than two values.
	Line, Area string
	// Limit is the height of the line of the limit; negative if it is not in the picture.
	Limit float64
	// Top is the value at the upper edge, From how long ago the left edge is.
	Top, From string
	// Text says the same.
	Text string
}

const (
	chartWidth, chartHeight = 600, 120
	sparkWidth, sparkHeight = 60, 16
	sparkPast               = 2 * time.Minute
	sparkLeast              = 30 * time.Second // shorter lines are dots
	tight                   = 90               // percent of the limit of memory
)

// flat is how many times what is used a limit may be to be in the picture: farther away it would flatten the line.
const flat = 8

// gap is how far two samples may be apart for a line between them.
const gap = 3 * Pace

// value is a number at a time.
type value struct {
	at time.Time
	n  float64
}

// newUsage returns what a task uses. Memory of 0 is not known: Podman has no figure without a cgroup for it.
func newUsage(t top.Task, samples []sample, now time.Time) usage {
	u := usage{CPU: meter{Now: unknown}, Memory: meter{Now: unknown}}
	var cpus, memories []value
	for _, s := range samples {
		cpus = append(cpus, value{s.at, s.CPUPercent})
		if s.Memory > 0 {
			memories = append(memories, value{s.at, float64(s.Memory)})
		}
	}
	cpuLimit, memoryLimit := t.CPU*100, uint64(max(0, t.Memory))
	if use := t.Use; use != nil {
		u.CPU.Now = percent(use.CPUPercent)
		if use.MemoryLimit > 0 {
			memoryLimit = use.MemoryLimit
		}
		if use.Memory > 0 {
			u.Memory.Now = size(float64(use.Memory))
		}
		u.CPU.set(use.CPUPercent, cpuLimit)
		u.Memory.set(float64(use.Memory), float64(memoryLimit))
		u.Memory.Tight = u.Memory.Share >= tight
	}
	if cpuLimit > 0 {
		u.CPU.Limit = percent(cpuLimit)
	}
	if memoryLimit > 0 {
		u.Memory.Limit = size(float64(memoryLimit))
	}
	u.CPU.draw(cpus, scale{limit: cpuLimit, least: 10, text: percent}, now)
	u.Memory.draw(memories, scale{limit: float64(memoryLimit), least: 1, text: size}, now)
	return u
}

func percent(n float64) string { return fmt.Sprintf("%.0f %%", n) }

func size(n float64) string {
	return units.CustomSize("%.3g %s", n, 1024, []string{"B", "KiB", "MiB", "GiB", "TiB"})
}

func (m *meter) set(n, limit float64) {
	if limit > 0 {
		m.Share = min(100, int(math.Round(n/limit*100)))
	}
}

// scale is how values are drawn: with the limit, if it is not 0, and up to least at least, so that a little does not look like much.
type scale struct {
	limit, least float64
	text         func(float64) string
}

// draw makes the pictures.
func (m *meter) draw(values []value, s scale, now time.Time) {
	m.Chart = chart{Limit: -1, Text: "nothing is known yet"}
	if len(values) < 2 { // one is no line
		return
	}
	highest := 0.0
	for _, v := range values {
		highest = max(highest, v.n)
	}
	limit, text := s.limit, s.text
	top := nice(max(s.least, highest*1.1))
	if limit >= highest && limit < flat*highest {
		top = limit
	}
	span := min(memory, max(time.Minute, now.Sub(values[0].at)))
	m.Chart.Line, m.Chart.Area = frame{now.Add(-span), now, top, chartWidth, chartHeight}.path(values)
	m.Chart.Top, m.Chart.From = text(top), ago(span)
	if limit > 0 && limit <= top {
		m.Chart.Limit = round(chartHeight * (1 - limit/top))
	}
	m.Chart.Text = fmt.Sprintf("now %s, highest %s in %s", m.Now, text(highest), ago(span))
	if limit > 0 {
		m.Chart.Text += ", limit " + text(limit)
	}
	if late := since(values, now.Add(-sparkPast)); len(late) > 1 && late[len(late)-1].at.Sub(late[0].at) >= sparkLeast {
		m.Spark, _ = frame{now.Add(-sparkPast), now, top, sparkWidth, sparkHeight}.path(late)
	}
}

func ago(d time.Duration) string {
	if d < time.Minute+time.Second {
		return "1 minute"
	}
	return fmt.Sprintf("%d minutes", int(math.Ceil(d.Minutes())))
}

func since(values []value, from time.Time) []value {
	for len(values) > 0 && values[0].at.Before(from) {
		values = values[1:]
	}
	return values
}

// nice rounds up to 1, 2, 2.5 or 5 times a power of ten, of KiB, MiB or GiB if it is as much.
func nice(n float64) float64 {
	if n <= 1 {
		return 1
	}
	if n >= 1<<16 {
		unit := math.Pow(1024, math.Floor(math.Log(n)/math.Log(1024)))
		return nice(n/unit) * unit
	}
	power := math.Pow(10, math.Floor(math.Log10(n)))
	for _, step := range []float64{1, 2, 2.5, 5} {
		if n <= step*power {
			return step * power
		}
	}
	return 10 * power
}

func round(n float64) float64 { return math.Round(n*10) / 10 }

// frame is what a picture shows: a time, and values from 0 to top.
type frame struct {
	from, to           time.Time
	top, width, height float64
}

func (f frame) x(v value) float64 {
	return round(max(0, v.at.Sub(f.from).Seconds()/f.to.Sub(f.from).Seconds()*f.width))
}

func (f frame) y(v value) float64 { return round(f.height * (1 - min(1, v.n/f.top))) }

// path returns a line through values, and the areas below it. Where samples are missing, the line has a gap.
func (f frame) path(values []value) (line, area string) {
	var lines, areas strings.Builder
	for i := 0; i < len(values); {
		end := i + 1
		for end < len(values) && values[end].at.Sub(values[end-1].at) <= gap {
			end++
		}
		run := values[i:end]
		i = end
		if len(run) == 1 { // a short dash
			fmt.Fprintf(&lines, "M%g %gh2", f.x(run[0]), f.y(run[0]))
			continue
		}
		fmt.Fprintf(&areas, "M%g %g", f.x(run[0]), f.height)
		letter := "M"
		for _, v := range run {
			fmt.Fprintf(&lines, "%s%g %g", letter, f.x(v), f.y(v))
			fmt.Fprintf(&areas, "L%g %g", f.x(v), f.y(v))
			letter = "L"
		}
		fmt.Fprintf(&areas, "L%g %gZ", f.x(run[len(run)-1]), f.height)
	}
	return lines.String(), areas.String()
}
