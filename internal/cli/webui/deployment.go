package webui

import (
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/api"
)

// shop is a service on a page.
type shop struct {
	api.Service
	Status    chip
	Why       string
	Addresses []port
	// Revisions are the deployments that have copies, the new one first.
	Revisions []revision
	// Steps are those of the deployment that is under way, or of the last one.
	Steps []step
	// StepText says how long the present step has taken.
	StepText string
	// Paused: it waits for `continue`.
	Paused bool
	// Stack is the one that it is of; empty for none. Grouped: services are shown by their stacks.
	Stack   string
	Grouped bool
	now     time.Time
}

// revision is a deployment with its copies.
type revision struct {
	api.Deployment
	// Role is new, old or empty.
	Role string
	// Copies are as squares; none if there are too many. Text says the same.
	Copies []square
	Text   string
	// HealthyPercent is the part of the copies that are healthy.
	HealthyPercent int
	// Connections is its part of the connections in percent; negative if each healthy copy has the same part.
	Connections float64
	Reason      string
}

// square is a copy. Kind is good, bad, busy, leaving or missing.
type square struct{ Kind, Text string }

// step is a step of a deployment. State is done, now or empty.
type step struct{ Name, State string }

// mostSquares is the number of copies that are drawn one by one.
const mostSquares = 40

func newShop(s api.Service, host Host, now time.Time) shop {
	words, kind := console.ServiceState(s)
	v := shop{Service: s, Status: chip{string(kind), words}, Paused: console.Paused(s), now: now}
	if len(s.Why) > 0 && kind != console.Good {
		v.Why = console.Capital(reason(s.Why[0], now))
	}
	for _, l := range s.Listeners {
		v.Addresses = append(v.Addresses, address(l.Address, "", l.Problem, host))
	}
	for _, l := range s.TestListeners {
		v.Addresses = append(v.Addresses, address(l.Address, " (test)", l.Problem, host))
	}
	for _, i := range s.Ingress {
		one := port{Text: term.Line(i.URL), Label: "public address", Down: i.Down, Problem: term.Line(i.Problem)}
		if strings.HasPrefix(i.URL, "https://") || strings.HasPrefix(i.URL, "http://") {
			one.URL = i.URL
		}
		v.Addresses = append(v.Addresses, one)
	}
	p := console.ProgressOf(s)
	for _, d := range s.Deployments {
		v.Revisions = append(v.Revisions, newRevision(s, d, p))
	}
	v.Steps, v.StepText = steps(s, p, now)
	return v
}

// Hooks are the calls of the deployment that is under way.
func (v shop) Hooks() []api.HookCall {
	if p := console.ProgressOf(v.Service); p != nil {
		return p.Hooks
	}
	return nil
}

// Age is how long ago the service was created.
func (v shop) Age() string { return console.ShortSpan(v.now.Sub(v.CreatedAt)) }

// address is a listener. The browser reaches it as localhost if it is on all addresses or on loopback.
func address(text, more, problem string, host Host) port {
	one := port{Text: term.Line(text) + more, Label: "listener", Down: problem != "", Problem: term.Line(problem)}
	ip, number, err := net.SplitHostPort(text)
	n, numberErr := strconv.ParseUint(number, 10, 16)
	if err == nil && numberErr == nil && problem == "" {
		one.URL = linkTo(ip, uint16(n), host)
	}
	return one
}

func newRevision(s api.Service, d api.Deployment, p *api.DeploymentProgress) revision {
	r := revision{Deployment: d, Connections: -1, Reason: term.Line(d.RolloutStateReason)}
	switch {
	case len(s.Deployments) == 1:
	case d.Status == "PRIMARY" && (p == nil || !p.Returning):
		r.Role = "new"
	default:
		r.Role = "old"
	}
	if p != nil && s.DeploymentConfiguration.Strategy != "ROLLING" {
		switch d.ID {
		case p.Green:
			r.Connections = p.Percent
		case p.Blue:
			r.Connections = math.Round(1000-10*p.Percent) / 10
		}
	}
	counts := map[string]int{}
	for _, t := range s.Tasks {
		if t.Deployment != d.ID || gone(t) {
			continue
		}
		c := copyChip(t)
		counts[c.Text]++
		if c.Text == "stopping" {
			c.Kind = "leaving"
		}
		r.Copies = append(r.Copies, square{c.Kind, term.Line(t.Name) + ": " + c.Text})
	}
	want := max(d.DesiredCount, d.RunningCount+d.PendingCount)
	counts["to come"] = max(0, d.DesiredCount-len(r.Copies))
	if max(len(r.Copies), d.DesiredCount) > mostSquares { // the number may be any that a host has told
		r.Copies = nil
	} else {
		r.Copies = append(r.Copies, slices.Repeat([]square{{"missing", "to come"}}, counts["to come"])...)
	}
	if want > 0 {
		r.HealthyPercent = int(100 * min(1, max(0, float64(d.HealthyCount)/float64(want))))
	}
	r.Text = fmt.Sprintf("%d of %d healthy", d.HealthyCount, max(want, d.HealthyCount))
	for _, word := range []string{"starting", "unhealthy", "stopping", "to come"} {
		if n := counts[word]; n > 0 {
			r.Text += fmt.Sprintf(", %d %s", n, word)
		}
	}
	if d.FailedTasks > 0 {
		r.Text += fmt.Sprintf(", %d failed", d.FailedTasks)
	}
	return r
}

func gone(t api.ServiceTask) bool { return t.Phase == "STOPPED" || t.Phase == "REMOVING" }

// copyChip says what a copy does.
func copyChip(t api.ServiceTask) chip {
	state := console.CopyState(t)
	switch {
	case state == "failed":
		return chip{"bad", state}
	case gone(t) || t.Phase == "STOPPING":
		return chip{"idle", state}
	case t.Healthy:
		return chip{"good", "healthy"}
	case t.Health == "UNHEALTHY":
		return chip{"bad", "unhealthy"}
	}
	return chip{"busy", "starting"}
}

// replica is a copy in the table.
type replica struct {
	api.ServiceTask
	Status chip
}

// Copies are the copies, those that have stopped last, the newest first.
func (v shop) Copies() (list []replica) {
	for _, t := range slices.Backward(v.Tasks) {
		list = append(list, replica{t, copyChip(t)})
	}
	slices.SortStableFunc(list, func(a, b replica) int {
		switch {
		case gone(a.ServiceTask) == gone(b.ServiceTask):
			return 0
		case gone(b.ServiceTask):
			return -1
		}
		return 1
	})
	return list
}

// fewEvents is the number of events that are not folded.
const fewEvents = 10

// event is an event of a service, in everyday words.
type event struct {
	At   time.Time
	Text string
}

// Latest are the latest events, Earlier the ones before, the newest first.
func (v shop) Latest() []event { return v.events()[:min(fewEvents, len(v.Events))] }

// Earlier are the events that are folded.
func (v shop) Earlier() []event { return v.events()[min(fewEvents, len(v.Events)):] }

func (v shop) events() (list []event) {
	name, _, _ := strings.Cut(v.ServiceName, "@") // of one of several hosts
	for _, e := range slices.Backward(v.Events) {
		list = append(list, event{e.CreatedAt, console.ServiceEvent(name, e.Message)})
	}
	return list
}

// stepOf is the step of the picture to which a stage belongs.
var stepOf = map[string]int{
	"RECONCILE_SERVICE": 0, "PRE_SCALE_UP": 0, "SCALE_UP": 0, "POST_SCALE_UP": 1, "TEST_TRAFFIC_SHIFT": 1, "POST_TEST_TRAFFIC_SHIFT": 1,
	"PRE_PRODUCTION_TRAFFIC_SHIFT": 2, "PRODUCTION_TRAFFIC_SHIFT": 2, "POST_PRODUCTION_TRAFFIC_SHIFT": 3, "BAKE_TIME": 3, "CLEAN_UP": 4,
}

// steps returns the steps of the deployment that is under way; none without one.
func steps(s api.Service, p *api.DeploymentProgress, now time.Time) (list []step, text string) {
	names, at := []string{"start copies", "replace old copies", "done"}, 0
	switch {
	case p != nil && p.Stage != "":
		names, at = []string{"start copies", "test", "shift connections", "watch", "stop old copies", "done"}, stepOf[p.Stage]
		text = strings.ToLower(strings.ReplaceAll(term.Line(p.Stage), "_", " ")) + " for " + console.Span(now.Sub(p.Since).Truncate(time.Second))
		if left := p.Until.Sub(now); left > 0 {
			text += ", " + console.Span(left.Round(time.Second)) + " left"
		}
		if p.Returning {
			text = "rolling back: " + text
		}
	case len(s.Deployments) == 0 || s.Deployments[0].RolloutState != "IN_PROGRESS":
		return nil, ""
	case s.Deployments[0].RunningCount > 0:
		at = 1
	}
	for i, name := range names {
		one := step{Name: name}
		switch {
		case i < at:
			one.State = "done"
		case i == at:
			one.State = "now"
		}
		list = append(list, one)
	}
	return list, text
}

// past is an entry of the history of a service.
type past struct {
	api.PastDeployment
	Status   chip
	When, On string
	Reason   string
	// Present: the copies are of it. Target: a rollback returns to it.
	Present, Target bool
	// Return is the command that returns to it; empty for none.
	Return string
}

// pastWords has everyday words for the status of a deployment in the history.
var pastWords = map[string]chip{
	"SUCCESSFUL": {"good", "done"}, "IN_PROGRESS": {"busy", "in progress"}, "STOPPED": {"idle", "replaced"},
	"ROLLBACK_IN_PROGRESS": {"busy", "rolling back"}, "ROLLBACK_SUCCESSFUL": {"warn", "rolled back"}, "ROLLBACK_FAILED": {"bad", "rollback failed"},
}

// Past are the latest deployments, the newest first.
func (v shop) Past() (list []past) {
	present, told := "", map[string]bool{}
	if len(v.Deployments) > 0 {
		present = v.Deployments[0].ID
	}
	for _, h := range slices.Backward(v.History) {
		status, known := pastWords[h.Status]
		if !known {
			status = chip{"idle", strings.ToLower(term.Line(h.Status))}
		}
		one := past{PastDeployment: h, Status: status, When: h.CreatedAt.Local().Format("2006-01-02 15:04:05"), On: console.Ago(v.now, h.CreatedAt), Reason: term.Line(h.Reason)}
		switch first := !told[h.Deployment]; {
		case !first || h.Deployment == "":
		case h.Deployment == present:
			one.Present = true
		case h.Deployment == v.RollbackTo:
			one.Target, one.Return = true, onHost(v.ServiceName, "service rollback", "")
		case h.Status == "SUCCESSFUL":
			one.Return = onHost(v.ServiceName, "service update", h.TaskDefinition)
		}
		told[h.Deployment] = true
		list = append(list, one)
	}
	return list
}

// onHost is a command about a service, which may be NAME@HOST.
func onHost(service, command, more string) string {
	name, host, chosen := strings.Cut(term.Line(service), "@")
	if chosen {
		command = "--host " + host + " " + command
	}
	return strings.TrimSpace("podtask " + command + " " + name + " " + term.Line(more))
}
