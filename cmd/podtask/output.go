package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/observe"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// logPrinter writes the lines of containers: what they wrote to stdout on out,
// what they wrote to stderr on err.
type logPrinter struct {
	out, err               io.Writer
	outColours, errColours colours
	// prefix puts the container's name before each line, padded to width.
	prefix bool
	width  int
	index  map[string]int
	// stamps puts the time before each line.
	stamps bool
}

func (p *program) newLogPrinter(s lifecycle.State, prefix, stamps bool) *logPrinter {
	l := &logPrinter{
		out: p.stdout, err: p.stderr,
		outColours: coloursFor(p.stdout, p.getenv), errColours: coloursFor(p.stderr, p.getenv),
		prefix: prefix, stamps: stamps, index: map[string]int{},
	}
	for i, c := range s.Task.Containers {
		l.index[c.Name] = i
		l.width = max(l.width, len(c.Name))
	}
	return l
}

// line writes one line with one Write, so that those of others do not get between.
func (l *logPrinter) line(line observe.LogLine) error {
	out, on := l.out, l.outColours
	if line.Stream == "stderr" {
		out, on = l.err, l.errColours
	}
	var b strings.Builder
	if l.prefix {
		b.WriteString(on.paint(ofContainer(l.index[line.Container]), pad(line.Container, l.width)+" | "))
	}
	if l.stamps {
		b.WriteString(line.Time.Format(time.RFC3339) + " ")
	}
	b.WriteString(line.Text)
	if _, err := fmt.Fprintln(out, b.String()); err != nil {
		return fmt.Errorf("write the log: %w", err)
	}
	return nil
}
