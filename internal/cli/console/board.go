package console

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/podtask/podtask/internal/cli/helptext"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// Board shows the start of a task: on a terminal as a line for each container that is redrawn in place, with pulls
// in it, elsewhere as the list of transitions of Progress. The lines stay when all containers have started or
// ended; what comes later is shown as transitions.
type Board struct {
	pulls  *PullView
	out    io.Writer
	colors Colors
	start  time.Time
	// list shows transitions; nil while the lines are drawn.
	list *Progress

	task api.Task // the latest; guarded by pulls.mu
	live *mpb.Progress
	bars []*mpb.Bar

	mu    sync.Mutex // guards texts, which another goroutine draws
	texts []string
}

// NewBoard returns a board for a task whose pulls a view shows. Its times begin at start.
func NewBoard(pulls *PullView, out io.Writer, c Colors, start time.Time) *Board {
	b := &Board{pulls: pulls, out: out, colors: c, start: start}
	if pulls.Mode != "bar" {
		b.list = NewProgress(pulls.Above(out), c, start, 0)
		return b
	}
	pulls.mu.Lock()
	defer pulls.mu.Unlock()
	pulls.board = b
	return b
}

// Show shows what is new in a task. It must not be called concurrently with itself or End.
func (b *Board) Show(t api.Task) {
	if b.list != nil {
		b.list.Show(t)
		return
	}
	b.pulls.mu.Lock()
	b.task = t
	if _, rows := terminalSize(b.out); rows > 0 && len(t.Containers)+2 > rows { // they cannot be drawn in place
		b.finish(0)
		b.pulls.mu.Unlock()
		b.list.Show(t)
		return
	}
	b.draw()
	if begun(t) {
		b.finish(lastSeq(t))
	}
	b.pulls.mu.Unlock()
}

// End leaves the lines as they are. Later calls of Show print transitions.
func (b *Board) End() {
	if b.list != nil {
		return
	}
	b.pulls.mu.Lock()
	defer b.pulls.mu.Unlock()
	b.finish(lastSeq(b.task))
}

// begun reports whether no container of a task is going to start or to become healthy.
func begun(t api.Task) bool {
	if t.Settled || t.DesiredStatus == lifecycle.StatusStopped.String() {
		return t.Settled
	}
	return !slices.ContainsFunc(t.Containers, func(c api.Container) bool {
		switch c.Status {
		case lifecycle.StatusStopped.String():
			return false
		case lifecycle.StatusRunning.String():
			return c.Health != nil && c.Health.Status == lifecycle.HealthUnknown.String()
		}
		return true
	})
}

func lastSeq(t api.Task) uint64 {
	if n := len(t.History); n > 0 {
		return t.History[n-1].Seq
	}
	return 0
}

// finish ends the drawing and prints the lines for good, now as long as they are; transitions after the one numbered
// seq are shown as a list. pulls.mu is held.
func (b *Board) finish(seq uint64) {
	if b.live != nil {
		for _, bar := range b.bars {
			bar.Abort(true)
		}
		b.live.Wait()
		for _, line := range b.lines(time.Now()) {
			fmt.Fprintln(b.out, line.print(b.colors, TerminalWidth(b.out)))
		}
	}
	b.live, b.bars, b.pulls.board = nil, nil, nil
	b.list = NewProgress(b.pulls.Above(b.out), b.colors, b.start, seq)
	b.list.short, b.list.queue = seq > 0, b.task.Queue
}

// boardLine is a line of a board: the name of a container and what it does, or what the task does.
type boardLine struct {
	name, state       string
	nameInk, stateInk Ink
}

// print returns the line, broken at a width; 0 means no limit.
func (l boardLine) print(c Colors, width int) string {
	if width == 0 {
		width = math.MaxInt
	}
	state := strings.TrimLeft(helptext.Indented(strings.Repeat(" ", utf8.RuneCountInString(l.name)), l.state, width), " ")
	return c.Paint(l.nameInk, l.name) + c.Paint(l.stateInk, state)
}

// draw returns the line, cut at a width.
func (l boardLine) draw(c Colors, width int) string {
	state := []rune(l.state)
	if room := width - utf8.RuneCountInString(l.name); width > 0 && len(state) > room {
		state = append(state[:max(0, room-1)], '…')
	}
	return c.Paint(l.nameInk, l.name) + c.Paint(l.stateInk, string(state))
}

// draw updates the lines. pulls.mu is held.
func (b *Board) draw() {
	var texts []string
	for _, line := range b.lines(time.Now()) {
		texts = append(texts, line.draw(b.colors, max(0, TerminalWidth(b.out)-1)))
	}
	if len(texts) == 0 {
		return
	}
	b.mu.Lock()
	b.texts = texts
	b.mu.Unlock()
	if b.live != nil {
		return
	}
	b.live = mpb.New(mpb.WithOutput(term.Unwrap(b.out)), mpb.WithAutoRefresh(), mpb.WithRefreshRate(barPace))
	for i := range texts {
		b.bars = append(b.bars, b.live.MustAdd(0, nil, mpb.PrependDecorators(decor.Any(func(decor.Statistics) string {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.texts[i]
		}))))
	}
}

// write writes whole lines above the board; done is false if nothing is drawn.
func (b *Board) write(text []byte) (n int, done bool, err error) {
	if b.live == nil {
		return 0, false, nil
	}
	if _, err := b.live.Write(append([]byte("\r"), text...)); err != nil {
		return 0, true, err
	}
	return len(text), true, nil
}

// lines returns a line for the task and one for each container; none before the first state.
func (b *Board) lines(now time.Time) []boardLine {
	t := b.task
	if t.ID == "" {
		return nil
	}
	head := TaskState(t, "")
	if t.Queue != "" {
		head += ": waits for " + term.Line(t.Queue)
	}
	if own := slices.ContainsFunc(t.Containers, func(c api.Container) bool { return len(c.Ports) > 0 }); !own && t.Status == lifecycle.StatusRunning.String() {
		head += portWords(t.Ports)
	}
	width := 0
	for _, c := range t.Containers {
		width = max(width, len(c.Name))
	}
	lines := []boardLine{{name: TaskName(t) + "  ", state: head, nameInk: Bold}}
	for i, c := range t.Containers {
		state, ink := b.containerState(c, now)
		lines = append(lines, boardLine{"  " + Pad(c.Name, width) + "  ", state, containerInk(i), ink})
	}
	return lines
}

// containerState says what a container does, in a few words.
func (b *Board) containerState(c api.Container, now time.Time) (text string, ink Ink) {
	switch {
	case c.Status == lifecycle.StatusStopped.String() && c.ExitCode != nil && *c.ExitCode == 0:
		return "done in " + Span(c.FinishedAt.Sub(c.StartedAt)), Green
	case c.Status == lifecycle.StatusStopped.String() && c.ExitCode != nil:
		return strings.TrimSuffix(fmt.Sprintf("exited (%s): %s", c.ExitCode, term.Line(c.Reason)), ": "), Red
	case c.Status == lifecycle.StatusStopped.String() && len(c.Errors) > 0:
		return "failed: " + term.Line(cmp.Or(c.Reason, c.Errors[len(c.Errors)-1].Message)), Red
	case c.Status == lifecycle.StatusStopped.String():
		return "not started", Faint
	case !c.RestartAt.IsZero():
		return fmt.Sprintf("exited (%s), restarts in %s", c.ExitCode, Span(max(0, c.RestartAt.Sub(now)))), Red
	case c.Status == lifecycle.StatusRunning.String():
		return runningState(c)
	case c.Retry != nil:
		return fmt.Sprintf("attempt %d failed: %s", c.Retry.Attempts, term.Line(c.Retry.Error)), Red
	}
	if pulling := b.pulls.of(c.Image); pulling != "" {
		return pulling, plain
	}
	if len(c.WaitingFor) > 0 {
		var words []string
		for _, d := range c.WaitingFor {
			words = append(words, d.ContainerName+" ("+strings.ToLower(d.Condition)+")")
		}
		return "waits for " + strings.Join(words, ", "), Faint
	}
	if c.Status == lifecycle.StatusNone.String() {
		return "looking up its image", Faint
	}
	return "starting", Faint
}

func runningState(c api.Container) (text string, ink Ink) {
	ports := portWords(c.Ports)
	switch {
	case c.Health == nil:
		return "running" + ports, Green
	case c.Health.Status == lifecycle.HealthHealthy.String():
		return "healthy" + ports, Green
	case c.Health.Status == lifecycle.HealthUnhealthy.String():
		return fmt.Sprintf("unhealthy: exit code %d %s", c.Health.ExitCode, term.Line(c.Health.Output)), Red
	case c.Health.FailingStreak > 0:
		return fmt.Sprintf("running%s, not healthy yet: exit code %d %s", ports, c.Health.ExitCode, term.Line(c.Health.Output)), plain
	}
	return "running" + ports + ", health is being checked", plain
}

// portWords returns the published ports, each after a blank.
func portWords(ports []api.Port) (text string) {
	for _, p := range ports {
		text += fmt.Sprintf("  %s->%d", HostPort(p), p.ContainerPort)
	}
	return text
}

// of returns how far the pull of an image is; empty if there is none. mu is held.
func (v *PullView) of(image string) string {
	for name, p := range v.pulls {
		if image == "" || p.ended || !strings.HasSuffix(name, image) && !strings.HasSuffix(name, image+":latest") {
			continue
		}
		current, total := p.bytes()
		switch {
		case p.waiting:
			return "waits for another pull"
		case total > 0:
			return fmt.Sprintf("pulling %d %% of %s", 100*current/total, BytesText(total))
		}
		return "pulling"
	}
	return ""
}
