package top

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/cli/timeline"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/api"
)

// The parts of a page.
const (
	overview = iota
	logs
	events
	parts
)

// page is a task that is open.
type page struct {
	id     string
	detail Detail
	// loading: Source.Explain is being called.
	loading bool
	part    int
	// container is the index of the selected one.
	container int
	// up is the distance in lines from the end of the logs or events, down from the beginning of the
	// overview.
	up, down int
	// hold: new lines do not scroll the view.
	hold bool
	logs stream
	// search selects lines of the logs.
	search filter
}

// maxLogLines is the number of log lines in memory.
const maxLogLines = 2000

// stream has the logs of a task.
type stream struct {
	lines []Line
	// more delivers new lines until cancel is called; nil before the logs are opened.
	more   <-chan Line
	cancel context.CancelFunc
	ended  bool
}

// add adds log lines, and reports whether there may be more.
func (p *page) add(l logMsg) bool {
	for _, line := range l.lines {
		p.logs.lines = append(p.logs.lines, Line{line.Container, term.Line(line.Text)})
	}
	if p.hold && p.part == logs {
		p.up += len(l.lines)
	}
	if extra := len(p.logs.lines) - maxLogLines; extra > 0 {
		p.logs.lines = append([]Line(nil), p.logs.lines[extra:]...)
	}
	p.logs.ended = l.ended
	return !l.ended
}

// scroll scrolls the current part by n lines; in the overview a single step selects a container.
func (p *page) scroll(n int) {
	switch {
	case n == 0:
	case p.part == overview && (n == 1 || n == -1):
		p.container = min(max(0, p.container+n), max(0, len(p.detail.Task.Containers)-1))
	case p.part == overview:
		p.down = max(0, p.down+n)
	default:
		p.up = max(0, p.up-n)
		p.hold = p.up > 0
	}
}

// maxWhyLines limits the explanation of a task.
const maxWhyLines = 3

// draw returns the page of a task; used is the usage of its containers.
func (p *page) draw(c canvas, t api.Task, used map[string]Use, footer string) string {
	lines := append([]string{p.title(c, t)}, wrap(p.detail.Why, c.width, maxWhyLines)...)
	lines = append(lines, "")
	room := max(1, c.height-len(lines)-2)
	switch p.part {
	case overview:
		body := p.overview(c, used)
		p.down = min(p.down, max(0, len(body)-room))
		lines = append(lines, body[p.down:min(len(body), p.down+room)]...)
	case logs:
		lines = append(lines, p.end(p.logLines(c), room)...)
	case events:
		lines = append(lines, p.end(p.eventLines(c), room)...)
	}
	follow := "f hold"
	switch {
	case p.part == overview:
		follow = "f logs"
	case p.hold:
		follow = "f follow"
	}
	return c.page(lines, footer, c.keys("esc back", "tab next", follow, "/ search", "s stop", "r restart", "x shell", "? keys", "q quit"))
}

func (p *page) title(c canvas, t api.Task) string {
	left := console.TaskName(t) + "  " + console.TaskState(t, "")
	if health := console.TaskHealth(t); health != "-" {
		left += "  " + health
	}
	if p.part == logs && p.search.text != "" {
		left += fmt.Sprintf("  lines with %q", p.search.text)
	}
	right := ""
	for i, name := range []string{"overview", "logs", "events"} {
		if i == p.part {
			right += fmt.Sprintf("[%d %s]", i+1, name)
		} else {
			right += fmt.Sprintf(" %d %s ", i+1, name)
		}
	}
	return c.split(left, right)
}

// end returns the lines that fit, p.up lines above the last one.
func (p *page) end(lines []string, room int) []string {
	p.up = min(p.up, max(0, len(lines)-room))
	last := len(lines) - p.up
	return lines[max(0, last-room):last]
}

// containerColumns has the columns of the overview. The note gets the remaining space.
var containerColumns = columns{16, 12, 9, 5, 13, 0}

func (p *page) overview(c canvas, used map[string]Use) []string {
	lines := []string{c.paint(console.Bold, containerColumns.row(c, "  ", "CONTAINER", "STATUS", "HEALTH", "CPU", "MEMORY", "NOTE"))}
	for i, k := range p.detail.Task.Containers {
		var u *Use
		if v, ok := used[k.Name]; ok {
			u = &v
		}
		lines = append(lines, containerRow(c, k, u, i == p.container))
	}
	chart := p.detail.Chart
	if chart.To.IsZero() {
		return lines
	}
	chart.Title, chart.Lanes = "", printable(chart.Lanes)
	text := chart.Text(c.width, func(kind, glyphs string) string { return c.paint(console.ActivityInk(kind), glyphs) })
	return append(append(lines, ""), strings.Split(strings.TrimSuffix(text, "\n"), "\n")...)
}

// printable returns lanes without what would steer the terminal.
func printable(lanes []timeline.Lane) []timeline.Lane {
	lanes = slices.Clone(lanes)
	for i := range lanes {
		l := &lanes[i]
		l.Name, l.Note, l.Spans = term.Line(l.Name), term.Line(l.Note), slices.Clone(l.Spans)
		for k := range l.Spans {
			l.Spans[k].State, l.Spans[k].Activity = term.Line(l.Spans[k].State), term.Line(l.Spans[k].Activity)
		}
	}
	return lanes
}

func containerRow(c canvas, k api.Container, u *Use, selected bool) string {
	cpu, memory, tight := useText(u, 0)
	state, health := console.ContainerState(k)
	mark, ink := rowStyle(selected, tight || health == "unhealthy" || state == "failed" || k.ExitCode != nil && *k.ExitCode != 0)
	return c.paint(ink, containerColumns.row(c, mark, k.Name, state, health, cpu, memory, note(k)))
}

// note returns what a container waits for, its restarts, and how it ended.
func note(k api.Container) string {
	var words []string
	for _, d := range k.WaitingFor {
		words = append(words, "needs "+d.ContainerName+" "+strings.ToLower(d.Condition))
	}
	if k.RestartCount > 0 {
		words = append(words, number(k.RestartCount, "restart"))
	}
	if k.Reason != "" {
		words = append(words, term.Line(k.Reason))
	}
	return strings.Join(words, ", ")
}

func (p *page) logLines(c canvas) []string {
	index, width := map[string]int{}, 0
	for i, k := range p.detail.Task.Containers {
		index[k.Name] = i
		width = max(width, min(16, letters(k.Name)))
	}
	var lines []string
	for _, l := range p.logs.lines {
		if !p.search.fits(l.Text) {
			continue
		}
		text := shorten(l.Text, max(1, c.width-width-3))
		lines = append(lines, c.paint(console.Inks[index[l.Container]%len(console.Inks)], fit(l.Container, width))+" | "+text)
	}
	switch {
	case p.logs.ended:
		lines = append(lines, c.paint(console.Faint, "(the logs end here)"))
	case len(lines) == 0 && p.search.text != "":
		lines = append(lines, c.paint(console.Faint, "(no line has that text; / and esc clear it)"))
	case len(lines) == 0:
		lines = append(lines, c.paint(console.Faint, "(nothing was written yet)"))
	}
	return lines
}

func (p *page) eventLines(c canvas) (lines []string) {
	for _, e := range console.TaskEvents(p.detail.Task.History) {
		_, ink := rowStyle(false, e.Failed)
		text := fmt.Sprintf("%s  %s  %s  %s", e.At.Local().Format("15:04:05.000"), fit(e.Of, 16), e.What, e.Reason)
		lines = append(lines, c.paint(ink, c.cut(strings.TrimRight(text, " "))))
	}
	return lines
}
