package console

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/engine/act/observe"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// LogPrinter prints the output of the containers of a task: their stdout to Out, their stderr to Err.
type LogPrinter struct {
	Out, Err             io.Writer
	outColors, errColors Colors
	// Prefix: each line begins with the name of its container, padded to width.
	Prefix bool
	Width  int
	Index  map[string]int
	// Task is printed before the name of the container; empty if there is only one task.
	Task string
	// Stamps: each line begins with its time.
	Stamps bool
}

// NewLogPrinters returns a printer for each task. If there are several, each line names its task, and the
// columns are aligned.
func NewLogPrinters(out, err io.Writer, states []lifecycle.State, getenv func(string) string) []*LogPrinter {
	printers := make([]*LogPrinter, len(states))
	width := 0
	for i, s := range states {
		p := NewLogPrinter(out, err, s, getenv)
		if len(states) > 1 {
			p.Task, p.Prefix = cmp.Or(s.Name, lifecycle.ShortID(s.ID))+"/", true
		}
		width = max(width, len(p.Task)+p.Width)
		printers[i] = p
	}
	for _, p := range printers {
		p.Width = width
	}
	return printers
}

// NewLogPrinter returns a printer to out and err, with colors on terminals.
func NewLogPrinter(out, err io.Writer, s lifecycle.State, getenv func(string) string) *LogPrinter {
	l := &LogPrinter{
		Out: out, Err: err, Index: map[string]int{},
		outColors: ColorsFor(out, getenv), errColors: ColorsFor(err, getenv),
	}
	for i, c := range s.Task.Containers {
		l.Index[c.Name] = i
		l.Width = max(l.Width, len(c.Name))
	}
	return l
}

// WithPrefix sets Prefix and returns l.
func (l *LogPrinter) WithPrefix() *LogPrinter {
	l.Prefix = true
	return l
}

// Line writes one line with one Write, so that lines of other writers do not mix with it.
func (l *LogPrinter) Line(line observe.LogLine) error {
	out, on := l.Out, l.outColors
	if line.Stream == "stderr" {
		out, on = l.Err, l.errColors
	}
	var b strings.Builder
	if l.Prefix {
		b.WriteString(on.Paint(containerInk(l.Index[line.Container]), Pad(l.Task+line.Container, l.Width)+" | "))
	}
	if l.Stamps {
		b.WriteString(line.Time.Format(time.RFC3339Nano) + " ")
	}
	b.WriteString(line.Text)
	if _, err := fmt.Fprintln(out, b.String()); err != nil {
		return fmt.Errorf("write the log: %w", err)
	}
	return nil
}
