package task

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/engine/act/observe"
)

// logPlaces prints lines with their places, and leaves out those up to the places from which a broken command continues.
// A place is the time of a line and how many lines of its source have that time. It is safe for concurrent use.
type logPlaces struct {
	// first is where sources begin of which no line was seen.
	first time.Time

	mu     sync.Mutex // guards the maps
	behind map[string]logPlace
	at     map[string]logPlace
}

type logPlace struct {
	time  time.Time
	lines int // of that time
}

// firstSource is the source of the position from which on sources without lines are shown.
const firstSource = "first"

// newLogPlaces reads positions; without any, it prints where the first ones are.
func newLogPlaces(out io.Writer, positions []string, opts *observe.LogOptions) (*logPlaces, error) {
	opts.Timestamps = true
	p := &logPlaces{first: opts.Since, behind: make(map[string]logPlace), at: make(map[string]logPlace)}
	if len(positions) == 0 {
		if opts.Tail >= 0 {
			p.first = time.Now()
		}
		return p, command.WritePosition(out, firstSource, p.first.UTC().Format(time.RFC3339Nano), nil)
	}
	if opts.Tail != 0 {
		opts.Tail = -1
	}
	oldest := time.Time{}
	for _, text := range positions {
		source, place, _ := command.ParsePosition(text)
		at, count, _ := strings.Cut(place, "+")
		t, err := time.Parse(time.RFC3339Nano, at)
		n := 0
		if err == nil && count != "" {
			n, err = strconv.Atoi(count)
		}
		if err != nil {
			return nil, command.Usagef("logs", "--%s: %q is no position", command.ResumeFlag, text)
		}
		if source == firstSource {
			p.first, opts.Since = t, t
			continue
		}
		p.behind[source] = logPlace{t, n}
		if oldest.IsZero() || t.Before(oldest) {
			oldest = t
		}
	}
	if !oldest.IsZero() && oldest.Before(opts.Since) {
		opts.Since = oldest
	}
	return p, nil
}

// print prints a line, unless it was printed before the connection broke.
func (p *logPlaces) print(printer *console.LogPrinter, task string, l observe.LogLine) error {
	source := task + "/" + l.Container + "/" + l.Stream
	p.mu.Lock()
	at := p.at[source]
	if !l.Time.Equal(at.time) {
		at = logPlace{time: l.Time}
	}
	at.lines++
	p.at[source] = at
	behind, known := p.behind[source]
	p.mu.Unlock()
	switch {
	case known && (l.Time.Before(behind.time) || l.Time.Equal(behind.time) && at.lines <= behind.lines):
		return nil
	case !known && l.Time.Before(p.first):
		return nil
	}
	out := &printer.Out
	if l.Stream == "stderr" {
		out = &printer.Err
	}
	before, text := *out, new(bytes.Buffer)
	*out = text
	err := printer.Line(l)
	*out = before
	if err != nil {
		return err
	}
	if err := command.WritePosition(before, source, fmt.Sprintf("%s+%d", l.Time.UTC().Format(time.RFC3339Nano), at.lines), text.Bytes()); err != nil {
		return fmt.Errorf("write the log: %w", err)
	}
	return nil
}
