package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
)

// Reason is one thing that a task waits for, or the way it ended.
type Reason struct {
	// Code is a word for scripts: ended, queued, operation, retry, restart, dependency, digests,
	// pod, volumes, inspect, health, unhealthy, paused, stop-order, running, protected, fault,
	// logs-stalled, disk-full, update-waits or no-owner.
	Code string `json:"code"`
	// Container is absent for the task as a whole.
	Container string `json:"container,omitempty"`
	// Text is a sentence with its evidence, without the full stop and without times that pass.
	Text string `json:"text"`
	// Since is the time at which it began, if that is known.
	Since time.Time `json:"since,omitzero"`
	// Until is the time at which something happens by itself, and Then describes it: "podtask tries again". Zero and
	// empty if that is not known.
	Until time.Time `json:"until,omitzero"`
	Then  string    `json:"then,omitempty"`
}

// The codes of a Reason. Scripts rely on them.
const (
	WhyEnded      = "ended"                 // the task has stopped or is removed
	WhyQueued     = "queued"                // the host has no room for it yet
	WhyOperation  = "operation"             // an operation is in flight, or comes next
	WhyOutage     = "podman-not-responding" // Podman does not answer; comes before the others
	WhyRetry      = "retry"                 // an operation failed and is tried again
	WhyRestart    = "restart"               // the container has exited and its policy restarts it
	WhyDependency = "dependency"            // another container comes first
	WhyDigests    = "digests"               // the digest of another image is not known yet
	WhyPod        = "pod"                   // the pod is not ready
	WhyVolumes    = "volumes"               // a container whose volumes it takes is not created yet
	WhyInspect    = "inspect"               // podtask asks Podman for the state of a container or the pod
	WhyHealth     = "health"                // its health check has not passed yet
	WhyUnhealthy  = "unhealthy"             // its health check fails
	WhyPaused     = "paused"                // a user has paused it
	WhyStopOrder  = "stop-order"            // the containers that depend on it stop first
	WhyRunning    = "running"               // it waits for nothing
	WhyProtected  = "protected"             // it has protected itself; comes after the others
	WhyFault      = "fault"                 // its network has a fault that was injected; comes after the others
)

// Explain returns the reasons for which the task waits. It derives the reasons from the facts that Step decides by: of a
// state that Step returned, each reason is true at that moment. The first reason is the one that the others wait for;
// there is always one.
func (s State) Explain() []Reason {
	if s.Settled() {
		return []Reason{explainEnd(s)}
	}
	if r, found := explainOutage(s); found {
		s.OutageSince = time.Time{}
		return append([]Reason{r}, s.Explain()...)
	}
	var own, others, health []Reason
	for i := range s.Containers {
		r, found := explainContainer(s, i)
		if !found {
			continue
		}
		switch r.Code {
		case WhyDependency, WhyDigests, WhyPod, WhyVolumes, WhyStopOrder:
			others = append(others, r)
		case WhyHealth, WhyUnhealthy, WhyPaused:
			health = append(health, r)
		default:
			own = append(own, r)
		}
	}
	var pod []Reason
	if r, found := explainSandbox(s); found {
		pod = []Reason{r}
	}
	if s.Goal == Up {
		// The pod and what a container waits for by itself come before what waits for
		// another container.
		all := slices.Concat(pod, own, others, health)
		if len(all) == 0 {
			all = []Reason{explainRunning(s)}
		}
		if deadline := s.deadline(); !deadline.IsZero() && all[0].Until.IsZero() {
			all[0].Until, all[0].Then = deadline, "its time limit ends"
		}
		if !s.ProtectedUntil.IsZero() {
			all = append(all, Reason{Code: WhyProtected, Text: "it is protected from updates of its service and from drains", Until: s.ProtectedUntil, Then: "the protection ends"})
		}
		return append(all, explainFaults(s)...)
	}
	all := slices.Concat(own, pod, others)
	if len(all) == 0 { // not a state that Step returned
		all = []Reason{{Code: WhyOperation, Text: "it is about to stop", Since: s.Stop.At}}
	}
	all[0].Text = s.Stop.Reason + "; " + all[0].Text
	return append(all, explainFaults(s)...)
}

// Failing is the error of the operations that failed and are tried again while the task comes up; empty if there is
// none. It stays the same while an attempt is under way.
func (s State) Failing() string {
	if s.Goal != Up {
		return ""
	}
	if s.Sandbox.Retry.Last != "" {
		return s.Sandbox.Retry.Last
	}
	for _, c := range s.Containers {
		if c.Retry.Last != "" {
			return c.Retry.Last
		}
	}
	return ""
}

// explainEnd describes the end of the task.
func explainEnd(s State) Reason {
	r := Reason{Code: WhyEnded, Text: s.Stop.Reason, Since: s.Stop.At}
	if s.Goal == Gone {
		r.Text = "removed; before that: " + s.Stop.Reason
	}
	for i, c := range s.Containers {
		if c.EndedAt.After(r.Since) {
			r.Since = c.EndedAt
		}
		name := s.Task.Containers[i].Name
		if f := c.Fatal(); f != "" && !strings.Contains(r.Text, f) {
			r.Text += fmt.Sprintf("; %s: %s", name, f)
		}
		switch grace := graceOf(&s, i); {
		case !c.HasExit || c.StartedAt.IsZero() || name == s.Stop.Container:
		case c.ExitCode == exitKilled && c.Fatal() == "" && grace > 0 && !c.FinishedAt.Before(s.Stop.At.Add(grace)):
			r.Text += fmt.Sprintf("; %s did not exit within %s of its stop signal and was killed (code %d)", name, grace, exitKilled)
		default:
			r.Text += fmt.Sprintf("; %s exited with code %d%s", name, c.ExitCode, signalOf(c.ExitCode))
		}
	}
	return r
}

// signalOf returns the signal that an exit code of 128 and more stands for, in parentheses; empty for others.
func signalOf(code int) string {
	name := map[int]string{130: "SIGINT", 134: "SIGABRT", 137: "SIGKILL", 139: "SIGSEGV", 143: "SIGTERM"}[code]
	if name == "" {
		return ""
	}
	return " (" + name + ")"
}

func explainRunning(s State) Reason {
	running, healthy := 0, ""
	r := Reason{Code: WhyRunning}
	for i, c := range s.Containers {
		if c.Presence == Running {
			running++
		}
		if c.Presence == Running && s.Task.Containers[i].HasHealth() { // else another reason comes before this one
			healthy = " and healthy"
		}
		if c.StartedAt.After(r.Since) {
			r.Since = c.StartedAt
		}
	}
	switch ended := len(s.Containers) - running; {
	case ended == 0 && running == 1:
		r.Text = "its container is up" + healthy
	case ended == 0 && running == 2:
		r.Text = "both containers are up" + healthy
	case ended == 0:
		r.Text = fmt.Sprintf("all %d containers are up%s", running, healthy)
	case running == 1:
		r.Text = fmt.Sprintf("1 of %d containers is up%s, %d finished", len(s.Containers), healthy, ended)
	default:
		r.Text = fmt.Sprintf("%d of %d containers are up%s, %d finished", running, len(s.Containers), healthy, ended)
	}
	return r
}

// explainSandbox returns the reason for which the task as a whole waits; found is false when it waits for containers
// only.
func explainSandbox(s State) (r Reason, found bool) {
	b := s.Sandbox
	next := nextSandbox(&s)
	switch {
	case b.Queue != "":
		return Reason{Code: WhyQueued, Text: "it waits for " + b.Queue}, true
	case b.Op.Busy():
		r := Reason{Code: WhyOperation, Text: sandboxWords[b.Op.Kind].now, Since: b.Op.Since}
		if b.Op.Kind == Inspect {
			r.Code = WhyInspect
		}
		if b.Op.Canceled {
			r.Text = sandboxWords[b.Op.Kind].canceled
		}
		return r, true
	case next == Idle:
		return r, false
	case !b.Retry.NotUntil.IsZero():
		return b.Retry.explain("", sandboxWords[next].move), true
	default:
		return Reason{Code: WhyOperation, Text: "next step: " + sandboxWords[next].move}, true
	}
}

// sandboxWords are the operations of a sandbox in sentences: in flight, canceled, and as
// the subject of a sentence.
var sandboxWords = [numKind]struct{ now, canceled, move string }{
	Admit:   {"podtask is reserving CPU, memory and ports", "it is leaving the queue", "reserving CPU, memory and ports"},
	Prepare: {"Podman is creating its pod", "podtask is canceling the creation of its pod", "creating its pod"},
	Launch:  {"Podman is starting its pod", "podtask is canceling the start of its pod", "starting its pod"},
	Inspect: {"podtask is asking Podman whether its pod is still up", "podtask is canceling the inspection of its pod", "inspecting its pod"},
	Halt:    {"podtask is stopping its pod", "", "stopping its pod"},
	Remove:  {"podtask is removing it", "", "removing it"},
	Release: {"podtask is releasing its CPU, memory and ports", "", "releasing its CPU, memory and ports"},
}

// explain describes a move that is tried again.
func (r Retry) explain(container, move string) Reason {
	n := r.Attempts + r.Persist
	times := "once, error: "
	if n > 1 {
		times = fmt.Sprintf("%d times, last error: ", n)
	}
	return Reason{
		Code: WhyRetry, Container: container, Text: fmt.Sprintf("%s failed %s%s", move, times, r.Last),
		Until: r.NotUntil, Then: "podtask tries again",
	}
}

// explainContainer returns the reason for which a container waits; found is false when it waits for nothing, or only for
// what explainSandbox reports.
func explainContainer(s State, i int) (r Reason, found bool) {
	c, name := s.Containers[i], s.Task.Containers[i].Name
	if c.Op.Busy() && c.Op.Kind != Probe {
		return explainOp(s, i), true
	}
	if c.Op.Kind == Probe && s.Goal != Up {
		return Reason{Code: WhyOperation, Container: name, Text: "podtask is canceling the health check of " + name, Since: c.Op.Since}, true
	}
	next, waits := nextOp(&s, time.Time{}, i)
	switch waits {
	case WhyDigests:
		return explainDigests(s, i)
	case WhyDependency:
		return explainDependency(s, i, s.Unsatisfied(i)[0]), true
	case WhyPod:
		return Reason{Code: WhyPod, Container: name, Text: name + " waits for the pod of the task"}, true
	case WhyVolumes:
		other := s.Task.Containers[awaitsVolumes(&s, i)].Name
		return Reason{Code: WhyVolumes, Container: name, Text: name + " waits for " + other + ", whose volumes it mounts"}, true
	case WhyStopOrder:
		return Reason{Code: WhyStopOrder, Container: name, Text: name + " stops after the containers that depend on it"}, true
	}
	switch {
	case c.Presence == Running && s.Goal == Up && !c.Stale && next != Stop && next != PreStop && next != PostStart:
		return explainHealth(s, i)
	case next == Idle:
		return r, false
	case !c.Retry.NotUntil.IsZero():
		again := c.Retry
		if ref, rest, ok := strings.Cut(again.Last, ": "); ok && strings.HasPrefix(ref, "image ") && strings.HasSuffix(ref, s.Task.Containers[i].Image) {
			again.Last = rest // the move has the image already
		}
		return again.explain(name, moveOf(s, i, next)), true
	case c.Stale:
		return Reason{Code: WhyInspect, Container: name, Text: "podtask is asking Podman for the state of " + name}, true
	case c.awaitsRestart():
		return Reason{
			Code: WhyRestart, Container: name, Text: fmt.Sprintf("%s exited with code %d", name, c.ExitCode),
			Since: c.FinishedAt, Until: c.RestartAt, Then: "podtask restarts it",
		}, true
	default:
		return Reason{Code: WhyOperation, Container: name, Text: "next step: " + moveOf(s, i, next)}, true
	}
}

// moveOf is an operation of a container as the subject of a sentence.
func moveOf(s State, i int, k Kind) string {
	c, def := s.Containers[i], s.Task.Containers[i]
	switch {
	case k == Resolve:
		return fmt.Sprintf("looking up the digest of %s for %s", def.Image, def.Name)
	case k == Pull:
		return fmt.Sprintf("pulling %s for %s", def.Image, def.Name)
	case k == Create:
		return "creating " + def.Name
	case k == Start && c.awaitsRestart():
		return "restarting " + def.Name
	case k == Start:
		return "starting " + def.Name
	case k == PostStart:
		return "the postStart hook of " + def.Name
	case k == PreStop:
		return "the preStop hook of " + def.Name
	case k == Flush:
		return "passing the last lines to " + def.Name
	case k == Stop, s.Goal != Up && c.Presence == Running:
		return "stopping " + def.Name
	default:
		return "inspecting " + def.Name
	}
}

// explainOp describes an operation without an answer.
func explainOp(s State, i int) Reason {
	c, def := s.Containers[i], s.Task.Containers[i]
	r := Reason{Code: WhyOperation, Container: def.Name, Since: c.Op.Since}
	switch c.Op.Kind {
	case Resolve:
		r.Text = fmt.Sprintf("podtask is asking the registry for the digest of %s for %s", def.Image, def.Name)
		if def.RepositoryCredentials != nil {
			r.Text = fmt.Sprintf("podtask is reading the credentials of %[2]s and asking the registry for the digest of %[1]s", def.Image, def.Name)
		}
	case Pull:
		r.Text = fmt.Sprintf("podtask is pulling %s for %s", def.Image, def.Name)
	case Create:
		r.Text = "Podman is creating " + def.Name
	case Start:
		r.Text = "Podman is starting " + def.Name
	case PostStart:
		r.Text = "the postStart hook of " + def.Name + " is running"
	case PreStop:
		r.Text = "the preStop hook of " + def.Name + " is running"
		r.Until, r.Then = c.Hooks.StopSince.Add(graceOf(&s, i)), def.Name+" gets its stop signal"
	case Flush:
		r.Text = def.Name + " is reading the last lines of the containers that log to it"
		r.Until, r.Then = c.Hooks.FlushSince.Add(def.StopTimeout), def.Name+" gets its stop signal"
	case Stop:
		return explainStop(s, i)
	default:
		r.Code, r.Text = WhyInspect, "podtask is asking Podman for the state of "+def.Name
	}
	if n := c.Retry.Attempts; n > 0 {
		r.Text += fmt.Sprintf("; attempt %d, the last error: %s", n+1, c.Retry.Last)
	}
	return r
}

func explainStop(s State, i int) Reason {
	c, def := s.Containers[i], s.Task.Containers[i]
	r := Reason{Code: WhyOperation, Container: def.Name, Since: c.Op.Since}
	if !c.Op.Gentle {
		r.Text = "podtask is killing " + def.Name
		return r
	}
	grace := stopGrace(&s, c.Op.Since, i)
	r.Text = fmt.Sprintf("%s got its stop signal and has %s to exit", def.Name, grace)
	r.Until, r.Then = c.Op.Since.Add(grace), "podtask kills it"
	return r
}

func explainDigests(s State, i int) (Reason, bool) {
	for k, c := range s.Containers {
		if !c.Resolved {
			name, other := s.Task.Containers[i].Name, s.Task.Containers[k].Name
			return Reason{Code: WhyDigests, Container: name, Text: fmt.Sprintf("%s waits for the digest of the image of %s", name, other)}, true
		}
	}
	return Reason{}, false
}

// explainDependency describes the condition of another container, and its progress.
func explainDependency(s State, i int, d taskdef.Dependency) Reason {
	name, on := s.Task.Containers[i].Name, s.Task.Containers[d.Container].Name
	c := s.Containers[d.Container]
	r := Reason{Code: WhyDependency, Container: name, Since: c.StartedAt}
	r.Text = fmt.Sprintf("%s waits for %s %s; ", name, on, d.Condition.Words())
	switch {
	case c.Presence == Running && d.Condition == taskdef.Healthy:
		r.Text += c.HealthCheck().explain(on)
	case c.Presence == Running:
		r.Text += on + " is running"
	case c.StartedAt.IsZero():
		r.Text += on + " has not started"
	default:
		r.Text += fmt.Sprintf("%s is %s", on, strings.ToLower(c.Status().String()))
	}
	if deadline := startDeadline(&s, d.Container); !deadline.IsZero() && d.Condition != taskdef.Start {
		r.Until, r.Then = deadline, "podtask gives up on "+name
	}
	return r
}

func explainHealth(s State, i int) (r Reason, found bool) {
	c, def := s.Containers[i], s.Task.Containers[i]
	if c.Paused {
		return Reason{Code: WhyPaused, Container: def.Name, Text: "the processes of " + def.Name + " are frozen"}, true
	}
	health := c.HealthCheck()
	if !def.HasHealth() || health.Status == HealthHealthy {
		return r, false
	}
	r = Reason{Code: WhyHealth, Container: def.Name, Text: health.explain(def.Name), Since: c.StartedAt}
	if health.Status == HealthUnhealthy {
		r.Code, r.Since = WhyUnhealthy, time.Time{} // when it became so is in the history
	}
	if !c.Op.Busy() && !health.Next.IsZero() {
		r.Until, r.Then = health.Next, "podtask checks again"
	}
	return r, true
}

// explain describes the result of the health check of a running container.
func (h HealthState) explain(container string) string {
	switch {
	case h.Status == HealthHealthy:
		return container + " is healthy"
	case h.Status == HealthUnhealthy:
		return container + " is unhealthy: " + h.reason()
	case h.ExitCode != 0 || h.Output != "":
		return fmt.Sprintf("%s is up, but its health check has not passed yet; the last one %s", container, h.failure())
	default:
		return container + " is up, but its health check has not passed yet"
	}
}
