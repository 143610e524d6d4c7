// Package timeline draws how long each part of a task was in each state: as bars of
// text, and as a picture in SVG. It is pure.
package timeline

import (
	"fmt"
	"time"
)

// Chart is what is drawn.
type Chart struct {
	Title string
	// From and To bound the picture; From is before To.
	From, To time.Time
	Lanes    []Lane
}

// Lane is one bar.
type Lane struct {
	Name string
	// Spans are in the order of time and do not overlap.
	Spans []Span
	// Note follows the bar, such as an exit code.
	Note string
}

// Span is a time in one state.
type Span struct {
	State    string
	From, To time.Time
}

// Change is a moment at which a lane entered a state.
type Change struct {
	State string
	At    time.Time
}

// LaneOf returns a lane that starts with the state first at from, goes through changes, and
// ends at to, or when it reaches the state last. A change with an earlier time than the one
// before it gets the time of that one, so spans never go backward.
func LaneOf(name, first, last string, from, to time.Time, changes []Change) Lane {
	l := Lane{Name: name}
	at, state := from, first
	for _, c := range changes {
		if c.At.Before(at) {
			c.At = at
		}
		l.add(state, at, c.At)
		at, state = c.At, c.State
	}
	if state != last {
		l.add(state, at, to)
	}
	return l
}

// add skips empty spans and joins adjacent ones of the same state.
func (l *Lane) add(state string, from, to time.Time) {
	if !from.Before(to) {
		return
	}
	if n := len(l.Spans); n > 0 && l.Spans[n-1].State == state && l.Spans[n-1].To.Equal(from) {
		l.Spans[n-1].To = to
		return
	}
	l.Spans = append(l.Spans, Span{state, from, to})
}

// length is the time the picture shows, never 0.
func (c Chart) length() time.Duration { return max(c.To.Sub(c.From), time.Millisecond) }

// at is the place of a moment between 0, From, and 1, To.
func (c Chart) at(t time.Time) float64 {
	return min(1, max(0, float64(t.Sub(c.From))/float64(c.length())))
}

// states are those that occur, in the order of the look table, others behind.
func (c Chart) states() []string {
	occurs := map[string]bool{}
	var others []string
	for _, l := range c.Lanes {
		for _, s := range l.Spans {
			if _, known := looks[s.State]; !known && !occurs[s.State] {
				others = append(others, s.State)
			}
			occurs[s.State] = true
		}
	}
	var out []string
	for _, name := range order {
		if occurs[name] {
			out = append(out, name)
		}
	}
	return append(out, others...)
}

// look is how a state is drawn.
type look struct {
	glyph  rune
	colour string // of SVG
}

// order is that of the legend.
var order = []string{"NONE", "MANIFEST_PULLED", "PULLED", "CREATED", "RESOURCES_PROVISIONED", "RUNNING", "HEALTHY", "UNHEALTHY", "RESTARTING"}

var looks = map[string]look{
	"NONE":                  {'·', "#d5dae1"},
	"MANIFEST_PULLED":       {'░', "#a9c5e8"},
	"PULLED":                {'▒', "#6f9fd8"},
	"CREATED":               {'▓', "#3f6fb5"},
	"RESOURCES_PROVISIONED": {'▄', "#8f86c9"},
	"RUNNING":               {'▆', "#8cc26b"},
	"HEALTHY":               {'█', "#4c9a2a"},
	"UNHEALTHY":             {'▂', "#d1493f"},
	"RESTARTING":            {'~', "#e3b341"},
}

// cut shortens a text to at most width letters, at least one.
func cut(text string, width int) string {
	letters := []rune(text)
	if width = max(width, 1); len(letters) <= width {
		return text
	}
	return string(letters[:width-1]) + "…"
}

func lookOf(state string) look {
	if l, known := looks[state]; known {
		return l
	}
	return look{'?', "#999999"}
}

// span is a duration on an axis: three digits are enough.
func span(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 100*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	default:
		return d.Round(time.Second).String()
	}
}
