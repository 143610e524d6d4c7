package lifecycle

import (
	"fmt"
	"strings"
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
)

// Reason says what a task waits for, or how it ended.
type Reason struct {
	// Code is one of the Why* codes.
	Code string `json:"code"`
	// Container is empty for the task as a whole.
	Container string `json:"container,omitempty"`
	// Text is a sentence with its evidence, without the full stop and without times
	// that pass.
	Text string `json:"text"`
	// Since is when it began, where that is known.
	Since time.Time `json:"since,omitzero"`
	// Until is when something happens by itself, and Then says what: "it is tried
	// again". Zero and empty where nobody can tell.
	Until time.Time `json:"until,omitzero"`
	Then  string    `json:"then,omitempty"`
}

// The codes of a Reason. Scripts rely on them.
const (
	WhyEnded      = "ended"      // the task has stopped or is removed
	WhyQueued     = "queued"     // there is no room for it yet
	WhyOperation  = "operation"  // something was asked for and has not answered
	WhyRetry      = "retry"      // something failed and is tried again
	WhyDependency = "dependency" // another container is to do something first
	WhyDigests    = "digests"    // the digest of another image is not known yet
	WhyPod        = "pod"        // the pod is not ready
	WhyInspect    = "inspect"    // what is true of a container is being looked into
	WhyHealth     = "health"     // its health check has not passed yet
	WhyUnhealthy  = "unhealthy"  // its health check fails
	WhyPaused     = "paused"     // somebody has frozen it
	WhyStopOrder  = "stop-order" // those that depend on it stop first
	WhyRunning    = "running"    // nothing is waited for: it runs
)

// Explain says what the task waits for, from the facts that Step decides by. The
// first reason is the one that the others wait for; there is always one.
func (s State) Explain() []Reason {
	switch {
	case s.Settled():
		return []Reason{s.explainEnd()}
	case s.Goal != Up:
		return s.explainDown()
	default:
		return s.explainUp()
	}
}

// explainEnd says how the task ended.
func (s State) explainEnd() Reason {
	r := Reason{Code: WhyEnded, Text: s.Stop.Reason, Since: s.Stop.At}
	if s.Goal == Gone {
		r.Text = "it is removed; it had stopped: " + s.Stop.Reason
	}
	for i, c := range s.Containers {
		if c.EndedAt.After(r.Since) {
			r.Since = c.EndedAt
		}
		name := s.Task.Containers[i].Name
		if f := c.Fatal(); f != "" && !strings.Contains(r.Text, f) {
			r.Text += fmt.Sprintf("; %s: %s", name, f)
		}
		if c.HasExit && !c.StartedAt.IsZero() && name != s.Stop.Container {
			r.Text += fmt.Sprintf("; %s exited with code %d", name, c.ExitCode)
		}
	}
	return r
}

// explainUp: what a container waits for by itself comes before what waits for
// another container, so that the first reason is the root of the others.
func (s State) explainUp() []Reason {
	var own, others, health []Reason
	for i := range s.Containers {
		r, found := s.explainContainer(i)
		switch {
		case !found:
		case r.Code == WhyDependency || r.Code == WhyDigests || r.Code == WhyPod:
			others = append(others, r)
		case r.Code == WhyHealth || r.Code == WhyUnhealthy || r.Code == WhyPaused:
			health = append(health, r)
		default:
			own = append(own, r)
		}
	}
	var all []Reason
	if r, found := s.explainSandbox(); found {
		all = append(all, r)
	}
	all = append(all, own...)
	all = append(all, others...)
	all = append(all, health...)
	if len(all) == 0 {
		all = append(all, s.explainRunning())
	}
	return all
}

func (s State) explainRunning() Reason {
	running := 0
	r := Reason{Code: WhyRunning}
	for _, c := range s.Containers {
		if c.Presence == Running {
			running++
		}
		if c.StartedAt.After(r.Since) {
			r.Since = c.StartedAt
		}
	}
	r.Text = fmt.Sprintf("it waits for nothing: %d of %d containers run", running, len(s.Containers))
	if ended := len(s.Containers) - running; ended > 0 {
		r.Text += fmt.Sprintf(", %d did their work and ended", ended)
	}
	return r
}

// explainSandbox says what the task as a whole waits for on its way up.
func (s State) explainSandbox() (Reason, bool) {
	b := s.Sandbox
	switch {
	case b.Queue != "":
		return Reason{Code: WhyQueued, Text: "it is queued and waits for " + b.Queue}, true
	case b.Op.Busy() && b.Op.Kind == Prepare:
		return Reason{Code: WhyOperation, Text: "Podman is making its pod", Since: b.Op.Since}, true
	case b.Op.Busy() && b.Op.Kind == Inspect:
		return Reason{Code: WhyInspect, Text: "whether its pod's infra container still runs is being looked into", Since: b.Op.Since}, true
	case b.Op.Busy():
		return Reason{Code: WhyOperation, Text: "it asks for its share of the host", Since: b.Op.Since}, true
	case b.Retry.Last != "":
		return b.Retry.explain("", sandboxMove(s)), true
	default:
		return Reason{}, false
	}
}

func sandboxMove(s State) string {
	switch {
	case s.Goal == Up && !s.admitted():
		return "asking for its share of the host"
	case s.Goal == Up && s.doubtsInfra():
		return "inspecting its pod"
	case s.Goal == Up:
		return "making its pod"
	case s.Goal == Gone && s.Sandbox.Phase != SandboxRemoved:
		return "removing it"
	case s.Sandbox.Phase < SandboxStopped:
		return "stopping its pod"
	default:
		return "giving back its share of the host"
	}
}

// explain says that a move is tried again.
func (r Retry) explain(container, move string) Reason {
	n := r.Attempts + r.Persist
	times := "once"
	if n > 1 {
		times = fmt.Sprintf("%d times", n)
	}
	return Reason{
		Code: WhyRetry, Container: container, Text: fmt.Sprintf("%s failed %s, last with: %s", move, times, r.Last),
		Until: r.NotUntil, Then: "it is tried again",
	}
}

// explainContainer says what a container waits for on its way up; found is false
// when it waits for nothing, or only for what explainSandbox tells.
func (s State) explainContainer(i int) (r Reason, found bool) {
	c, name := s.Containers[i], s.Task.Containers[i].Name
	switch {
	case c.Ended:
		return r, false
	case c.Op.Busy() && c.Op.Kind != Probe:
		return s.explainOp(i), true
	case c.Retry.Last != "" && !c.Op.Busy():
		return c.Retry.explain(name, s.moveOf(i)), true
	case c.Stale:
		return Reason{Code: WhyInspect, Container: name, Text: "whether " + name + " still runs is being looked into"}, true
	case c.Presence == Running:
		return s.explainHealth(i)
	case !c.Resolved || !s.admitted():
		return r, false
	case c.Presence == Absent && !s.allResolved():
		return s.explainDigests(i)
	}
	for _, d := range s.Task.Containers[i].DependsOn {
		if met, _ := s.conditionMet(time.Time{}, d); met != ready {
			return s.explainDependency(i, d), true
		}
	}
	return Reason{Code: WhyPod, Container: name, Text: name + " waits for the pod"}, true
}

// moveOf is what is tried with a container, for a sentence.
func (s State) moveOf(i int) string {
	c, def := s.Containers[i], s.Task.Containers[i]
	switch {
	case s.Goal != Up && c.Presence == Running:
		return "stopping " + def.Name
	case c.Presence == Running:
		return "inspecting " + def.Name
	case c.Presence == Created:
		return "starting " + def.Name
	case !c.Resolved:
		return fmt.Sprintf("looking up the digest of %s for %s", def.Image, def.Name)
	case !c.Pulled:
		return fmt.Sprintf("pulling %s for %s", def.Image, def.Name)
	default:
		return "creating " + def.Name
	}
}

// explainOp says what was asked for and has not answered.
func (s State) explainOp(i int) Reason {
	c, def := s.Containers[i], s.Task.Containers[i]
	r := Reason{Code: WhyOperation, Container: def.Name, Since: c.Op.Since}
	switch c.Op.Kind {
	case Resolve:
		r.Text = fmt.Sprintf("the registry is asked for the digest of %s for %s", def.Image, def.Name)
		if def.RepositoryCredentials != nil {
			r.Text = fmt.Sprintf("its credentials are read and the registry is asked for the digest of %s for %s", def.Image, def.Name)
		}
	case Pull:
		r.Text = fmt.Sprintf("%s is being pulled for %s", def.Image, def.Name)
	case Create:
		r.Text = "Podman is creating " + def.Name
	case Start:
		r.Text = "Podman is starting " + def.Name
	case Stop:
		return s.explainStop(i)
	default:
		r.Text = "Podman is asked how " + def.Name + " is"
	}
	if n := c.Retry.Attempts; n > 0 {
		r.Text += fmt.Sprintf("; attempt %d, the one before failed with: %s", n+1, c.Retry.Last)
	}
	return r
}

func (s State) explainStop(i int) Reason {
	c, def := s.Containers[i], s.Task.Containers[i]
	r := Reason{Code: WhyOperation, Container: def.Name, Since: c.Op.Since}
	if !c.Op.Gentle {
		r.Text = def.Name + " is being killed"
		return r
	}
	r.Text = fmt.Sprintf("%s was asked to stop and has %s to do so", def.Name, def.StopTimeout)
	r.Until, r.Then = c.Op.Since.Add(def.StopTimeout), "it is killed"
	return r
}

func (s State) explainDigests(i int) (Reason, bool) {
	for k, c := range s.Containers {
		if !c.Resolved {
			name, other := s.Task.Containers[i].Name, s.Task.Containers[k].Name
			return Reason{Code: WhyDigests, Container: name, Text: fmt.Sprintf("%s waits until the digest of %s's image is known", name, other)}, true
		}
	}
	return Reason{}, false
}

// explainDependency says what another container has to do first, and how far it is.
func (s State) explainDependency(i int, d taskdef.Dependency) Reason {
	name, on := s.Task.Containers[i].Name, s.Task.Containers[d.Container].Name
	c := s.Containers[d.Container]
	r := Reason{Code: WhyDependency, Container: name, Since: c.StartedAt}
	r.Text = fmt.Sprintf("%s waits until %s is %s; %s is %s", name, on, d.Condition, on, c.Status())
	if d.Condition == taskdef.Healthy && c.Presence == Running {
		r.Text += " and " + c.Health.explain()
	}
	if deadline := s.startDeadline(d.Container); !deadline.IsZero() && d.Condition != taskdef.Start {
		r.Until, r.Then = deadline, name+" gives up"
	}
	return r
}

func (s State) explainHealth(i int) (r Reason, found bool) {
	c, def := s.Containers[i], s.Task.Containers[i]
	if c.Paused {
		return Reason{Code: WhyPaused, Container: def.Name, Text: def.Name + " is paused"}, true
	}
	if def.HealthCheck == nil || c.Health.Status == HealthHealthy {
		return r, false
	}
	r = Reason{Code: WhyHealth, Container: def.Name, Text: def.Name + " runs and " + c.Health.explain(), Since: c.StartedAt}
	if c.Health.Status == HealthUnhealthy {
		r.Code = WhyUnhealthy
	}
	if !c.Op.Busy() && !c.Health.Next.IsZero() {
		r.Until, r.Then = c.Health.Next, "it is checked again"
	}
	return r, true
}

// explain continues a sentence about a container that runs.
func (h HealthState) explain() string {
	last := ""
	if h.ExitCode != 0 {
		last = strings.TrimSpace(fmt.Sprintf("; the last check gave exit code %d %s", h.ExitCode, h.Output))
	}
	switch h.Status {
	case HealthHealthy:
		return "is healthy"
	case HealthUnhealthy:
		return fmt.Sprintf("is unhealthy after %d failed checks in a row%s", h.Streak, last)
	default:
		return "its health check has not passed yet" + last
	}
}

// explainDown says what the way down waits for.
func (s State) explainDown() []Reason {
	var now, later []Reason
	for i, c := range s.Containers {
		name := s.Task.Containers[i].Name
		switch {
		case c.Ended:
		case c.Op.Busy():
			now = append(now, s.explainOp(i))
		case c.Retry.Last != "":
			now = append(now, c.Retry.explain(name, s.moveOf(i)))
		case c.Stale:
			now = append(now, Reason{Code: WhyInspect, Container: name, Text: "whether " + name + " still runs is being looked into"})
		case c.Presence == Running:
			later = append(later, Reason{Code: WhyStopOrder, Container: name, Text: name + " stops once all that depend on it have"})
		}
	}
	switch b := s.Sandbox; {
	case b.Op.Busy():
		now = append(now, Reason{Code: WhyOperation, Text: sandboxOp(b.Op.Kind), Since: b.Op.Since})
	case b.Retry.Last != "":
		now = append(now, b.Retry.explain("", sandboxMove(s)))
	}
	all := append(now, later...)
	if len(all) == 0 {
		return []Reason{{Code: WhyOperation, Text: "it is about to stop: " + s.Stop.Reason, Since: s.Stop.At}}
	}
	all[0].Text += " (the task is stopping: " + s.Stop.Reason + ")"
	return all
}

func sandboxOp(k Kind) string {
	switch k {
	case Prepare:
		return "the making of its pod is being given up"
	case Inspect:
		return "the look at its pod is being given up"
	case Admit:
		return "it leaves the queue"
	case Halt:
		return "its pod is being stopped"
	case Remove:
		return "it is being removed"
	default:
		return "it gives back its share of the host"
	}
}
