package logstreams

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/aws/awsapi/protocol"
)

// place is where an event stands in its stream: a time in milliseconds since 1970, and its
// number among those of that millisecond, from 1. It stays the same while lines are added, and
// when the oldest ones go.
type place struct {
	Time int64 `json:"t"`
	N    int   `json:"n"`
}

func (p place) compare(other place) int {
	return cmp.Or(cmp.Compare(p.Time, other.Time), cmp.Compare(p.N, other.N))
}

// logEvent is a line with its place.
type logEvent struct {
	place
	stream, text string
}

// size is the number of bytes that CloudWatch Logs counts for an event.
func (e logEvent) size() int { return len(e.text) + 26 }

// id is the same at each call, so that clients know an event that they have read already.
func (e logEvent) id() string {
	h := fnv.New64a()
	h.Write([]byte(e.stream))
	return fmt.Sprintf("%016d%020d%020d", e.Time, h.Sum64(), e.N)
}

// eventOrder compares events as FilterLogEvents sorts them.
func eventOrder(a, b logEvent) int {
	return cmp.Or(cmp.Compare(a.Time, b.Time), strings.Compare(a.stream, b.stream), cmp.Compare(a.N, b.N))
}

// period selects events; Start and End are milliseconds since 1970, nil for no bound.
type period struct {
	Start *int64 `json:"startTime"`
	End   *int64 `json:"endTime"`
}

// has reports whether a time is in the period. GetLogEvents leaves End itself out,
// FilterLogEvents has it.
func (p period) has(ms int64, end bool) bool {
	return (p.Start == nil || ms >= *p.Start) && (p.End == nil || ms < *p.End || end && ms == *p.End)
}

// since is where reading begins.
func (p period) since(from place) time.Time {
	ms := from.Time
	if p.Start != nil {
		ms = max(ms, *p.Start)
	}
	if ms <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).Truncate(time.Second)
}

// The bounds of a page of events.
const (
	maxEvents    = 10_000
	maxEventSize = 1 << 20 // in bytes, each event counted with 26 more
)

// errEnough ends the reading of a stream.
var errEnough = errors.New("enough events were read")

// events calls fn for the events of a stream from a time on. Empty lines are none, as with
// the log driver of Docker.
func (l *logs) events(ctx context.Context, s Stream, since time.Time, fn func(logEvent) error) error {
	var last place
	err := l.lines(ctx, s, since, func(line Line) error {
		if line.Text == "" {
			return nil
		}
		if ms := line.Time.UnixMilli(); ms > last.Time { // a clock that is set back is no new time
			last = place{Time: ms}
		}
		last.N++
		return fn(logEvent{last, s.Name, line.Text})
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

type getLogEventsIn struct {
	inGroup
	period
	Stream   string `json:"logStreamName"`
	FromHead bool   `json:"startFromHead"`
	Limit    *int   `json:"limit"`
	Token    string `json:"nextToken"`
}

// logEventDoc is an event in answers.
type logEventDoc struct {
	ID       string `json:"eventId,omitempty"`
	Stream   string `json:"logStreamName,omitempty"`
	Time     int64  `json:"timestamp"`
	Message  string `json:"message"`
	Ingested int64  `json:"ingestionTime"`
}

// eventsAnswer is the answer of GetLogEvents.
type eventsAnswer struct {
	Events   []logEventDoc `json:"events"`
	Forward  string        `json:"nextForwardToken"`
	Backward string        `json:"nextBackwardToken"`
}

// eventToken makes a token of GetLogEvents: f/ and the last event of a page, or b/ and the
// first one.
func eventToken(way string, p place) string { return fmt.Sprintf("%s/%d/%d", way, p.Time, p.N) }

func readEventToken(token string) (forward bool, at place, err error) {
	var way string
	if way, token, _ = strings.Cut(token, "/"); way == "f" || way == "b" {
		if n, err := fmt.Sscanf(token, "%d/%d", &at.Time, &at.N); n == 2 && err == nil {
			return way == "f", at, nil
		}
	}
	return false, at, protocol.Invalidf("nextToken: this is not a token of GetLogEvents")
}

// get reads a page of a stream. Without a token it is the last one, or with startFromHead the
// first one. At either end the token of the request comes again.
func (l *logs) get(ctx context.Context, in getLogEventsIn, _ protocol.Fields) (any, error) {
	if err := protocol.Within("limit", in.Limit, 1, maxEvents); err != nil {
		return nil, err
	}
	_, g, err := l.find(ctx, in.inGroup)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(g.streams, func(s Stream) bool { return s.Name == in.Stream })
	if i < 0 {
		return nil, protocol.Failf(protocol.CodeNoResource, "The specified log stream does not exist.")
	}
	forward, at := in.FromHead, place{}
	if in.Token != "" {
		if forward, at, err = readEventToken(in.Token); err != nil {
			return nil, err
		}
	}
	w := window{limit: maxEvents, first: forward}
	if in.Limit != nil {
		w.limit = *in.Limit
	}
	from := place{}
	if forward {
		from = at
	}
	err = l.events(ctx, g.streams[i], in.since(from), func(e logEvent) error {
		switch {
		case !in.has(e.Time, false):
		case forward && e.compare(at) <= 0:
		case !forward && in.Token != "" && e.compare(at) >= 0:
			return errEnough
		default:
			return w.add(e)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	answer := eventsAnswer{Events: []logEventDoc{}, Forward: eventToken("f", at), Backward: eventToken("b", at)}
	for _, e := range w.events {
		answer.Events = append(answer.Events, logEventDoc{Time: e.Time, Message: e.text, Ingested: e.Time})
	}
	if n := len(w.events); n > 0 {
		answer.Forward, answer.Backward = eventToken("f", w.events[n-1].place), eventToken("b", w.events[0].place)
	}
	return answer, nil
}

// window keeps the first or the last events within the bounds of a page.
type window struct {
	limit  int
	first  bool
	events []logEvent
	size   int
}

// add takes in the next event. It returns errEnough when the first ones are there.
func (w *window) add(e logEvent) error {
	if w.first && len(w.events) > 0 && (len(w.events) == w.limit || w.size+e.size() > maxEventSize) {
		return errEnough
	}
	w.events, w.size = append(w.events, e), w.size+e.size()
	for !w.first && (len(w.events) > w.limit || w.size > maxEventSize && len(w.events) > 1) {
		w.size -= w.events[0].size()
		w.events = w.events[1:]
	}
	return nil
}

type filterLogEventsIn struct {
	inGroup
	period
	Streams []string `json:"logStreamNames"`
	Prefix  string   `json:"logStreamNamePrefix"`
	Pattern string   `json:"filterPattern"`
	Limit   *int     `json:"limit"`
	Token   string   `json:"nextToken"`
}

// filterToken says after which event a page begins, and for which request.
type filterToken struct {
	place
	Stream string `json:"s"`
	For    string `json:"for"`
}

// chosen are the streams of a group that a request names.
func (in filterLogEventsIn) chosen(all []Stream) (some []Stream, err error) {
	if len(in.Streams) > 0 && in.Prefix != "" {
		return nil, protocol.Invalidf("logStreamNames and logStreamNamePrefix cannot be combined")
	}
	if len(in.Streams) > 100 {
		return nil, protocol.Invalidf("logStreamNames: there are %d, more than 100", len(in.Streams))
	}
	for _, name := range in.Streams {
		if !slices.ContainsFunc(all, func(s Stream) bool { return s.Name == name }) {
			return nil, protocol.Failf(protocol.CodeNoResource, "The specified log stream does not exist.")
		}
	}
	for _, s := range all {
		if len(in.Streams) > 0 && slices.Contains(in.Streams, s.Name) || len(in.Streams) == 0 && strings.HasPrefix(s.Name, in.Prefix) {
			some = append(some, s)
		}
	}
	return some, nil
}

// filter reads a page of several streams in the order of time.
func (l *logs) filter(ctx context.Context, in filterLogEventsIn, _ protocol.Fields) (any, error) {
	if err := protocol.Within("limit", in.Limit, 1, maxEvents); err != nil {
		return nil, err
	}
	wanted, err := parsePattern(in.Pattern)
	if err != nil {
		return nil, err
	}
	_, g, err := l.find(ctx, in.inGroup)
	if err != nil {
		return nil, err
	}
	streams, err := in.chosen(g.streams)
	if err != nil {
		return nil, err
	}
	after, err := in.after()
	if err != nil {
		return nil, err
	}
	limit := maxEvents
	if in.Limit != nil {
		limit = *in.Limit
	}
	// Of each stream at most a page is kept, and one event that tells that there are more.
	var all []logEvent
	for _, s := range streams {
		w := window{limit: limit + 1, first: true}
		err := l.events(ctx, s, in.since(after.place), func(e logEvent) error {
			if !in.has(e.Time, true) || !wanted(e.text) || in.Token != "" && eventOrder(e, logEvent{after.place, after.Stream, ""}) <= 0 {
				return nil
			}
			return w.add(e)
		})
		if err != nil {
			return nil, err
		}
		all = append(all, w.events...)
		slices.SortFunc(all, eventOrder)
		all = all[:min(len(all), limit+1)]
	}
	return in.answer(all, limit)
}

// digest tells requests apart, so that a token is not used with another one.
func (in filterLogEventsIn) digest() (string, error) {
	in.Token, in.Limit = "", nil
	return protocol.DigestOf(in, nil)
}

// after reads the token of a request.
func (in filterLogEventsIn) after() (t filterToken, err error) {
	if in.Token == "" {
		return t, nil
	}
	text, err := protocol.ReadToken("FilterLogEvents", in.Token)
	if err != nil {
		return t, err
	}
	digest, err := in.digest()
	if err != nil {
		return t, err
	}
	if json.Unmarshal([]byte(text), &t) != nil || t.For != digest {
		return t, protocol.Invalidf("nextToken: this is not a token of this request")
	}
	return t, nil
}

// answer makes a page of the first events of all.
func (in filterLogEventsIn) answer(all []logEvent, limit int) (any, error) {
	w := window{limit: limit, first: true}
	more := slices.ContainsFunc(all, func(e logEvent) bool { return w.add(e) != nil })
	answer := struct {
		Events   []logEventDoc `json:"events"`
		Searched []struct{}    `json:"searchedLogStreams"`
		Next     string        `json:"nextToken,omitempty"`
	}{[]logEventDoc{}, []struct{}{}, ""}
	for _, e := range w.events {
		answer.Events = append(answer.Events, logEventDoc{ID: e.id(), Stream: e.stream, Time: e.Time, Message: e.text, Ingested: e.Time})
	}
	if !more {
		return answer, nil
	}
	digest, err := in.digest()
	if err != nil {
		return nil, err
	}
	last := w.events[len(w.events)-1]
	text, err := json.Marshal(filterToken{last.place, last.stream, digest})
	if err != nil {
		return nil, err
	}
	answer.Next = protocol.MakeToken("FilterLogEvents", string(text))
	return answer, nil
}

// parsePattern reads a filter pattern: words, and texts in double quotes, all of which an event
// must have.
func parsePattern(pattern string) (fits func(text string) bool, err error) {
	var terms []string
	rest := strings.TrimSpace(pattern)
	if rest != "" && strings.ContainsRune("{[%", rune(rest[0])) {
		return nil, protocol.Invalidf("filterPattern: podtask knows words and texts in double quotes, not %s", protocol.Shortened(rest))
	}
	for rest != "" {
		var term string
		if quoted, ok := strings.CutPrefix(rest, `"`); ok {
			if term, rest, ok = strings.Cut(quoted, `"`); !ok {
				return nil, protocol.Invalidf("filterPattern: a double quote is not closed")
			}
		} else {
			term, rest, _ = strings.Cut(rest, " ")
			if strings.ContainsRune("?-", rune(term[0])) {
				return nil, protocol.Invalidf("filterPattern: podtask has no terms that are optional or excluded: %s", protocol.Shortened(term))
			}
		}
		terms = append(terms, term)
		rest = strings.TrimSpace(rest)
	}
	return func(text string) bool {
		return !slices.ContainsFunc(terms, func(term string) bool { return !strings.Contains(text, term) })
	}, nil
}
