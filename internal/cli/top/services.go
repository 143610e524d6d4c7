package top

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/api"
)

// services is the list of services, and the one that is open.
type services struct {
	items  []api.Service
	stacks Stacks
	// shown: the services are shown, not the tasks.
	shown bool
	// selected is the name of the selected service, opened is set while its page is shown.
	selected string
	opened   bool
	filter   filter
	part     int
	// up is the distance in lines from the end of the events, down from the beginning of the overview.
	up, down int
}

// set replaces the services; the selection stays.
func (v *services) set(items []api.Service) {
	v.items = items
	if !v.opened {
		v.move(0)
	}
}

// visible returns the services that fit the filter, by stack.
func (v services) visible() []api.Service {
	shown := slices.DeleteFunc(slices.Clone(v.items), func(s api.Service) bool {
		return !v.filter.fits(s.ServiceName, s.TaskDefinition, serviceState(s), v.stacks.OfService(s.ServiceName))
	})
	slices.SortStableFunc(shown, func(a, b api.Service) int {
		return byStack(v.stacks.OfService(a.ServiceName), v.stacks.OfService(b.ServiceName))
	})
	return shown
}

// current returns the selected service; found is false if it is gone.
func (v services) current() (s api.Service, found bool) {
	i := slices.IndexFunc(v.items, func(s api.Service) bool { return s.ServiceName == v.selected })
	if i < 0 {
		return api.Service{ServiceName: v.selected, Status: "removed"}, false
	}
	return v.items[i], true
}

// move moves the selection by n lines; to the first service if the selected one is no longer visible.
func (v *services) move(n int) {
	shown := v.visible()
	i := slices.IndexFunc(shown, func(s api.Service) bool { return s.ServiceName == v.selected })
	switch {
	case len(shown) == 0:
		v.selected = ""
	case i < 0:
		v.selected = shown[0].ServiceName
	default:
		v.selected = shown[min(max(0, i+n), len(shown)-1)].ServiceName
	}
}

// scroll scrolls the open page by n lines.
func (v *services) scroll(n int) {
	if v.part == overview {
		v.down = max(0, v.down+n)
	} else {
		v.up = max(0, v.up-n)
	}
}

// serviceColumns returns the columns of the list of services: as wide as their cells, within limits. The addresses get
// the remaining space.
func serviceColumns(c canvas, all []api.Service) columns {
	var names, states, revisions []string
	for _, s := range all {
		names, states, revisions = append(names, s.ServiceName), append(states, serviceState(s)), append(revisions, s.TaskDefinition)
	}
	most := 16
	if c.width >= wideScreen {
		most = 32
	}
	return columns{wantOf(names, 14, most+4).width, wantOf(states, 8, 20).width, 7, wantOf(revisions, 12, most).width, 0, 4}
}

func (v services) draw(c canvas, footer string) string {
	shown := v.visible()
	table := serviceColumns(c, shown)
	lines := []string{c.split(fmt.Sprintf("podtask top: %s", number(len(v.items), "service")), c.now.Format("15:04:05")), "",
		c.paint(console.Bold, table.row(c, "  ", "SERVICE", "STATUS", "HEALTHY", "REVISION", "ADDRESSES", "AGE"))}
	at := max(0, slices.IndexFunc(shown, func(s api.Service) bool { return s.ServiceName == v.selected }))
	why := []string{""}
	if len(shown) > 0 {
		why = explanation(c, "", shown[at].Why)
	}
	room := max(1, c.height-listFrame-len(why))
	rows := grouped(len(shown), func(i int) string { return v.stacks.OfService(shown[i].ServiceName) })
	for _, l := range window(rows, at, room) {
		if l.row < 0 {
			lines = append(lines, stackHeading(c, l.heading))
			continue
		}
		lines = append(lines, serviceRow(c, table, shown[l.row], l.row == at))
	}
	switch {
	case len(shown) == 0 && v.filter.text != "":
		lines = append(lines, c.cut("  No service matches the filter. Esc clears it."))
	case len(shown) == 0:
		lines = append(lines, c.cut("  There are no services. Create one with `podtask service create NAME FILE`."))
	}
	return c.page(lines, append(why, footer, c.keys("enter open", "c continue", "b roll back", "/ filter", "tab schedules", "? keys", "q quit"))...)
}

func serviceRow(c canvas, table columns, s api.Service, selected bool) string {
	state, kind := console.ServiceState(s)
	mark, ink := rowStyle(selected, kind == console.Bad || s.Status == "ACTIVE" && s.HealthyCount < min(1, s.DesiredCount) && s.Sleep != api.SleepAsleep)
	healthy := fmt.Sprintf("%d/%d", s.HealthyCount, s.DesiredCount)
	if state == api.SleepAsleep {
		ink += console.Faint
		healthy = "-"
	}
	return c.paint(ink, table.row(c, mark, s.ServiceName, state, healthy,
		s.TaskDefinition, strings.Join(addresses(s), ", "), console.ShortSpan(c.now.Sub(s.CreatedAt))))
}

// addresses returns where a service is reached, the public ones first.
func addresses(s api.Service) (all []string) {
	for _, i := range s.Ingress {
		all = append(all, i.URL)
	}
	for _, l := range s.Listeners {
		all = append(all, l.Address)
	}
	for _, n := range s.Names {
		all = append(all, nameOf(n))
	}
	return all
}

// nameOf returns NAME:PORT of a name of a service; NAME if it has the port of the container.
func nameOf(n api.ServiceName) string {
	if n.Port == 0 {
		return n.Name
	}
	return fmt.Sprintf("%s:%d", n.Name, n.Port)
}

func serviceState(s api.Service) string {
	words, _ := console.ServiceState(s)
	return words
}

// drawPage draws the page of the selected service.
func (v *services) drawPage(c canvas, footer string) string {
	s, _ := v.current()
	right := ""
	for i, name := range []string{"overview", "events"} {
		if i == min(v.part, 1) {
			right += fmt.Sprintf("[%d %s]", i+1, name)
		} else {
			right += fmt.Sprintf(" %d %s ", i+1, name)
		}
	}
	lines := []string{c.split(s.ServiceName+"  "+serviceState(s), right)}
	if len(s.Why) > 0 {
		lines = append(lines, wrap(console.Reason(s.Why[0], c.now), c.width, maxWhyLines)...)
	}
	lines = append(lines, "")
	room := max(1, c.height-len(lines)-2)
	if v.part == overview {
		body := serviceOverview(c, s)
		v.down = min(v.down, max(0, len(body)-room))
		lines = append(lines, body[v.down:min(len(body), v.down+room)]...)
	} else {
		body := serviceEvents(c, s)
		v.up = min(v.up, max(0, len(body)-room))
		last := len(body) - v.up
		lines = append(lines, body[max(0, last-room):last]...)
	}
	return c.page(lines, footer, c.keys("esc back", "tab next", "arrows move", "c continue", "b roll back", "? keys", "q quit"))
}

var (
	// revisionColumns has the columns of the revisions of a service. The connections get the remaining space.
	revisionColumns = columns{20, 6, 22, 0}
	copyColumns     = columns{26, 10, 10, 4, 0}
)

// serviceOverview returns the picture of a deployment: the copies of each revision, and its part of the connections;
// then hooks, listeners and copies.
func serviceOverview(c canvas, s api.Service) []string {
	p := console.ProgressOf(s)
	lines := []string{c.paint(console.Bold, revisionColumns.row(c, "  ", "REVISION", "SET", "HEALTHY COPIES", "CONNECTIONS"))}
	for _, d := range s.Deployments {
		set, share := "", -1.0
		switch {
		case p == nil && len(s.Deployments) > 1:
			set = map[bool]string{true: "new", false: "old"}[d.Status == "PRIMARY"]
		case p == nil && d.Status == "PRIMARY":
			share = 100
		case p == nil:
		case d.ID == p.Green:
			set, share = "green", p.Percent
		case d.ID == p.Blue:
			set, share = "blue", 100-p.Percent
		}
		if p != nil && s.DeploymentConfiguration.Strategy == "ROLLING" {
			set, share = map[string]string{"green": "new", "blue": "old"}[set], -1 // each healthy copy has the same part
		}
		want := max(d.DesiredCount, d.RunningCount+d.PendingCount)
		copies := fmt.Sprintf("%s %d/%d", bar(float64(d.HealthyCount)/float64(max(1, want)), 14), d.HealthyCount, want)
		connections := ""
		if share >= 0 && len(addresses(s)) > 0 {
			connections = fmt.Sprintf("%s %.3g %%", bar(share/100, max(8, c.width-62)), share)
		}
		_, ink := rowStyle(false, d.RolloutState == "FAILED")
		lines = append(lines, c.paint(ink, revisionColumns.row(c, "  ", d.TaskDefinition, set, copies, connections)))
		if d.RolloutStateReason != "" {
			lines = append(lines, c.paint(console.Faint, c.cut("    "+term.Line(d.RolloutStateReason))))
		}
	}
	if p != nil {
		stage := "stage " + p.Stage + ", for " + console.Span(c.now.Sub(p.Since))
		if left := p.Until.Sub(c.now); !p.Until.IsZero() && left > 0 {
			stage += ", " + console.Span(left) + " left"
		}
		lines = append(lines, "", c.cut("  "+term.Line(stage)))
		for _, h := range p.Hooks {
			text := fmt.Sprintf("hook %s in %s: %s", h.Hook, h.Stage, strings.ToLower(strings.ReplaceAll(h.Status, "_", " ")))
			if h.Status == "IN_PROGRESS" || h.Status == "AWAITING_ACTION" {
				text += ", " + console.Span(c.now.Sub(h.StartedAt)) + " of " + console.Span(h.ExpiresAt.Sub(h.StartedAt))
			}
			_, ink := rowStyle(false, h.Status == "FAILED" || h.Status == "TIMED_OUT")
			lines = append(lines, c.paint(ink, c.cut("  "+term.Line(text+" "+h.Reason))))
		}
	}
	lines = append(lines, "")
	if all := addressLines(c, s); len(all) > 0 {
		lines = append(append(lines, all...), "")
	}
	lines = append(lines, c.paint(console.Bold, copyColumns.row(c, "  ", "COPY", "STATUS", "HEALTH", "AGE", "REASON")))
	for _, t := range slices.Backward(s.Tasks) {
		_, ink := rowStyle(false, t.Health == "UNHEALTHY" || t.Failed)
		lines = append(lines, c.paint(ink, copyColumns.row(c, "  ", t.Name, console.CopyState(t), console.CopyHealth(t), console.ShortSpan(c.now.Sub(t.CreatedAt)), t.Reason)))
	}
	return lines
}

// addressLines has a line for each address and name of a service, and where it leads.
func addressLines(c canvas, s api.Service) (lines []string) {
	add := func(down bool, text string) {
		_, ink := rowStyle(false, down)
		lines = append(lines, c.paint(ink, c.cut("  "+term.Line(text))))
	}
	for _, i := range s.Ingress {
		add(i.Down, fmt.Sprintf("%s -> %s:%d %s", i.URL, i.ContainerName, i.ContainerPort, i.Problem))
	}
	for _, l := range s.Listeners {
		add(l.Problem != "", fmt.Sprintf("%s -> %s:%d %s", l.Address, l.ContainerName, l.ContainerPort, l.Problem))
	}
	for _, l := range s.TestListeners {
		add(l.Problem != "", fmt.Sprintf("%s -> %s:%d (test) %s", l.Address, l.ContainerName, l.ContainerPort, l.Problem))
	}
	for _, n := range s.Names {
		lines = append(lines, c.cut("  "+term.Line(fmt.Sprintf("%s (name in the namespace %s)", nameOf(n), s.Namespace))))
	}
	return lines
}

func serviceEvents(c canvas, s api.Service) (lines []string) {
	for _, e := range s.Events {
		lines = append(lines, c.cut(e.CreatedAt.Local().Format("15:04:05")+"  "+console.ServiceEvent(s.ServiceName, e.Message)))
	}
	return lines
}

// bar draws a part from 0 to 1 in width letters.
func bar(part float64, width int) string {
	full := int(math.Round(min(max(0, part), 1) * float64(width)))
	return strings.Repeat("█", full) + strings.Repeat("░", width-full)
}

// number returns a number with a noun.
func number(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
