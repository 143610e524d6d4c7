package timeline

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// The minimum and maximum columns for bars, and the minimum for a name.
const (
	minBar  = 10
	maxBar  = 200
	minName = 8
)

// ticks is the number of parts of the axis.
const ticks = 4

// Text draws the chart with at most width columns, or its minimum width. Names that are too
// long are cut; lines end with a line feed. Paint may color the glyphs of a kind of activity and
// must not change their width; nil leaves them plain.
func (c Chart) Text(width int, paint func(kind, glyphs string) string) string {
	c = c.drawn()
	if paint == nil {
		paint = plain
	}
	name, note := 0, 0
	for _, l := range c.Lanes {
		name = max(name, utf8.RuneCountInString(l.Name))
		note = max(note, utf8.RuneCountInString(l.Note))
	}
	name = min(name, max(minName, (width-note-4)/2))
	bar := min(maxBar, max(minBar, width-name-note-4))
	var b strings.Builder
	line := func(parts ...string) { b.WriteString(strings.TrimRight(strings.Join(parts, "  "), " ") + "\n") }
	if c.Title != "" {
		line(c.Title)
	}
	line(pad("", name), c.axis(bar))
	for _, l := range c.Lanes {
		note := l.Note
		if l.Failed && note != "" {
			note = paint(FailedKind, note)
		}
		line(pad(cut(l.Name, name), name), c.bar(l, bar, paint), note)
	}
	for _, words := range c.legend(width - name - 2) {
		for i, s := range words {
			words[i] = paint(s, string(styleOf(s).glyph)) + " " + s
		}
		line(pad("", name), strings.Join(words, "  "))
	}
	return b.String()
}

// legend returns the kinds, in lines that fit into width.
func (c Chart) legend(width int) (lines [][]string) {
	used := 0
	for _, s := range c.kinds() {
		need := utf8.RuneCountInString(s) + 4
		if n := len(lines); n > 0 && used+need-2 <= width {
			lines[n-1] = append(lines[n-1], s)
			used += need
			continue
		}
		lines, used = append(lines, []string{s}), need
	}
	return lines
}

// axis returns the line with the times above the bars, the last one at the right end. A time that would touch
// its neighbor is left out.
func (c Chart) axis(width int) string {
	line := []rune(strings.Repeat(" ", width))
	end := c.length()
	put := func(at int, text string) {
		for i := max(0, at-1); i < min(width, at+len(text)+1); i++ {
			if line[i] != ' ' {
				return
			}
		}
		if at+len(text) <= width {
			copy(line[at:], []rune(text))
		}
	}
	put(0, "0s")
	last := span(end)
	put(width-len(last), last)
	for k := 1; k < ticks; k++ {
		put(width*k/ticks, span(end*time.Duration(k)/ticks))
	}
	return string(line)
}

// bar returns the bar of a lane. A column shows the state at its middle. A state that is too short for that is
// shown in its column, unless another short one is.
func (c Chart) bar(l Lane, width int, paint func(state, glyphs string) string) string {
	kinds := make([]string, width)
	short := make([]bool, width)
	for _, s := range l.Spans {
		from, to := c.at(s.From)*float64(width), c.at(s.To)*float64(width)
		seen := false
		for i := range width {
			if middle := float64(i) + 0.5; from <= middle && middle < to && !short[i] {
				kinds[i], seen = s.Kind(), true
			}
		}
		if i := min(width-1, int(from)); !seen && !short[i] {
			kinds[i], short[i] = s.Kind(), true
		}
	}
	if n := len(l.Spans); n > 0 && l.Failed {
		kinds[min(width-1, max(0, int(c.at(l.Spans[n-1].To)*float64(width))-1))] = FailedKind
	}
	var b strings.Builder
	for i := 0; i < width; {
		k := i
		for k < width && kinds[k] == kinds[i] {
			k++
		}
		if kinds[i] == "" {
			b.WriteString(strings.Repeat(" ", k-i))
		} else {
			b.WriteString(paint(kinds[i], strings.Repeat(string(styleOf(kinds[i]).glyph), k-i)))
		}
		i = k
	}
	return b.String()
}

func pad(s string, width int) string {
	return fmt.Sprintf("%-*s", width, s)
}

func plain(_, text string) string { return text }

// Steps lists what each lane did and for how long, in lines of at most width columns; a step
// that is too long for one is cut. Paint is as for Text.
func (c Chart) Steps(width int, paint func(kind, text string) string) string {
	c = c.drawn()
	if paint == nil {
		paint = plain
	}
	name := 0
	for _, l := range c.Lanes {
		name = max(name, utf8.RuneCountInString(l.Name))
	}
	name = min(name, max(minName, width/3))
	var b strings.Builder
	for _, l := range c.Lanes {
		b.WriteString(pad(cut(l.Name, name), name))
		used := name
		for _, s := range l.Spans {
			text := cut(cmp.Or(s.Activity, s.State)+" "+span(s.To.Sub(s.From)), width-name-2)
			if n := utf8.RuneCountInString(text); used > name && used+2+n > width {
				b.WriteString("\n" + pad("", name))
				used = name
			}
			used += 2 + utf8.RuneCountInString(text)
			kind := s.Kind()
			if s.Failed {
				kind = FailedKind
			}
			b.WriteString("  " + paint(kind, text))
		}
		b.WriteString("\n")
	}
	return b.String()
}
