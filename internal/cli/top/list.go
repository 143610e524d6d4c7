package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// list is the list of tasks, with its selection, filter and order.
type list struct {
	tasks  []Task
	stacks Stacks
	now    time.Time   // of tasks
	hosts  []HostState // none for this machine alone
	// selected is the ID of the selected task.
	selected string
	filter   filter
	// order is an index of taskOrders.
	order int
	all   bool
}

// taskOrders has the orders of the list; the first is that of Source.Tasks.
var taskOrders = []struct {
	name    string
	compare func(a, b Task) int
}{
	{"age", func(Task, Task) int { return 0 }},
	{"name", func(a, b Task) int { return strings.Compare(console.TaskName(a.Task), console.TaskName(b.Task)) }},
	{"status", func(a, b Task) int { return strings.Compare(a.state(), b.state()) }},
	{"cpu", func(a, b Task) int { return cmp.Compare(b.use().CPUPercent, a.use().CPUPercent) }},
	{"memory", func(a, b Task) int { return cmp.Compare(b.use().Memory, a.use().Memory) }},
	{stackOrder, func(Task, Task) int { return 0 }}, // with headings
}

const stackOrder = "stack"

// byStacks: the tasks are shown by their stacks.
func (l list) byStacks() bool { return taskOrders[l.order].name == stackOrder }

func (t Task) state() string { return console.TaskState(t.Task, t.QueuedFor) }

func (t Task) use() Use {
	if t.Use == nil {
		return Use{}
	}
	return *t.Use
}

// setTasks replaces the tasks; the selection stays.
func (l *list) setTasks(tasks []Task) {
	l.tasks = tasks
	l.move(0)
}

// visible returns the tasks that fit the filter, in their order.
func (l list) visible() []Task {
	shown := slices.DeleteFunc(slices.Clone(l.tasks), func(t Task) bool {
		if !l.all && t.Status == lifecycle.StatusStopped.String() && !t.FailedLately(l.now) {
			return true
		}
		return !l.filter.fits(t.Name, t.Family, t.Status, t.state(), t.Health, t.Service, t.ID, t.Host, l.stacks.OfTask(t))
	})
	compare := taskOrders[l.order].compare
	if l.byStacks() {
		compare = func(a, b Task) int { return byStack(l.stacks.OfTask(a), l.stacks.OfTask(b)) }
	}
	slices.SortStableFunc(shown, compare)
	return shown
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

// usedBy returns the usage of the containers of a task.
func (l list) usedBy(id string) map[string]Use {
	for _, t := range l.tasks {
		if t.ID == id {
			return t.ContainerUse
		}
	}
	return nil
}

// listFrame is the number of lines that are neither tasks nor an explanation: the title, a blank line, the headers, and
// at the bottom the notice and the keys.
const listFrame = 5

// listWhyLines limits the explanation of the selected row, in lines.
const listWhyLines = 2

// explanation returns the lines that explain the selected row: what it waits for, how long already, and what comes
// next. There is at least one, which may be empty.
func explanation(c canvas, prefix string, why []api.Reason) []string {
	if len(why) == 0 {
		return []string{""}
	}
	first := why[0]
	if first.Code == lifecycle.WhyRunning { // the column AGE says more
		first.Since = time.Time{}
	}
	return wrap(prefix+console.Reason(first, c.now), c.width, listWhyLines)
}

func (l list) draw(c canvas, footer string) string {
	shown := l.visible()
	head := []string{"NAME", "STATUS", "HEALTH", "RUN", "CPU", "MEMORY", "AGE", "PORTS", "IMAGE"}
	table := l.tableOf(c, shown)
	lines := append([]string{l.title(c, len(shown))}, l.downHosts(c)...)
	lines = append(lines, "", c.paint(console.Bold, l.row(c, table, "  ", "HOST", head)))
	at := l.at(shown)
	why := []string{""}
	if len(shown) > 0 {
		prefix := ""
		if shown[at].Place > 0 {
			prefix = fmt.Sprintf("place %d in the queue: ", shown[at].Place)
		}
		why = explanation(c, prefix, shown[at].Why)
	}
	room := max(1, c.height-listFrame-len(why)-(len(lines)-3))
	rows := grouped(len(shown), func(i int) string {
		if !l.byStacks() {
			return ""
		}
		return l.stacks.OfTask(shown[i])
	})
	for _, one := range window(rows, at, room) {
		if one.row < 0 {
			lines = append(lines, stackHeading(c, one.heading))
			continue
		}
		lines = append(lines, l.taskRow(c, table, shown[one.row], one.row == at))
	}
	if len(shown) == 0 {
		lines = append(lines, c.cut("  "+l.empty()))
	}
	return c.page(lines, append(why, footer, c.keys("enter open", "s stop", "r restart", "x shell", "/ filter", "tab services", "? keys", "q quit"))...)
}

// empty returns why the list is empty.
func (l list) empty() string {
	switch {
	case l.filter.text != "":
		return "No task matches the filter. Esc clears it."
	case len(l.tasks) > 0:
		return "No task is running. Press a to see those that have stopped."
	}
	return "There are no tasks. Run one with `podtask run FILE`."
}

func (l list) title(c canvas, shown int) string {
	running, failed := 0, 0
	for _, t := range l.tasks {
		if t.Status == lifecycle.StatusRunning.String() {
			running++
		}
		if t.FailedLately(l.now) {
			failed++
		}
	}
	text := "podtask top"
	switch len(l.hosts) {
	case 0:
	case 1:
		text += " of " + l.hosts[0].Name
	default:
		text += fmt.Sprintf(" of %d hosts", len(l.hosts))
	}
	text += fmt.Sprintf(": %s, %d running", number(len(l.tasks), "task"), running)
	if failed > 0 {
		text += fmt.Sprintf(", %d failed", failed)
	}
	if l.filter.text != "" {
		text += fmt.Sprintf(", %d fit %q", shown, l.filter.text)
	}
	if l.order > 0 {
		text += ", by " + taskOrders[l.order].name
	}
	return c.split(text, c.now.Format("15:04:05"))
}

// wideScreen is the width from which on ports and images are shown.
const wideScreen = 120

// want is how wide a column should be: as wide as its cells, within limits.
type want struct{ width, least int }

func wantOf(cells []string, least, most int) want {
	w := want{least, least}
	for _, cell := range cells {
		w.width = max(w.width, min(most, letters(cell)))
	}
	return w
}

// downHosts returns a line for each host that does not answer, at most a third of the screen.
func (l list) downHosts(c canvas) (lines []string) {
	for _, h := range l.hosts {
		if h.Why != "" {
			lines = append(lines, c.paint(console.Red, c.cut("  "+term.Line(h.Name)+": "+term.Line(h.Why))))
		}
	}
	if most := max(1, c.height/3); len(lines) > most {
		more := fmt.Sprintf("  and %d more hosts do not answer", len(lines)-most+1)
		lines = append(lines[:most-1], c.paint(console.Red, c.cut(more)))
	}
	return lines
}

// hostColumn is the width of the column of hosts, which is there if there are several.
const hostColumn = 14

// row writes cells, of which those without a column are left out.
func (l list) row(c canvas, table columns, mark, host string, cells []string) string {
	cells = cells[:len(table)]
	if l.several() {
		table, cells = append(columns{hostColumn}, table...), append([]string{host}, cells...)
	}
	return table.row(c, mark, cells...)
}

func (l list) several() bool { return len(l.hosts) > 1 }

// tableOf returns the columns of the list for its tasks. What changes all the time has a fixed width, so that nothing jumps. The name
// gets the remaining space; where there is too little, of images, ports, names and states the widest is cut first.
func (l list) tableOf(c canvas, tasks []Task) columns {
	var names, states, ports, images []string
	for _, t := range tasks {
		names, states = append(names, console.TaskName(t.Task)), append(states, t.state())
		ports, images = append(ports, portsOf(t)), append(images, imagesOf(t))
	}
	name, state := wantOf(names, 12, 40), wantOf(states, 12, 30)
	table := columns{0, 0, 9, 4, 9, 12, 4}
	var published, image want
	if c.width >= wideScreen {
		table = columns{0, 0, 9, 4, 9, 13, 4, 0, 0}
		published, image = wantOf(ports, 12, 48), wantOf(images, 12, 48)
	}
	excess := len("> ") + name.width + state.width + published.width + image.width - c.width
	for _, n := range table {
		excess += n + len(" ")
	}
	if l.several() {
		excess += hostColumn + len(" ")
	}
	for wants := []*want{&image, &published, &name, &state}; excess > 0; excess-- { // each gives up what it has more than others
		widest := slices.MaxFunc(wants, func(a, b *want) int { return cmp.Compare(a.width-a.least, b.width-b.least) })
		if widest.width <= widest.least {
			break
		}
		widest.width--
	}
	table[1] = state.width
	if len(table) > 7 {
		table[7], table[8] = published.width, image.width
	}
	return table
}

func portsOf(t Task) string {
	if t.Status == lifecycle.StatusStopped.String() {
		return ""
	}
	return strings.ReplaceAll(console.PortList(t.Ports), "/tcp", "")
}

// imagesOf returns the images of a task without their registries, each once.
func imagesOf(t Task) string {
	var images []string
	for _, k := range t.Containers {
		image, _, _ := strings.Cut(k.Image, "@")
		if image = image[strings.LastIndex(image, "/")+1:]; !slices.Contains(images, image) {
			images = append(images, image)
		}
	}
	return strings.Join(images, ", ")
}

func (l list) taskRow(c canvas, table columns, t Task, selected bool) string {
	running := 0
	for _, k := range t.Containers {
		if k.Status == lifecycle.StatusRunning.String() && k.RestartAt.IsZero() {
			running++
		}
	}
	cpu, memory, tight := useText(t.Use, t.CPU)
	bad := tight || t.Health == lifecycle.HealthUnhealthy.String() || t.ExitCode != nil && *t.ExitCode != 0 || t.FailedLately(c.now)
	mark, ink := rowStyle(selected, bad)
	age := console.ShortSpan(c.now.Sub(t.CreatedAt))
	cells := []string{console.TaskName(t.Task), t.state(), console.TaskHealth(t.Task), fmt.Sprintf("%d/%d", running, len(t.Containers)), cpu, memory, age, portsOf(t), imagesOf(t)}
	return c.paint(ink, l.row(c, table, mark, t.Host, cells))
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
