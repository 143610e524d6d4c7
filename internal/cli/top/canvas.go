package top

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/docker/go-units"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/term"
)

// canvas has the size of the screen, and draws text for it.
type canvas struct {
	width, height int
	now           time.Time
	colors        console.Colors
}

func (c canvas) paint(ink console.Ink, text string) string { return c.colors.Paint(ink, text) }

func (c canvas) cut(text string) string { return shorten(text, c.width) }

func (c canvas) keys(words ...string) string {
	return c.paint(console.Faint, c.cut(strings.Join(words, "  ")))
}

// split returns a line with a title and a text at the right edge.
func (c canvas) split(left, right string) string {
	left = shorten(term.Line(left), max(8, c.width-letters(right)-1))
	return c.paint(console.Bold, c.cut(left+strings.Repeat(" ", max(1, c.width-letters(left)-letters(right)))+right))
}

// page returns the whole screen: lines from the top, and bottom at its end.
func (c canvas) page(lines []string, bottom ...string) string {
	room := max(0, c.height-len(bottom))
	lines = lines[:min(len(lines), room)]
	for len(lines) < room {
		lines = append(lines, "")
	}
	return strings.Join(append(lines, bottom...), "\n")
}

// footer returns the question, the filter while it is entered, or the notice.
func (c canvas) footer(q *question, f filter, n notice) string {
	switch {
	case q != nil:
		return c.paint(console.Bold, c.cut(term.Line(q.text)))
	case f.typing:
		return c.paint(console.Bold, c.cut("filter: "+f.text+"_   enter keeps it, esc clears it"))
	case n.bad:
		return c.paint(console.Red, c.cut("error: "+n.text))
	}
	return c.cut(n.text)
}

// columns has the widths of the columns of a table. A column of width 0 gets the remaining space.
type columns []int

func (w columns) row(c canvas, mark string, cells ...string) string {
	rest := c.width - letters(mark)
	for _, n := range w {
		rest -= n + 1
	}
	text := mark
	for i, cell := range cells {
		n := w[i]
		if n == 0 {
			n = max(8, rest+1)
		}
		text += fit(cell, n) + " "
	}
	return c.cut(strings.TrimRight(text, " "))
}

// tightShare is the part of a limit from which on usage is marked.
const tightShare = 0.9

// useText formats CPU and memory with their limits. Tight: little memory is left, which is also marked with
// an exclamation mark.
func useText(u *Use, vcpus float64) (cpu, memory string, tight bool) {
	if u == nil {
		return "-", "-", false
	}
	cpu = fmt.Sprintf("%.0f%%", u.CPUPercent)
	if vcpus > 0 {
		cpu += fmt.Sprintf("/%.0f%%", vcpus*100)
	}
	memory = "-" // Podman has no figure without a cgroup for it
	if u.Memory > 0 {
		memory = amount(u.Memory)
	}
	if u.MemoryLimit > 0 {
		memory += "/" + amount(u.MemoryLimit)
		if tight = float64(u.Memory) >= tightShare*float64(u.MemoryLimit); tight {
			memory += "!"
		}
	}
	return cpu, memory, tight
}

func amount(bytes uint64) string {
	return units.CustomSize("%.3g%s", float64(bytes), 1024, []string{"B", "Ki", "Mi", "Gi", "Ti"})
}

func letters(text string) int { return utf8.RuneCountInString(text) }

// shorten cuts a text to at most width letters.
func shorten(text string, width int) string {
	if letters(text) <= width {
		return text
	}
	return string([]rune(text)[:max(0, width-1)]) + "…"
}

// fit shortens or pads a text to width letters, without what would steer the terminal.
func fit(text string, width int) string {
	text = shorten(term.Line(text), width)
	return text + strings.Repeat(" ", max(0, width-letters(text)))
}

// wrap breaks a text into at most most lines.
func wrap(text string, width, most int) (lines []string) {
	line := ""
	words := strings.Fields(term.Line(text))
	for i, w := range words {
		switch {
		case line == "":
			line = w
		case letters(line)+1+letters(w) <= width:
			line += " " + w
		case len(lines) == most-1:
			return append(lines, shorten(line+" "+strings.Join(words[i:], " "), width))
		default:
			lines, line = append(lines, shorten(line, width)), w
		}
	}
	return append(lines, shorten(line, width))
}
