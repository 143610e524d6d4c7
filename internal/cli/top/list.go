package top

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// list is the list of tasks, with its selection and filter.
type list struct {
	tasks []Task
	// selected is the ID of the selected task.
	selected string
	// filter selects tasks by a part of the name, family, status, health, service or ID. It is being entered
	// while typing is set.
	filter string
	typing bool
	all    bool
}

// setTasks replaces the tasks; the selection stays.
func (l *list) setTasks(tasks []Task) {
	l.tasks = tasks
	l.move(0)
}

// visible returns the tasks that match the filter.
func (l list) visible() []Task {
	wanted := strings.ToLower(l.filter)
	return slices.DeleteFunc(slices.Clone(l.tasks), func(t Task) bool {
		if !l.all && t.Status == lifecycle.StatusStopped.String() {
			return true
		}
		text := strings.ToLower(strings.Join([]string{t.Name, t.Family, t.Status, t.Health, t.Service, t.ID}, "\n"))
		return !strings.Contains(text, wanted)
	})
}

// move moves the selection by n lines; to the first task if the selected one is no longer visible.
func (l *list) move(n int) {
	shown := l.visible()
	if len(shown) == 0 {
		l.selected = ""
		return
	}
	i := l.at(shown)
	if shown[i].ID != l.selected {
		n = 0
	}
	l.selected = shown[min(max(0, i+n), len(shown)-1)].ID
}

// at returns the index of the selected task, else 0.
func (l list) at(shown []Task) int {
	return max(0, slices.IndexFunc(shown, func(t Task) bool { return t.ID == l.selected }))
}

// editFilter handles a key while the filter is entered.
func (l *list) editFilter(msg tea.KeyPressMsg) {
	switch keyOf(msg) {
	case "enter":
		l.typing = false
	case "esc":
		l.typing, l.filter = false, ""
	case "backspace":
		_, n := utf8.DecodeLastRuneInString(l.filter)
		l.filter = l.filter[:len(l.filter)-n]
	default:
		l.filter += msg.Text
	}
	l.move(0)
}

// usedBy returns the usage of the containers of a task.
func (l list) usedBy(id string) map[string]Use {
	for _, t := range l.tasks {
		if t.ID == id {
			return t.ContainerUse
		}
	}
	return nil
}

// listFrame is the number of lines that are not tasks: the title, a blank line, the headers, and at the
// bottom the explanation, the notice and the keys.
const listFrame = 6

func (l list) draw(c canvas, footer string) string {
	shown := l.visible()
	lines := []string{l.title(c, len(shown)), "", c.paint(console.Bold, taskColumns.row(c, "  ", "NAME", "STATUS", "HEALTH", "RUN", "CPU", "MEMORY", "AGE"))}
	room := max(1, c.height-listFrame)
	at := l.at(shown)
	first := max(0, min(at-room/2, len(shown)-room))
	for i := first; i < min(first+room, len(shown)); i++ {
		lines = append(lines, taskRow(c, shown[i], i == at))
	}
	why := ""
	if len(shown) == 0 {
		lines = append(lines, "  "+l.empty())
	} else if len(shown[at].Why) > 0 {
		why = term.Line(shown[at].Why[0].Text)
	}
	return c.page(lines, c.cut(why), footer, c.keys("enter open", "l logs", "s stop", "r restart", "x shell", "/ filter", "a all", "q quit"))
}

// empty returns why the list is empty.
func (l list) empty() string {
	switch {
	case l.filter != "":
		return "no task fits the filter; esc clears it"
	case len(l.tasks) > 0:
		return "no task runs; a shows those that have stopped"
	}
	return "there are no tasks"
}

func (l list) title(c canvas, shown int) string {
	running := 0
	for _, t := range l.tasks {
		if t.Status == lifecycle.StatusRunning.String() {
			running++
		}
	}
	tasks := "tasks"
	if len(l.tasks) == 1 {
		tasks = "task"
	}
	text := fmt.Sprintf("podtask top: %d %s, %d running", len(l.tasks), tasks, running)
	if l.filter != "" {
		text += fmt.Sprintf(", %d fit %q", shown, l.filter)
	}
	return c.split(text, c.now.Format("15:04:05"))
}

// taskColumns has the columns of the list. The name gets the remaining space.
var taskColumns = columns{0, 8, 9, 5, 11, 15, 4}

func taskRow(c canvas, t Task, selected bool) string {
	running := 0
	for _, k := range t.Containers {
		if k.Status == lifecycle.StatusRunning.String() && k.RestartAt.IsZero() {
			running++
		}
	}
	status := t.Status
	switch {
	case t.Queue != "":
		status = "queued"
	case !t.Settled && !t.Owner.Alive:
		status = "no owner"
	case t.ExitCode != nil && *t.ExitCode != 0:
		status = "exit " + t.ExitCode.String()
	}
	cpu, memory, tight := useText(t.Use, t.CPU)
	bad := tight || t.Health == lifecycle.HealthUnhealthy.String() || t.ExitCode != nil && *t.ExitCode != 0
	mark, ink := rowStyle(selected, bad)
	age := console.ShortSpan(c.now.Sub(t.CreatedAt))
	return c.paint(ink, taskColumns.row(c, mark, nameOf(t.Task), status, t.Health, fmt.Sprintf("%d/%d", running, len(t.Containers)), cpu, memory, age))
}

// rowStyle returns the mark and the color of a row.
func rowStyle(selected, bad bool) (mark string, ink console.Ink) {
	mark = "  "
	if selected {
		mark, ink = "> ", console.Bold
	}
	if bad {
		ink += console.Red
	}
	return mark, ink
}
