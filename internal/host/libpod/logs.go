package libpod

import (
	"context"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/containers/podman/v5/pkg/bindings/containers"
	"github.com/containers/podman/v5/pkg/bindings/system"
	entities "github.com/containers/podman/v5/pkg/domain/entities/types"
)

// maxLine is the maximum length of LogLine.Text in bytes; a longer line is split.
const maxLine = 64 << 10

// Stream is the stream that a line was written to.
type Stream string

// The streams. A container with a terminal has only Stdout.
const (
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"
)

// LogLine is one line of a container's output.
type LogLine struct {
	Stream Stream
	// Time is the time at which Podman received the line, in whole seconds, the resolution of its API; zero unless
	// LogOptions.Timestamps is set.
	Time time.Time
	// Text has at most maxLine bytes and no line feed. With a terminal it ends in a
	// carriage return, which the kernel adds before each line feed.
	Text string
	// Unended: the container ended without a line feed after the text.
	Unended bool
}

// LogOptions select what Logs reads.
type LogOptions struct {
	// Follow reads until the container exits. For a container that was never started,
	// Logs may return immediately.
	Follow bool
	// Since leaves out older lines; zero means from the beginning.
	Since time.Time
	// Until leaves out newer lines; zero means to the end. It cannot be combined with
	// Follow.
	Until time.Time
	// Tail is the number of last lines to start with, counted from Until; 0 means all
	// lines.
	Tail int
	// Timestamps fills LogLine.Time.
	Timestamps bool
	// Seen is the latest inspection of the container, a moment ago; if it is zero, Logs inspects the container.
	Seen Observed
}

// Logs calls fn for each whole line of the container's output, in order, from one
// goroutine at a time. It returns when all lines are read or, with Follow, when the
// container has exited. A service that dies during the stream also looks like the end: if
// it matters, inspect the container and continue with Since. The class is NotFound if the
// container's log driver is none. The journald driver requires permission to read the
// journal.
//
// fn is not called after ctx has ended.
func (c *Client) Logs(ctx context.Context, name string, o LogOptions, fn func(LogLine)) error {
	c.awaitJournal(ctx, name, o.Seen)
	if o.Tail == 0 || o.Follow {
		return c.readLogs(ctx, name, o, fn)
	}
	// Podman counts entries of the journal: it sends one line more where the last one has no line feed, and of the first
	// line only the last piece where it is long.
	last := lastLines{n: o.Tail}
	o.Tail++
	if !o.Until.IsZero() {
		o.Tail = 0 // Podman counts from the end of the log, not from Until
	}
	if err := c.readLogs(ctx, name, o, last.add); err != nil {
		return err
	}
	for _, l := range last.lines {
		fn(l)
	}
	return nil
}

// journalDelay is the longest expected delay of a busy journal after the exit of a container.
const journalDelay = 3 * time.Second

// awaitJournal waits until the journal has all output of a container that has just
// exited, if the container logs to the journal. The journal keeps the order of messages,
// and Podman sends the exit event after the last line: once the event can be read, so can
// the line. It waits at most journalDelay and ignores errors, because Logs reports them.
func (c *Client) awaitJournal(ctx context.Context, name string, o Observed) {
	if o.Status == Absent {
		data, err := c.inspect(ctx, name)
		if err != nil {
			return
		}
		o = observe(data)
	}
	ended := o.FinishedAt
	if !o.Journal {
		return
	}
	if ended.IsZero() || time.Since(ended) > journalDelay {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, journalDelay)
	defer cancel()
	events := make(chan entities.Event)
	options := new(system.EventsOptions).WithStream(true).WithSince(strconv.FormatInt(ended.Unix()-1, 10)).
		WithFilters(map[string][]string{"container": {o.ID}, "event": {"died"}})
	if system.Events(c.call(ctx), events, nil, options) != nil {
		return
	}
	for range events { // to the end; the first event cancels the stream (see Events)
		cancel()
	}
}

// readLogs reads a log with one call of Podman.
func (c *Client) readLogs(parent context.Context, name string, o LogOptions, fn func(LogLine)) error {
	ctx, end := c.pulse.watch(parent)
	// The binding writes to these and blocks forever unless they are read, so they are
	// read until it returns. They are unbuffered to keep the order between the two.
	out, errs := make(chan string), make(chan string)
	done := make(chan error, 1)
	call := c.call(ctx)
	go func() { done <- containers.Logs(call, name, logOptions(o), out, errs) }()

	stdout, stderr := newSplitter(Stdout, o.Timestamps, fn), newSplitter(Stderr, o.Timestamps, fn)
	take := func(s *splitter, frame string) {
		if ctx.Err() == nil {
			s.write(frame)
		}
	}
	for {
		select {
		case frame := <-out:
			take(stdout, frame)
		case frame := <-errs:
			take(stderr, frame)
		case err := <-done:
			if ctx.Err() == nil {
				stdout.flush()
				stderr.flush()
			}
			if err == nil {
				err = ctx.Err()
			}
			return end(fail(call, "read logs of", name, err))
		}
	}
}

func logOptions(o LogOptions) *containers.LogOptions {
	l := new(containers.LogOptions).WithStdout(true).WithStderr(true).WithFollow(o.Follow).WithTimestamps(o.Timestamps)
	if !o.Since.IsZero() {
		l = l.WithSince(o.Since.UTC().Format(time.RFC3339Nano))
	}
	if !o.Until.IsZero() {
		l = l.WithUntil(o.Until.UTC().Format(time.RFC3339Nano))
	}
	if o.Tail > 0 {
		l = l.WithTail(strconv.Itoa(o.Tail))
	}
	return l
}

// lastLines collects the last n lines.
type lastLines struct {
	n     int
	lines []LogLine
}

func (l *lastLines) add(line LogLine) {
	if len(l.lines) == l.n {
		l.lines = l.lines[1:]
	}
	l.lines = append(l.lines, line)
}

// splitter assembles lines from the frames of one stream. Podman sends one frame for each
// piece of a line that the log driver stored. Each frame has its own time stamp if those
// are on, and only the last piece ends with a line feed.
type splitter struct {
	stream  Stream
	stamped bool
	fn      func(LogLine)

	at      time.Time
	pending strings.Builder
}

func newSplitter(stream Stream, stamped bool, fn func(LogLine)) *splitter {
	return &splitter{stream: stream, stamped: stamped, fn: fn}
}

// write takes one frame.
func (s *splitter) write(frame string) {
	if s.stamped {
		if at, text, ok := cutTime(frame); ok {
			frame = text
			if s.pending.Len() == 0 {
				s.at = at
			}
		}
	}
	for {
		line, rest, ended := strings.Cut(frame, "\n")
		s.add(line)
		if !ended {
			return
		}
		s.emit()
		frame = rest
		if frame == "" {
			return
		}
	}
}

// add appends to the pending line and emits it when it is too long.
func (s *splitter) add(piece string) {
	for s.pending.Len()+len(piece) > maxLine {
		room := maxLine - s.pending.Len()
		for room > 0 && !utf8.RuneStart(piece[room]) && room > maxLine-s.pending.Len()-utf8.UTFMax {
			room--
		}
		s.pending.WriteString(piece[:room])
		piece = piece[room:]
		s.emit()
	}
	s.pending.WriteString(piece)
}

func (s *splitter) emit() {
	s.fn(LogLine{Stream: s.stream, Time: s.at, Text: s.pending.String()})
	s.pending.Reset()
}

// flush emits a last line without a line feed.
func (s *splitter) flush() {
	if s.pending.Len() > 0 {
		s.fn(LogLine{Stream: s.stream, Time: s.at, Text: s.pending.String(), Unended: true})
		s.pending.Reset()
	}
}

// cutTime cuts the time stamp and the space after it off a frame.
func cutTime(frame string) (at time.Time, text string, ok bool) {
	stamp, text, ok := strings.Cut(frame, " ")
	if !ok {
		return time.Time{}, frame, false
	}
	at, err := time.Parse(time.RFC3339Nano, stamp)
	if err != nil {
		return time.Time{}, frame, false
	}
	return at, text, true
}

// tail returns the end of s, at most n bytes that start with a whole character.
func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = s[len(s)-n:]
	for len(s) > 0 && !utf8.RuneStart(s[0]) {
		s = s[1:]
	}
	return s
}
