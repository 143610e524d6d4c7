package webui

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/cli/top"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// chip is a status in a word or two, with a color by its kind.
type chip struct {
	// Kind is good, bad, warn, busy or idle.
	Kind, Text string
}

// group is a part of the list of tasks.
type group string

const (
	current  group = "" // what has not stopped, or failed lately
	problems group = "problems"
	waiting  group = "waiting"
	running  group = "running"
	stopped  group = "stopped"
	all      group = "all"
)

// groupNames has the groups in the order of the page.
var groupNames = []struct {
	Group group
	Name  string
}{
	{current, "Current"}, {problems, "Needs attention"}, {waiting, "Waiting"}, {running, "Running"}, {stopped, "Stopped"}, {all, "All"},
}

// row is a task in the list.
type row struct {
	top.Task
	Name   string
	Status []chip
	// Group is the group besides current and all.
	Group group
	// Lately: it has stopped on its own, with a failure, a short time ago.
	Lately bool
	// Why is what it waits for or how it ended; empty for a task of which there is nothing to say.
	Why      string
	Restarts int
	Usage    usage
	Images   []string
	Ports    []port
	// Stack is the one that it is of; empty for none.
	Stack string
	now   time.Time
}

func newRow(t top.Task, host Host, samples []sample, now time.Time) row {
	r := row{Task: t, Name: console.TaskName(t.Task), now: now, Usage: newUsage(t, samples, now)}
	state := console.TaskState(t.Task, cmp.Or(t.QueuedFor, "its turn"))
	health := console.TaskHealth(t.Task)
	failed := t.ExitCode != nil && *t.ExitCode != 0 || t.FailedStart != "" || t.StopCode == lifecycle.StopTaskFailedToStart
	kind := "busy"
	switch {
	case t.Status == lifecycle.StatusStopped.String() && !failed:
		r.Group, kind = stopped, "idle"
	case t.Status == lifecycle.StatusStopped.String():
		r.Group, kind = stopped, "bad"
		r.Lately = t.FailedLately(now)
	case strings.HasPrefix(state, "no owner"), state == "restarting":
		r.Group, kind = problems, "bad"
	case t.Queue != "":
		r.Group, kind = waiting, "warn"
	case state == "running":
		r.Group, kind = running, "good"
	case strings.HasPrefix(state, "running"), state == "paused":
		r.Group, kind = running, "warn"
	default:
		r.Group = waiting
	}
	r.Status = []chip{{kind, state}}
	switch health {
	case "healthy":
		r.Status = append(r.Status, chip{"good", health})
	case "unhealthy":
		r.Status[0].Kind, r.Group = "idle", problems
		r.Status = append(r.Status, chip{"bad", health})
	case "checking":
		r.Status = append(r.Status, chip{"busy", health})
	}
	for _, c := range t.Containers {
		r.Restarts += c.RestartCount
		if !slices.Contains(r.Images, c.Image) {
			r.Images = append(r.Images, c.Image)
		}
	}
	r.Ports = portsOf(t.Task, host)
	r.Why = why(t, r.Group, now)
	return r
}

// Bad: the row has a red edge.
func (r row) Bad() bool { return r.Group == problems || r.Lately }

// In reports whether the row is in a group.
func (r row) In(g group) bool {
	switch g {
	case current:
		return r.Group != stopped || r.Lately
	case problems:
		return r.Group == problems || r.Lately
	case all:
		return true
	}
	return r.Group == g
}

// fits reports whether the row has a text, in any case.
func (r row) fits(text string) bool {
	if text == "" {
		return true
	}
	words := append([]string{r.Name, r.ID, r.Family, r.Service, r.Stack}, r.Images...)
	for _, c := range r.Status {
		words = append(words, c.Text)
	}
	return strings.Contains(strings.ToLower(strings.Join(words, "\n")), strings.ToLower(text))
}

// Title is the name of the task, else its family, and Short then its ID.
func (r row) Title() string { return cmp.Or(r.Task.Name, r.Family, r.Short()) }

// Short is the beginning of the ID of a task without a name.
func (r row) Short() string {
	if r.Task.Name != "" {
		return ""
	}
	return lifecycle.ShortID(r.ID)
}

// Details stand below the title: the ID of a task without a name, the service that it is a copy of, its stack and its host.
func (r row) Details() string {
	var parts []string
	if short := r.Short(); short != "" {
		parts = append(parts, short)
	}
	if r.Service != "" {
		parts = append(parts, "copy of "+r.Service)
	}
	if r.Stack != "" {
		parts = append(parts, "stack "+r.Stack)
	}
	if r.Host != "" {
		parts = append(parts, "on "+r.Host)
	}
	return strings.Join(parts, " · ")
}

// Age is how long ago the task was created.
func (r row) Age() string { return console.ShortSpan(r.now.Sub(r.CreatedAt)) }

// Alarm is what a screen reader is told when it changes.
func (r row) Alarm() string {
	words := make([]string, len(r.Status))
	for i, c := range r.Status {
		words[i] = c.Text
	}
	return strings.Join(words, ", ")
}

// why returns the first reason of a task, and how long it has been true. Of a task that runs as it should, nothing is said.
func why(t top.Task, g group, now time.Time) string {
	if len(t.Why) == 0 || g == running && t.Why[0].Code == lifecycle.WhyRunning || t.Why[0].Code == lifecycle.WhyEnded && t.ExitCode != nil && *t.ExitCode == 0 {
		return ""
	}
	text := reason(t.Why[0], now)
	if t.Place > 0 {
		text = fmt.Sprintf("place %d in the queue: %s", t.Place, text)
	}
	return text
}

// reason returns a reason with its duration and what comes next.
func reason(r api.Reason, now time.Time) string {
	if !r.Since.IsZero() { // the page shows whole seconds
		r.Since = now.Add(-now.Sub(r.Since).Truncate(time.Second))
	}
	if left := r.Until.Sub(now); left > 0 {
		r.Until = now.Add(left.Round(time.Second))
	} else {
		r.Until = time.Time{}
	}
	return console.Reason(r, now)
}

// port is a published port or an address. URL is empty if a browser cannot open it.
type port struct {
	Text, URL, Label string
	// Down: it is not served. Problem says why, or what else is wrong with it.
	Down    bool
	Problem string
}

func portsOf(t api.Task, host Host) (list []port) {
	if t.Status == lifecycle.StatusStopped.String() {
		return nil
	}
	ports := slices.Clone(t.Ports)
	for _, c := range t.Containers {
		for _, p := range c.Ports {
			if !slices.Contains(ports, p) {
				ports = append(ports, p)
			}
		}
	}
	for _, p := range ports {
		if p.HostPort == 0 {
			continue
		}
		one := port{Text: fmt.Sprintf("%d → %d", p.HostPort, p.ContainerPort), Label: fmt.Sprintf("port %d of the host, port %d of the container", p.HostPort, p.ContainerPort)}
		if p.HostIP != "" && !anyAddress(p.HostIP) {
			one.Text = net.JoinHostPort(term.Line(p.HostIP), strconv.Itoa(int(p.HostPort))) + fmt.Sprintf(" → %d", p.ContainerPort)
		}
		if p.Protocol != "" && p.Protocol != "tcp" {
			one.Text += "/" + term.Line(p.Protocol)
		} else {
			one.URL = linkTo(p.HostIP, p.HostPort, host)
		}
		list = append(list, one)
	}
	return list
}

func anyAddress(ip string) bool {
	parsed := net.ParseIP(ip)
	return parsed == nil || parsed.IsUnspecified()
}

// linkTo returns the URL of a TCP port of the host; empty if a browser cannot open it.
func linkTo(ip string, number uint16, host Host) string {
	if !host.Local || number == 0 {
		return ""
	}
	name := "localhost"
	if parsed := net.ParseIP(ip); parsed != nil && !parsed.IsUnspecified() && !parsed.IsLoopback() {
		name = parsed.String()
	}
	return "http://" + net.JoinHostPort(name, strconv.Itoa(int(number))) + "/"
}

// containerChips are the status and the health of a container.
func containerChips(c api.Container) []chip {
	state, health := console.ContainerState(c)
	kind := "idle"
	switch {
	case state == "running":
		kind = "good"
	case state == "paused":
		kind = "warn"
	case state == "starting":
		kind = "busy"
	case state == "restarting", state == "failed", c.ExitCode != nil && *c.ExitCode != 0:
		kind = "bad"
	}
	chips := []chip{{kind, state}}
	switch health {
	case "healthy":
		return append(chips, chip{"good", health})
	case "unhealthy":
		chips[0].Kind = "idle"
		return append(chips, chip{"bad", health})
	case "checking":
		return append(chips, chip{"busy", health})
	}
	return chips
}
