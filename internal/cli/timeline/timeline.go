// Package timeline draws what each part of a task did and for how long: as bars of text, as
// a picture in SVG, and as a trace for OpenTelemetry. It is pure.
package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Chart is the timeline of a task: a lane for the task, its pod and each container.
type Chart struct {
	Title string
	// From and To are the ends of the time axis; From is before To.
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
	// Failed marks the end of the bar.
	Failed bool
	// Quiet: the bar is only drawn if it failed.
	Quiet bool
}

// Span is a time in one state.
type Span struct {
	State string
	// Activity was done in that state, such as "pull" or "wait for db". Its first word is the kind of the span;
	// if it is empty, the state is.
	Activity string
	Failed   bool
	From, To time.Time
}

// Kind returns the kind of the span, which has its own color and glyph.
func (s Span) Kind() string {
	kind, _, _ := strings.Cut(cmp.Or(s.Activity, s.State), " ")
	return kind
}

// FailedKind is the kind of the mark at the end of a lane that failed.
const FailedKind = "failed"

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
	l.Spans = append(l.Spans, Span{State: state, From: from, To: to})
}

// length returns the time between From and To, at least a millisecond.
func (c Chart) length() time.Duration { return max(c.To.Sub(c.From), time.Millisecond) }

// at returns the position of a time: 0 is From, 1 is To.
func (c Chart) at(t time.Time) float64 {
	return min(1, max(0, float64(t.Sub(c.From))/float64(c.length())))
}

// drawn is the chart without the lanes that are not drawn.
func (c Chart) drawn() Chart {
	c.Lanes = slices.DeleteFunc(slices.Clone(c.Lanes), func(l Lane) bool { return l.Quiet && !l.Failed })
	return c
}

// kinds returns the kinds of the spans in the order of the legend, unknown ones last.
func (c Chart) kinds() []string {
	occurs := map[string]bool{}
	var others []string
	for _, l := range c.Lanes {
		occurs[FailedKind] = occurs[FailedKind] || l.Failed
		for _, s := range l.Spans {
			kind := s.Kind()
			if _, known := styles[kind]; !known && !occurs[kind] {
				others = append(others, kind)
			}
			occurs[kind] = true
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

// style is the glyph and the color of a kind of activity.
type style struct {
	glyph rune
	color string // in SVG; at least three times as bright or dark as a white and a dark background (WCAG 2.2, 1.4.11)
}

// order is the order of kinds in the legend.
var order = []string{"resolve", "pull", "prepare", "create", "wait", "start", "run", "healthy", "unhealthy", "restart", "fault", FailedKind}

// styles has the style of each kind.
var styles = map[string]style{
	"resolve":   {'·', "#7d8797"},
	"pull":      {'▒', "#3b82d6"},
	"prepare":   {'░', "#1f968d"},
	"create":    {'▓', "#7d5bd0"},
	"wait":      {'-', "#a8801f"},
	"start":     {'▄', "#bb5fa8"},
	"run":       {'▆', "#4f9a3a"},
	"healthy":   {'█', "#2b8435"},
	"unhealthy": {'▂', "#d1493f"},
	"restart":   {'~', "#d0661f"},
	"fault":     {'≈', "#8f7412"},
	FailedKind:  {'✗', "#e5484d"},
}

// cut shortens a text to at most width letters, at least one.
func cut(text string, width int) string {
	letters := []rune(text)
	if width = max(width, 1); len(letters) <= width {
		return text
	}
	return string(letters[:width-1]) + "…"
}

func styleOf(kind string) style {
	if l, known := styles[kind]; known {
		return l
	}
	return style{'?', "#8a8f98"}
}

// span formats a duration on an axis, with about three digits.
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
