package top

import (
	"cmp"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// Stacks finds the stack of a service or a task.
type Stacks struct{ services, tasks map[string]string }

// NewStacks returns the members of stacks.
func NewStacks(all []console.Stack) Stacks {
	s := Stacks{map[string]string{}, map[string]string{}}
	for _, one := range all {
		for _, name := range one.Services {
			s.services[name] = one.Name
		}
		for _, ref := range one.Tasks {
			s.tasks[ref] = one.Name
		}
	}
	return s
}

// OfService returns the stack of a service; empty for none.
func (s Stacks) OfService(name string) string { return s.services[name] }

// OfTask returns the stack of a task; empty for none.
func (s Stacks) OfTask(t Task) string {
	at := func(name string) string {
		if t.Host != "" && name != "" {
			name += "@" + t.Host
		}
		return name
	}
	return cmp.Or(s.services[at(t.Service)], s.tasks[at(t.ID)], s.tasks[at(t.Name)])
}

// recently limits the time for which a task that failed is shown with those that run.
const recently = time.Hour

// FailedLately reports whether a task ended by itself, with a failure, a short time ago. The copies of a service are replaced.
func (t Task) FailedLately(now time.Time) bool {
	failed := t.ExitCode != nil && *t.ExitCode != 0 || t.FailedStart != "" || t.StopCode == lifecycle.StopTaskFailedToStart
	return t.Status == lifecycle.StatusStopped.String() && failed && t.StopCode != lifecycle.StopUserInitiated && t.Service == "" && now.Sub(t.StoppedAt) < recently
}

// line is a line of a list: the heading of a group, or a row.
type line struct {
	heading string
	row     int // negative for a heading
}

// noStack is the heading of what is of no stack.
const noStack = "no stack"

// byStack orders names of stacks; what is of none comes last.
func byStack(a, b string) int {
	if (a == "") != (b == "") {
		return strings.Compare(b, a)
	}
	return strings.Compare(a, b)
}

func stackHeading(c canvas, stack string) string {
	text := "stack " + term.Line(stack)
	if stack == noStack {
		text = noStack
	}
	return c.paint(console.Faint, c.cut("- "+text))
}

// grouped returns the lines of a list of n rows whose groups follow each other. Without groups there are no headings.
func grouped(n int, groupOf func(i int) string) (lines []line) {
	none := true
	for i := range n {
		none = none && groupOf(i) == ""
	}
	for i := range n {
		if group := groupOf(i); !none && (i == 0 || group != groupOf(i-1)) {
			lines = append(lines, line{cmp.Or(group, noStack), -1})
		}
		lines = append(lines, line{row: i})
	}
	return lines
}

// window returns the lines that are shown in room lines around the selected row.
func window(lines []line, selected, room int) []line {
	at := 0
	for i, l := range lines {
		if l.row == selected {
			at = i
		}
	}
	first := max(0, min(at-room/2, len(lines)-room))
	return lines[first:min(first+room, len(lines))]
}
