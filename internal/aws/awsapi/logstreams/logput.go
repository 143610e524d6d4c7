package logstreams

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/podtask/podtask/internal/aws/awsapi/protocol"
)

// putStream is a log stream that a client has created, with the events that clients put into it. Tools try
// with one whether they could log (`ecspresso verify`). No task writes to it.
type putStream struct {
	Name      string     `json:"name"`
	CreatedAt time.Time  `json:"createdAt"`
	Events    []putEvent `json:"events,omitempty"` // in the order of time
}

// putEvent is an event as PutLogEvents has it.
type putEvent struct {
	Time int64  `json:"timestamp"` // milliseconds since 1970
	Text string `json:"message"`
}

// What a group holds of clients. Of more streams the oldest ones go; more events are refused: this is no
// store for logs.
const (
	maxPutStreams = 50
	maxPutSize    = 256 << 10 // in bytes, each event counted with 26 more
)

// size returns the size of all events in bytes, as CloudWatch Logs counts it.
func (s putStream) size() (bytes int) {
	for _, e := range s.Events {
		bytes += logEvent{text: e.Text}.size()
	}
	return bytes
}

// lines are the lines of a stream, as Logs.Lines has them.
func (l *logs) lines(ctx context.Context, s Stream, since time.Time, fn func(Line) error) error {
	if s.put == nil {
		return l.logs.Lines(ctx, s, since, fn)
	}
	for _, e := range s.put.Events {
		if at := time.UnixMilli(e.Time); !at.Before(since) {
			if err := fn(Line{at, e.Text}); err != nil {
				return err
			}
		}
	}
	return nil
}

// last is the last line of a stream, as Logs.Last has it.
func (l *logs) last(ctx context.Context, s Stream) (Line, bool, error) {
	if s.put == nil {
		return l.logs.Last(ctx, s)
	}
	n := len(s.put.Events)
	if n == 0 {
		return Line{}, false, nil
	}
	e := s.put.Events[n-1]
	return Line{time.UnixMilli(e.Time), e.Text}, true, nil
}

// logStreamName reports whether a stream may have the name.
func logStreamName(name string) bool {
	return name != "" && utf8.RuneCountInString(name) <= 512 && !strings.ContainsAny(name, ":*")
}

type inStream struct {
	Group  string `json:"logGroupName"`
	Stream string `json:"logStreamName"`
}

// changeStreams changes the streams of clients in a group that is there. f gets all streams of the group.
func (l *logs) changeStreams(ctx context.Context, in inStream, f func(r *logGroupRecord, all []Stream) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	name, g, err := l.find(ctx, inGroup{Name: in.Group})
	if err != nil {
		return err
	}
	r := g.record
	r.Kind, r.Name = kindLogGroup, name
	r.Streams = slices.Clone(r.Streams)
	if err := f(&r, g.streams); err != nil {
		return err
	}
	if r.CreatedAt.IsZero() { // else it would go with the tasks
		r.CreatedAt = g.createdAt
	}
	return l.put(r)
}

func (l *logs) createStream(ctx context.Context, in inStream, _ protocol.Fields) (any, error) {
	if !logStreamName(in.Stream) {
		return nil, protocol.Invalidf("logStreamName: %q is not a name of 1 to 512 characters without : and *", protocol.Shortened(in.Stream))
	}
	return struct{}{}, l.changeStreams(ctx, in, func(r *logGroupRecord, all []Stream) error {
		if slices.ContainsFunc(all, func(s Stream) bool { return s.Name == in.Stream }) {
			return protocol.Failf("ResourceAlreadyExistsException", "The specified log stream already exists")
		}
		r.Streams = append(r.Streams, putStream{Name: in.Stream, CreatedAt: l.now().UTC()})
		r.Streams = r.Streams[max(0, len(r.Streams)-maxPutStreams):]
		return nil
	})
}

// putIndex is the index of a client's stream in a group.
func putIndex(in inStream, r *logGroupRecord, all []Stream) (int, error) {
	i := slices.IndexFunc(r.Streams, func(s putStream) bool { return s.Name == in.Stream })
	switch {
	case i >= 0:
		return i, nil
	case slices.ContainsFunc(all, func(s Stream) bool { return s.Name == in.Stream }):
		return 0, protocol.Invalidf("logStreamName: this stream is the log of a task, which only the task writes, and which goes with it")
	}
	return 0, protocol.Failf(protocol.CodeNoResource, "The specified log stream does not exist.")
}

func (l *logs) deleteStream(ctx context.Context, in inStream, _ protocol.Fields) (any, error) {
	return struct{}{}, l.changeStreams(ctx, in, func(r *logGroupRecord, all []Stream) error {
		i, err := putIndex(in, r, all)
		if err == nil {
			r.Streams = slices.Delete(r.Streams, i, i+1)
		}
		return err
	})
}

type putLogEventsIn struct {
	inStream
	Events []putEvent `json:"logEvents"`
}

func (in putLogEventsIn) check() error {
	if n := len(in.Events); n < 1 || n > maxEvents {
		return protocol.Invalidf("logEvents: %d is not 1 to %d", n, maxEvents)
	}
	if slices.ContainsFunc(in.Events, func(e putEvent) bool { return e.Text == "" || e.Time < 0 }) {
		return protocol.Invalidf("logEvents: each has a message, which is not empty, and a timestamp in milliseconds since 1970")
	}
	if !slices.IsSortedFunc(in.Events, byPutTime) {
		return protocol.Invalidf("Log events in a single PutLogEvents request must be in chronological order.")
	}
	return nil
}

func byPutTime(a, b putEvent) int { return cmp.Compare(a.Time, b.Time) }

func (l *logs) putEvents(ctx context.Context, in putLogEventsIn, _ protocol.Fields) (any, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	err := l.changeStreams(ctx, in.inStream, func(r *logGroupRecord, all []Stream) error {
		i, err := putIndex(in.inStream, r, all)
		if err != nil {
			return err
		}
		s := &r.Streams[i]
		s.Events = slices.Concat(s.Events, in.Events)
		slices.SortStableFunc(s.Events, byPutTime)
		size := 0
		for _, s := range r.Streams {
			size += s.size()
		}
		if size > maxPutSize {
			return protocol.Failf("LimitExceededException", "podtask keeps %d KiB of what clients put into the streams of one group: delete streams, or have the task log", maxPutSize>>10)
		}
		return nil
	})
	return struct {
		Token string `json:"nextSequenceToken"`
	}{"0"}, err
}
