package top

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/term"
)

// schedules is the list of schedules.
type schedules struct {
	items []console.Schedule
	// shown: the schedules are shown, not the tasks.
	shown bool
	// selected is the name of the selected schedule.
	selected string
	filter   filter
}

func (v *schedules) set(items []console.Schedule) {
	v.items = items
	v.move(0)
}

func (v schedules) visible() []console.Schedule {
	return slices.DeleteFunc(slices.Clone(v.items), func(s console.Schedule) bool {
		return !v.filter.fits(s.Name, s.Family, s.State, s.At, s.Result())
	})
}

// move moves the selection by n lines; to the first schedule if the selected one is no longer visible.
func (v *schedules) move(n int) {
	shown := v.visible()
	i := slices.IndexFunc(shown, func(s console.Schedule) bool { return s.Name == v.selected })
	switch {
	case len(shown) == 0:
		v.selected = ""
	case i < 0:
		v.selected = shown[0].Name
	default:
		v.selected = shown[min(max(0, i+n), len(shown)-1)].Name
	}
}

// latest is the task of the latest run of the selected schedule; empty for none.
func (v schedules) latest() string {
	i := slices.IndexFunc(v.items, func(s console.Schedule) bool { return s.Name == v.selected })
	if i < 0 || v.items[i].Last == nil {
		return ""
	}
	return v.items[i].Last.Task
}

func (v schedules) draw(c canvas, footer string) string {
	shown := v.visible()
	var names, times []string
	for _, s := range shown {
		names, times = append(names, s.Name), append(times, s.At)
	}
	table := columns{wantOf(names, 14, max(20, c.width/4)).width, 8, wantOf(times, 10, max(14, c.width/5)).width, 8, 8, 0}
	lines := []string{c.split("podtask top: "+number(len(v.items), "schedule"), c.now.Format("15:04:05")), "",
		c.paint(console.Bold, table.row(c, "  ", "SCHEDULE", "STATE", "AT", "NEXT", "LAST", "RESULT"))}
	at := max(0, slices.IndexFunc(shown, func(s console.Schedule) bool { return s.Name == v.selected }))
	why := ""
	if len(shown) > 0 && shown[at].Last != nil {
		why = c.cut(term.Line(shown[at].Last.Reason))
	}
	rows := grouped(len(shown), func(int) string { return "" })
	for _, l := range window(rows, at, max(1, c.height-listFrame-1)) {
		lines = append(lines, scheduleRow(c, table, shown[l.row], l.row == at))
	}
	switch {
	case len(shown) == 0 && v.filter.text != "":
		lines = append(lines, c.cut("  No schedule matches the filter. Esc clears it."))
	case len(shown) == 0:
		lines = append(lines, c.cut("  There are no schedules. Create one with `podtask schedule create NAME FILE --at TIME`."))
	}
	return c.page(lines, why, footer, c.keys("enter latest run", "/ filter", "tab tasks", "? keys", "q quit"))
}

func scheduleRow(c canvas, table columns, s console.Schedule, selected bool) string {
	next, last := "-", "-"
	if s.Next != nil {
		next = "in " + console.ShortSpan(max(0, s.Next.Sub(c.now)).Round(time.Second))
	}
	if s.Last != nil {
		last = console.ShortSpan(c.now.Sub(s.Last.Due)) + " ago"
	}
	result := s.Result()
	if s.Last != nil && s.Last.Missed > 0 {
		result += fmt.Sprintf(", %d missed", s.Last.Missed)
	}
	mark, ink := rowStyle(selected, s.Kind() == console.Bad)
	return c.paint(ink, table.row(c, mark, s.Name, s.State, cmp.Or(s.At, "-"), next, last, result))
}
