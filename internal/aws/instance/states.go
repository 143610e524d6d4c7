package instance

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/aws/instance/wire"
	"github.com/podtask/podtask/pkg/api"
)

// The most that ECS takes, in bytes.
const (
	maxReason = 1024
	maxID     = 255
	maxPorts  = 100
)

// told is what ECS was told of a task, or is going to be told by a queued change.
type told struct {
	// Digests, Running and Stopped are the states of the task that were told.
	Digests bool `json:"digests,omitempty"`
	Running bool `json:"running,omitempty"`
	Stopped bool `json:"stopped,omitempty"`
	// Containers are the states of containers that were told, by name.
	Containers map[string]string `json:"containers,omitempty"`
}

// changes returns what ECS is to be told now of a task, in order, and marks it as told. Gathered:
// changes of single containers have waited for others long enough. Waiting: there are such changes,
// and they wait.
func (r *told) changes(p wire.Task, cluster string, t api.Task, gathered bool) (out []wire.StateChange, waiting bool) {
	if r.Stopped {
		return nil, false
	}
	if r.Containers == nil {
		r.Containers = make(map[string]string)
	}
	v := view{payload: p, task: t, cluster: cluster}
	if !r.Digests && !r.Running && v.resolved() {
		r.Digests = true
		if list := v.digests(); len(list) > 0 {
			out = append(out, v.change(wire.StatusPending, list))
		}
	}
	stopped := t.Status == wire.StatusStopped
	if at := v.runningAt(); !r.Running && !at.IsZero() {
		r.Running = true
		c := v.change(wire.StatusRunning, r.running(v, at))
		c.ManagedAgents = v.managedAgents("ExecuteCommandAgent Initialization failed - podtask has no SSM agent")
		out = append(out, c)
	}
	list := r.changed(v, stopped)
	switch {
	case stopped:
		r.Stopped = true
		c := v.change(wire.StatusStopped, list)
		c.Reason = cut(v.reason(), maxReason)
		c.ManagedAgents = v.managedAgents("Received Container Stopped event")
		for i := range list {
			r.Containers[list[i].ContainerName] = list[i].Status
		}
		return append(out, c), false
	case len(list) == 0:
		return out, false
	case !gathered:
		return out, true
	}
	status := wire.StatusPending
	if r.Running {
		status = wire.StatusRunning
	}
	for _, c := range list {
		r.Containers[c.ContainerName] = c.Status
	}
	return append(out, v.change(status, list)), false
}

// running are the containers of the change to RUNNING at a time: those that ran, and those that had
// ended before.
func (r *told) running(v view, at time.Time) (out []wire.ContainerState) {
	for i := range v.task.Containers {
		c := &v.task.Containers[i]
		status, was := statusOf(*c), r.Containers[c.Name]
		if status == wire.StatusPending || was == wire.StatusStopped {
			continue
		}
		if was != wire.StatusRunning && c.RuntimeID != "" {
			s := v.container(*c, wire.StatusRunning)
			if status == wire.StatusStopped && v.endedBefore(c.Name, at) {
				s.ExitCode = nil // it is in the second entry
			}
			out = append(out, s)
			r.Containers[c.Name] = wire.StatusRunning
		}
		if status == wire.StatusStopped && v.endedBefore(c.Name, at) {
			out = append(out, v.container(*c, wire.StatusStopped))
			r.Containers[c.Name] = wire.StatusStopped
		}
	}
	return out
}

// changed are the containers in another state than ECS was told. All: also those that never ran.
func (r *told) changed(v view, all bool) (out []wire.ContainerState) {
	for _, c := range v.task.Containers {
		status := statusOf(c)
		if all {
			status = wire.StatusStopped
		}
		was := r.Containers[c.Name]
		if was == status || status == wire.StatusPending || was == wire.StatusStopped {
			continue
		}
		if all && was != wire.StatusRunning && v.ran(c) { // ECS is told that it ran, too
			ran := v.container(c, wire.StatusRunning)
			ran.ExitCode = nil
			out = append(out, ran)
		}
		out = append(out, v.container(c, status))
	}
	return out
}

// view is a task as the agent has it, beside what ECS asked for.
type view struct {
	payload wire.Task
	task    api.Task
	cluster string
}

// statusOf is the state of a container in the words of ECS.
func statusOf(c api.Container) string {
	switch c.Status {
	case "RUNNING", "RESOURCES_PROVISIONED":
		return wire.StatusRunning
	case "STOPPED":
		return wire.StatusStopped
	}
	return wire.StatusPending
}

// resolved reports whether the image of each container is known.
func (v view) resolved() bool {
	return len(v.task.Containers) > 0 && !slices.ContainsFunc(v.task.Containers, func(c api.Container) bool {
		return c.Status == "NONE" || c.Status == "STOPPED" && c.ImageDigest == "" && c.RuntimeID == ""
	})
}

// digests are the containers whose digest the registry has told: it is not in the definition.
func (v view) digests() (out []wire.ContainerState) {
	for _, c := range v.task.Containers {
		if c.ImageDigest != "" && !strings.Contains(c.Image, "@") {
			out = append(out, wire.ContainerState{ContainerName: c.Name, ImageDigest: cut(c.ImageDigest, maxID), Status: wire.StatusPending})
		}
	}
	return out
}

// runningAt is the time at which the task first ran; zero if it did not.
func (v view) runningAt() time.Time {
	for _, h := range v.task.History {
		if h.Container == "" && h.Status == wire.StatusRunning {
			return h.At
		}
	}
	return time.Time{}
}

// ran reports whether a container has been started.
func (v view) ran(c api.Container) bool {
	return c.RuntimeID != "" && slices.ContainsFunc(v.task.History, func(h api.Transition) bool {
		return h.Container == c.Name && h.Status == wire.StatusRunning
	})
}

func (v view) endedBefore(container string, at time.Time) bool {
	for _, h := range v.task.History {
		if h.Container == container && h.Status == wire.StatusStopped {
			return h.At.Before(at)
		}
	}
	return false
}

// change is a change of the task with what is in all of them.
func (v view) change(status string, containers []wire.ContainerState) wire.StateChange {
	c := wire.StateChange{Cluster: v.cluster, Task: v.payload.ARN, Status: status, Containers: containers}
	begun, ended := v.pulls()
	c.PullStartedAt, c.PullStoppedAt = wire.At(begun), wire.At(ended)
	if slices.ContainsFunc(containers, func(c wire.ContainerState) bool { return c.Status == wire.StatusStopped }) || status == wire.StatusStopped {
		c.ExecutionStoppedAt = wire.At(v.executionStopped())
	}
	return c
}

// pulls are the times between which images were pulled: from the first digest to the last image.
func (v view) pulls() (begun, ended time.Time) {
	for _, h := range v.task.History {
		i := slices.IndexFunc(v.task.Containers, func(c api.Container) bool { return c.Name == h.Container })
		if i < 0 || v.task.Containers[i].ImageSource != "registry" {
			continue
		}
		switch h.Status {
		case "MANIFEST_PULLED":
			if begun.IsZero() {
				begun = h.At
			}
		case "PULLED":
			if begun.IsZero() {
				begun = h.At
			}
			ended = h.At
		}
	}
	return begun, ended
}

// executionStopped is the time at which the first essential container ended, or the task if none did.
func (v view) executionStopped() (at time.Time) {
	for _, h := range v.task.History {
		i := slices.IndexFunc(v.task.Containers, func(c api.Container) bool { return c.Name == h.Container })
		if i < 0 || h.Status != wire.StatusStopped || !v.task.Containers[i].Essential {
			continue
		}
		end := v.task.Containers[i].FinishedAt
		if end.IsZero() {
			end = h.At
		}
		if at.IsZero() || end.Before(at) {
			at = end
		}
	}
	if at.IsZero() && v.task.Status == wire.StatusStopped {
		at = v.task.StoppedAt
	}
	return at
}

// container is the state of a container.
func (v view) container(c api.Container, status string) wire.ContainerState {
	s := wire.ContainerState{ContainerName: c.Name, Status: status, RuntimeID: cut(c.RuntimeID, maxID), NetworkBindings: v.bindings(c)}
	s.ImageDigest = cut(c.ImageDigest, maxID)
	if c.ExitCode != nil && c.RuntimeID != "" {
		code := int(*c.ExitCode)
		s.ExitCode = &code
	}
	if status == wire.StatusStopped {
		s.Reason = cut(c.Reason, maxReason)
	}
	return s
}

// bindings are the published ports of a container. In a task whose containers share one network
// namespace, they are those of the ports that the container maps.
func (v view) bindings(c api.Container) (out []wire.Binding) {
	if v.task.NetworkMode == "host" {
		return nil
	}
	ports := c.Ports
	if len(ports) == 0 {
		i := slices.IndexFunc(v.payload.Containers, func(p wire.Container) bool { return p.Name == c.Name })
		if i < 0 {
			return nil
		}
		for _, p := range v.task.Ports {
			if slices.ContainsFunc(v.payload.Containers[i].PortMappings, func(m wire.PortMapping) bool { return isOf(m, p) }) {
				ports = append(ports, p)
			}
		}
	}
	for _, p := range ports[:min(len(ports), maxPorts)] {
		out = append(out, wire.Binding{BindIP: cmp.Or(p.HostIP, "0.0.0.0"), ContainerPort: p.ContainerPort, HostPort: p.HostPort, Protocol: p.Protocol})
	}
	return out
}

// isOf reports whether a mapping is that of a published port.
func isOf(m wire.PortMapping, p api.Port) bool {
	if cmp.Or(m.Protocol, "tcp") != p.Protocol {
		return false
	}
	if m.ContainerPortRange == "" {
		return m.ContainerPort == p.ContainerPort
	}
	first, last, ok := portRange(m.ContainerPortRange)
	return ok && first <= p.ContainerPort && p.ContainerPort <= last
}

// reason is what went wrong with the task itself. Why a task ended otherwise, ECS knows from its
// containers.
func (v view) reason() string {
	for _, e := range v.task.Errors {
		if !e.Tolerated {
			return strings.TrimPrefix(e.Name+": "+e.Message, ": ")
		}
	}
	return ""
}

// managedAgents are the programs that ECS wanted in containers. There are none here.
func (v view) managedAgents(why string) (out []wire.ManagedAgentState) {
	for _, c := range v.payload.Containers {
		for _, a := range c.ManagedAgents {
			out = append(out, wire.ManagedAgentState{ContainerName: c.Name, Name: a.Name, Reason: cut(why, maxReason), Status: wire.StatusStopped})
		}
	}
	return out
}

// never is the end of a task that never ran. The reasons are those of containers, by name.
func never(p wire.Task, cluster, reason string, reasons map[string]string, at time.Time) wire.StateChange {
	c := wire.StateChange{Cluster: cluster, Task: p.ARN, Status: wire.StatusStopped, Reason: cut(reason, maxReason)}
	if len(p.Containers) > 0 {
		c.ExecutionStoppedAt = wire.At(at)
	}
	for _, k := range p.Containers {
		c.Containers = append(c.Containers, wire.ContainerState{ContainerName: k.Name, Reason: cut(reasons[k.Name], maxReason), Status: wire.StatusStopped})
	}
	return c
}

// portRange reads FIRST-LAST.
func portRange(text string) (first, last uint16, ok bool) {
	a, b, ok := strings.Cut(text, "-")
	x, err1 := strconv.ParseUint(a, 10, 16)
	y, err2 := strconv.ParseUint(b, 10, 16)
	return uint16(x), uint16(y), ok && err1 == nil && err2 == nil
}

// cut shortens a text to a number of bytes, at the end of a character.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "")
}
