package top

import (
	"fmt"

	"github.com/podtask/podtask/internal/cli/console"
)

// helpKeys lists all keys with what they do; an empty key begins a group.
var helpKeys = [][2]string{
	{"", "Everywhere"},
	{"arrows, pgup, pgdown, home, end", "move"},
	{"/", "filter by a part of the text; esc clears it"},
	{"? q", "this page; quit"},
	{"", "Lists"},
	{"tab", "tasks, services, schedules"},
	{"enter", "open; of a schedule, its latest run"},
	{"o", "order: age, name, status, cpu, memory, stack"},
	{"a", "show stopped tasks too"},
	{"", "A task"},
	{"tab, 1 2 3", "overview, logs, events"},
	{"f", "hold the logs or follow them"},
	{"s r x", "stop, restart, shell"},
	{"", "A service"},
	{"tab, 1 2", "overview, events"},
	{"c b", "continue a paused deployment; roll back"},
	{"esc", "back"},
}

func drawHelp(c canvas) string {
	lines := []string{c.split("podtask top: keys", "any key goes back")}
	for _, k := range helpKeys {
		if k[0] == "" {
			lines = append(lines, c.paint(console.Bold, c.cut(k[1])))
			continue
		}
		lines = append(lines, c.cut(fmt.Sprintf("  %-33s %s", k[0], k[1])))
	}
	return c.page(lines)
}
