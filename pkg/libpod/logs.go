package libpod

import (
	"context"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/containers/podman/v5/libpod/define"
	"github.com/containers/podman/v5/pkg/bindings/containers"
	"github.com/containers/podman/v5/pkg/bindings/system"
	entities "github.com/containers/podman/v5/pkg/domain/entities/types"
)

// maxLine is the longest LogLine.Text in bytes; a longer line comes in pieces.
const maxLine = 64 << 10

// Stream is where a line was written.
type Stream string

// The streams. A container with a terminal has only Stdout.
const (
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"
)

// LogLine is one line of a container's output.
type LogLine struct {
	Stream Stream
	// Time is when Podman got the line, to the second (its API gives no more); zero
	// unless asked for by LogOptions.Timestamps.
	Time time.Time
	// Text has at most maxLine bytes and no line feed. Of a terminal it ends in a carriage
	// return, which the kernel puts before each line feed.
	Text string
}

// LogOptions select what Logs reads.
type LogOptions struct {
	// Follow goes on until the container ends; of one that never started it may return
	// at once.
	Follow bool
	// Since leaves out what is older; zero means from the beginning.
	Since time.Time
	// Until leaves out what is younger; zero means to the end. Not with Follow.
	Until time.Time
	// Tail is how many of the last lines to begin with, of those until Until; 0 means all.
	Tail int
	// Timestamps fills LogLine.Time.
	Timestamps bool
}

// Logs calls fn for each whole line of the container's output, in order, from one
// goroutine at a time. It returns when all is read or, following, when the
// container ended. A service that dies in mid-stream looks like the end too: when
// it matters, inspect the container and go on with Since. Containers whose log
// driver is none have no logs, which is class NotFound; the journald driver needs
// the right to read the journal.
//
// After ctx ended fn is not called any more.
func (c *inspectAPI) Logs(ctx context.Context, name string, o LogOptions, fn func(LogLine)) error {
	c.awaitJournal(ctx, name)
	if o.Tail == 0 || o.Until.IsZero() {
		return c.readLogs(ctx, name, o, fn)
	}
	// Podman counts back from the end of the log, not from Until.
	last := lastLines{n: o.Tail}
	o.Tail = 0
	if err := c.readLogs(ctx, name, o, last.add); err != nil {
		return err
	}
	for _, l := range last.lines {
		fn(l)
	}
	return nil
}

// journalDelay is how far a busy journal may lag behind a container that has ended.
const journalDelay = 3 * time.Second

// awaitJournal returns when the journal has all that a container wrote which ended a
// moment ago, if its log goes there. The journal takes in order what it is sent, and
// Podman's event of the end is sent after the last line: when that can be read, the line
// can. What is not known, or not there in time, is not waited for: Logs says what is wrong.
func (c *inspectAPI) awaitJournal(ctx context.Context, name string) {
	data, err := c.inspect(ctx, name)
	if err != nil || data.HostConfig == nil || data.HostConfig.LogConfig == nil || data.HostConfig.LogConfig.Type != define.JournaldLogging {
		return
	}
	ended := observe(data).FinishedAt
	if ended.IsZero() || time.Since(ended) > journalDelay {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, journalDelay)
	defer cancel()
	events := make(chan entities.Event)
	options := new(system.EventsOptions).WithStream(true).WithSince(strconv.FormatInt(ended.Unix()-1, 10)).
		WithFilters(map[string][]string{"container": {data.ID}, "event": {"died"}})
	if system.Events(c.call(ctx), events, nil, options) != nil {
		return
	}
	for range events { // to the end, which the first brings about: see Events
		cancel()
	}
}

func (c *inspectAPI) readLogs(ctx context.Context, name string, o LogOptions, fn func(LogLine)) error {
	// The binding writes into these and blocks for ever if nobody reads, so they
	// are read until it returned. They are unbuffered to keep the order between
	// the two.
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
			return fail(call, "read logs of", name, err)
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

// lastLines keeps the last n of the lines that are added.
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

// splitter puts the frames of one stream together to lines. Podman sends a frame
// for each piece of a line as the log driver stored it, each with a time stamp of
// its own when those are on, and only the last piece has the line end.
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

// add appends to the pending line and lets go of what is too long.
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

// flush ends a last line that has no line end.
func (s *splitter) flush() {
	if s.pending.Len() > 0 {
		s.emit()
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

// tail returns the last part of s of at most n bytes that begins with a whole
// character.
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
