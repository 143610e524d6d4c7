package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// progress writes a line for each transition of a task: time since a start,
// container, state, and a digest, exit code or reason.
type progress struct {
	out     io.Writer
	colours colours
	// start is what times count from.
	start time.Time
	// seq is the last transition that has been shown.
	seq uint64
	// retries holds the attempts that have been shown of each container.
	retries map[string]int
	// queue is what the task was last shown to wait for.
	queue string
}

// newProgress shows what happens after the transition numbered after.
func newProgress(out io.Writer, c colours, start time.Time, after uint64) *progress {
	return &progress{out: out, colours: c, start: start, seq: after, retries: map[string]int{}}
}

// What the task and its pod are called in the column of containers.
const (
	taskLabel  = "(task)"
	infraLabel = "(pod)"
)

// show writes what is new in t.
func (p *progress) show(t api.Task) {
	width := len(taskLabel)
	index := make(map[string]int, len(t.Containers))
	for i, c := range t.Containers {
		width = max(width, len(c.Name))
		index[c.Name] = i
	}
	for _, h := range t.History {
		if h.Seq <= p.seq {
			continue
		}
		p.seq = h.Seq
		i, known := index[h.Container]
		if !known {
			i = -1
		}
		p.line(h.At, width, i, label(h.Container), h.Status, stateInk(h), detail(h, t))
	}
	if t.Queue != p.queue {
		if p.queue = t.Queue; t.Queue != "" {
			p.line(time.Time{}, width, -1, taskLabel, "queued", faint, "waits for "+oneLine(t.Queue))
		}
	}
	for i, c := range t.Containers {
		if c.Retry == nil {
			delete(p.retries, c.Name)
		} else if c.Retry.Attempts > p.retries[c.Name] {
			p.retries[c.Name] = c.Retry.Attempts
			p.line(time.Time{}, width, i, c.Name, "retry", faint, oneLine(c.Retry.Error))
		}
	}
}

// note writes a line that belongs to no transition.
func (p *progress) note(line string) { fmt.Fprintln(p.out, line) }

// stateWidth is the width of the longest state.
const stateWidth = len("RESOURCES_PROVISIONED")

func (p *progress) line(at time.Time, width, container int, name, state string, of ink, detail string) {
	since := ""
	if !at.IsZero() {
		since = fmt.Sprintf("%.1fs", max(0, at.Sub(p.start)).Seconds())
	}
	line := fmt.Sprintf("%8s  %s  %s  %s", since,
		p.colours.paint(ofContainer(container), pad(name, width)),
		p.colours.paint(of, pad(state, stateWidth)), detail)
	fmt.Fprintln(p.out, strings.TrimRight(line, " "))
}

// pad fills up with blanks, which colours must not be counted in.
func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-len(s)))
}

func label(container string) string {
	switch container {
	case "":
		return taskLabel
	case lifecycle.Infra:
		return infraLabel
	}
	return container
}

func stateInk(h api.Transition) ink {
	switch {
	case h.Status == lifecycle.Restarting, h.Status == lifecycle.HealthUnhealthy.String(), h.ExitCode != nil && *h.ExitCode != 0:
		return red
	case h.Status == lifecycle.StatusRunning.String(), h.Status == lifecycle.HealthHealthy.String():
		return green
	case h.Status == lifecycle.StatusStopped.String() && h.Reason != "" && h.ExitCode == nil:
		return red
	}
	return plain
}

// detail says what is worth knowing of a transition besides its state.
func detail(h api.Transition, t api.Task) string {
	var parts []string
	if h.Digest != "" {
		parts = append(parts, shortDigest(h.Digest))
	}
	if h.ExitCode != nil {
		parts = append(parts, fmt.Sprintf("exit code %d", *h.ExitCode))
	}
	if h.Reason != "" {
		parts = append(parts, oneLine(h.Reason))
	}
	for _, port := range portsOf(t, h) {
		parts = append(parts, portText(port))
	}
	return strings.Join(parts, ", ")
}

// portsOf are the ports that are open from a line of the history on.
func portsOf(t api.Task, h api.Transition) []api.Port {
	own := false
	for _, c := range t.Containers {
		own = own || len(c.Ports) > 0
		if c.Name == h.Container && h.Status == lifecycle.StatusRunning.String() {
			return c.Ports
		}
	}
	if !own && h.Container == lifecycle.Infra && h.Status == lifecycle.StatusResourcesProvisioned.String() {
		return t.Ports
	}
	return nil
}

// portText is a port as podman ps writes it.
func portText(p api.Port) string {
	ip := p.HostIP
	switch {
	case ip == "":
		ip = "0.0.0.0"
	case strings.Contains(ip, ":"):
		ip = "[" + ip + "]"
	}
	return fmt.Sprintf("%s:%d->%d/%s", ip, p.HostPort, p.ContainerPort, p.Protocol)
}

// shortDigest keeps twelve digits.
func shortDigest(d string) string {
	algorithm, hex, ok := strings.Cut(d, ":")
	if !ok {
		return shortID(d)
	}
	return algorithm + ":" + shortID(hex)
}

// shortID is how ids are shown where people read.
func shortID(id string) string { return id[:min(len(id), 12)] }
