package awslogs

import (
	"slices"
	"time"
	"unicode/utf8"

	"github.com/podtask/podtask/internal/logs/logroute"
)

// The limits of PutLogEvents, and of an event as Docker cuts it: each event counts with 26
// bytes more than its text in UTF-8.
const (
	maxEvents  = 10_000
	maxBytes   = 1_048_576
	perEvent   = 26
	maxSpan    = 24 * time.Hour
	EventBytes = 262_144 - perEvent
)

// event is a log event, with the position behind it.
type event struct {
	text string
	time time.Time
	next logroute.Position
}

func (e event) size() int { return len(e.text) + perEvent }

// batch collects events in the order of the file.
type batch struct {
	multiline func(string) bool // begins an event; nil: each line is one
	events    []event
	bytes     int
	// open is an event of several lines whose end was not seen, with openText.
	open     *event
	openText []byte
	// next is the position behind all that was taken in and is in no event: empty lines.
	next  logroute.Position
	moved bool
}

// add takes in a line.
func (b *batch) add(e logroute.Entry) {
	if b.multiline == nil {
		b.line(e)
		return
	}
	text := valid(e.Text)
	if b.multiline(e.Text) || b.open != nil && len(b.openText)+len(text) > EventBytes {
		b.close()
	}
	if b.open == nil {
		b.open = &event{time: e.Time}
	}
	b.openText = append(b.openText, text...)
	if len(text) < EventBytes {
		b.openText = append(b.openText, '\n')
	}
	b.open.next = e.Next
}

func (b *batch) line(e logroute.Entry) {
	if e.Text == "" {
		b.skip(e.Next)
		return
	}
	b.cut(event{valid(e.Text), e.Time, e.Next})
}

// skip moves the position over what is not sent.
func (b *batch) skip(next logroute.Position) {
	if n := len(b.events); n > 0 {
		b.events[n-1].next = next
		return
	}
	b.next, b.moved = next, true
}

// close ends an event of several lines.
func (b *batch) close() {
	if b.open != nil {
		b.open.text = string(b.openText)
		b.cut(*b.open)
		b.open, b.openText = nil, b.openText[:0]
	}
}

// cut adds an event in parts of at most EventBytes, between characters. All but the last have
// the position before the event: it is acknowledged with its last part.
func (b *batch) cut(e event) {
	before := b.next
	if n := len(b.events); n > 0 {
		before = b.events[n-1].next
	}
	for len(e.text) > EventBytes {
		n := EventBytes
		for !utf8.RuneStart(e.text[n]) {
			n--
		}
		b.append(event{e.text[:n], e.time, before})
		e.text = e.text[n:]
	}
	b.append(e)
}

func (b *batch) append(e event) {
	b.events = append(b.events, e)
	b.bytes += e.size()
}

// full: there is enough for a request.
func (b *batch) full() bool { return b.bytes >= maxBytes || len(b.events) >= maxEvents }

// fits returns the number of the first events that fit into a request, but not more than most.
func (b *batch) fits(most int) int {
	bytes := 0
	var first, last time.Time
	for i, e := range b.events {
		if i == 0 {
			first, last = e.time, e.time
		}
		first, last = earlier(first, e.time), later(last, e.time)
		if bytes += e.size(); i > 0 && (bytes > maxBytes || i >= min(maxEvents, most) || last.Sub(first) >= maxSpan) {
			return i
		}
	}
	return len(b.events)
}

// drop removes the first n events and returns the position behind them.
func (b *batch) drop(n int) logroute.Position {
	next := b.events[n-1].next
	for _, e := range b.events[:n] {
		b.bytes -= e.size()
	}
	b.events = slices.Delete(b.events, 0, n)
	b.next, b.moved = next, false
	return next
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// valid replaces each byte that is not UTF-8, as Docker does.
func valid(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	return string([]rune(text))
}
