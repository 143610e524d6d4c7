package console

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/podtask/podtask/internal/cli/helptext"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// Progress prints a line for each transition of a task: the time since a start, the container, the state, and
// a digest, exit code or reason.
type Progress struct {
	out    io.Writer
	colors Colors
	// start is the zero of the printed times.
	start time.Time
	// seq is the number of the last printed transition.
	seq uint64
	// retries has the number of the last printed attempt of each container.
	retries map[string]int
	// lastRetry has the error of that attempt.
	lastRetry map[string]string
	// failed is the last printed error of an operation of the task as a whole.
	failed string
	// queue is the last printed reason why the task is queued.
	queue string
	// diskFull: a line says that the task waits for space on the disk.
	diskFull bool
	// short: only transitions of containers are shown, in everyday words.
	short bool
	// task stands before the names of containers where the lines of several tasks mix; empty for one task.
	task string
}

// Of has each line begin with the name of a task, because lines of other tasks come in between.
func (p *Progress) Of(task string) *Progress {
	p.task = task + " "
	return p
}

// NewProgress returns a view that begins after the transition numbered after.
func NewProgress(out io.Writer, c Colors, start time.Time, after uint64) *Progress {
	return &Progress{out: out, colors: c, start: start, seq: after, retries: map[string]int{}, lastRetry: map[string]string{}}
}

// The names of the task and its pod in the column of containers.
const (
	TaskLabel  = "(task)"
	InfraLabel = "(pod)"
)

// Show prints what is new in t.
func (p *Progress) Show(t api.Task) {
	width := len(TaskLabel)
	index := make(map[string]int, len(t.Containers))
	for i, c := range t.Containers {
		width = max(width, len(c.Name))
		index[c.Name] = i
	}
	for _, h := range t.History {
		if h.Seq <= p.seq {
			continue
		}
		p.seq = h.Seq
		i, known := index[h.Container]
		if !known {
			i = -1
		}
		if p.short && !known {
			continue
		}
		p.line(row{at: h.At, width: width, container: i, name: Label(h.Container), state: p.word(h), color: stateInk(h), detail: detail(h, t)})
	}
	if t.Queue != p.queue {
		if p.queue = t.Queue; t.Queue != "" {
			p.line(row{width: width, container: -1, name: TaskLabel, state: "queued", color: Faint, detail: "waits for " + term.Line(t.Queue)})
		}
	}
	if full := t.DiskFull(); full != p.diskFull {
		if p.diskFull = full; full {
			p.line(row{width: width, container: -1, name: TaskLabel, state: "waiting", color: Faint, detail: term.Line(t.Why[0].Text)})
		}
	}
	p.showFailure(t)
	for i, c := range t.Containers {
		if c.Retry == nil {
			delete(p.retries, c.Name)
			delete(p.lastRetry, c.Name)
		} else if c.Retry.Attempts > p.retries[c.Name] {
			p.retries[c.Name] = c.Retry.Attempts
			p.showRetry(row{width: width, container: i, name: c.Name, state: "retry", color: Faint, detail: term.Line(c.Retry.Error)}, c.Retry.Attempts)
		}
	}
}

// word returns the state of a transition.
func (p *Progress) word(h api.Transition) string {
	switch {
	case !p.short:
		return h.Status
	case h.Status == lifecycle.StatusStopped.String() && h.ExitCode != nil:
		return "exited"
	}
	return strings.ToLower(h.Status)
}

// showRetry prints a failed attempt. Of attempts that fail in the same way it prints the second, fourth,
// eighth and so on, with their numbers.
func (p *Progress) showRetry(r row, attempts int) {
	if r.detail != p.lastRetry[r.name] {
		p.lastRetry[r.name] = r.detail
		p.line(r)
		return
	}
	if attempts&(attempts-1) == 0 {
		r.detail = fmt.Sprintf("attempt %d failed in the same way", attempts)
		p.line(r)
	}
}

// showFailure prints the error of an operation of the task as a whole, such as its removal.
func (p *Progress) showFailure(t api.Task) {
	for _, r := range t.Why {
		if r.Code != lifecycle.WhyRetry || r.Container != "" {
			continue
		}
		if _, last, _ := strings.Cut(r.Text, "error: "); last != p.failed {
			p.failed = last
			p.line(row{width: len(TaskLabel), container: -1, name: TaskLabel, state: "retry", color: Faint, detail: term.Line(r.Text)})
		}
	}
}

// AddStep prints a line that does not belong to a transition.
func (p *Progress) AddStep(line string) { fmt.Fprintln(p.out, line) }

// stateWidth is the width of the longest state, timeWidth that of times.
const (
	stateWidth = len("RESOURCES_PROVISIONED")
	timeWidth  = len("99999.9s")
)

func (p *Progress) stateWidth() int {
	if p.short {
		return len("restarting")
	}
	return stateWidth
}

// row is a line of progress.
type row struct {
	at time.Time // zero: no time is shown
	// width is the width of the column of names; container is the index of the container, or -1.
	width, container    int
	name, state, detail string
	color               Ink
}

func (p *Progress) line(r row) {
	since := ""
	if !r.at.IsZero() {
		since = fmt.Sprintf("%.1fs", max(0, r.at.Sub(p.start)).Seconds())
	}
	line := fmt.Sprintf("%*s  %s  %s  %s", timeWidth, since,
		p.task+p.colors.Paint(containerInk(r.container), Pad(r.name, r.width)),
		p.colors.Paint(r.color, Pad(r.state, p.stateWidth())), p.wrapDetail(r.detail, timeWidth+len(p.task)+r.width+p.stateWidth()+3*len("  ")))
	fmt.Fprintln(p.out, strings.TrimRight(line, " "))
}

// minDetail is the minimum width of the last column, in which a detail is printed.
const minDetail = 24

// wrapDetail wraps a detail that begins at column before to the width of the terminal. On a narrow terminal
// a detail that does not fit begins on the next line.
func (p *Progress) wrapDetail(detail string, before int) string {
	width := TerminalWidth(p.out)
	if width == 0 || before+utf8.RuneCountInString(detail) <= width {
		return detail
	}
	if width-before < minDetail {
		return "\n" + helptext.Indented(strings.Repeat(" ", timeWidth+len("  ")), detail, width)
	}
	return strings.TrimLeft(helptext.Indented(strings.Repeat(" ", before), detail, width), " ")
}

// Pad pads with blanks to a width, not counting colors.
func Pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-len(s)))
}

// Label returns the name that is printed for a container of the history, which may be the task or its pod.
func Label(container string) string {
	switch container {
	case "":
		return TaskLabel
	case lifecycle.Infra:
		return InfraLabel
	}
	return container
}

func stateInk(h api.Transition) Ink {
	switch {
	case h.Status == lifecycle.Restarting, h.Status == lifecycle.HealthUnhealthy.String(), h.ExitCode != nil && *h.ExitCode != 0:
		return Red
	case h.Status == lifecycle.StatusRunning.String(), h.Status == lifecycle.HealthHealthy.String():
		return Green
	case h.Status == lifecycle.StatusStopped.String() && h.Reason != "" && h.ExitCode == nil:
		return Red
	}
	return plain
}

// detail returns what to show of a transition besides its state.
func detail(h api.Transition, t api.Task) string {
	var parts []string
	if h.Digest != "" {
		parts = append(parts, ShortDigest(h.Digest))
	}
	if h.ExitCode != nil {
		parts = append(parts, fmt.Sprintf("exit code %d", *h.ExitCode))
	}
	if h.Reason != "" {
		parts = append(parts, term.Line(h.Reason))
	}
	for _, port := range portsOf(t, h) {
		parts = append(parts, portText(port))
	}
	return strings.Join(parts, ", ")
}

// portsOf returns the ports that a transition opens.
func portsOf(t api.Task, h api.Transition) []api.Port {
	own := false
	for _, c := range t.Containers {
		own = own || len(c.Ports) > 0
		if c.Name == h.Container && h.Status == lifecycle.StatusRunning.String() {
			return c.Ports
		}
	}
	if !own && h.Container == lifecycle.Infra && h.Status == lifecycle.StatusResourcesProvisioned.String() {
		return t.Ports
	}
	return nil
}

// portText formats a port as podman ps does.
func portText(p api.Port) string {
	return fmt.Sprintf("%s->%d/%s", HostPort(p), p.ContainerPort, p.Protocol)
}

// PortList formats published ports as podman ps does.
func PortList(ports []api.Port) string {
	words := make([]string, len(ports))
	for i, p := range ports {
		words[i] = portText(p)
	}
	return strings.Join(words, ", ")
}

// HostPort returns the address on which a port is published, IP:PORT.
func HostPort(p api.Port) string {
	ip := p.HostIP
	switch {
	case ip == "":
		ip = "0.0.0.0"
	case strings.Contains(ip, ":"):
		ip = "[" + ip + "]"
	}
	return fmt.Sprintf("%s:%d", ip, p.HostPort)
}

// ShortDigest shortens a digest to twelve digits.
func ShortDigest(d string) string {
	algorithm, hex, ok := strings.Cut(d, ":")
	if !ok {
		return lifecycle.ShortID(d)
	}
	return algorithm + ":" + lifecycle.ShortID(hex)
}
