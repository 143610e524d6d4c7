package webui

import (
	"cmp"
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
	// Paused: it waits for `continue`. Moving: a deployment is under way.
	Paused, Moving bool
	now            time.Time
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

// mostSquares is how many copies are drawn one by one.
const mostSquares = 40

func newShop(s api.Service, host Host, now time.Time) shop {
	v := shop{Service: s, Status: serviceChip(s), now: now}
	if len(s.Why) > 0 && !(s.Steady && s.Status == "ACTIVE") {
		v.Why = reason(s.Why[0], now)
	}
	for _, l := range s.Listeners {
		v.Addresses = append(v.Addresses, address(l.Address, "", l.Problem, host))
	}
	for _, l := range s.TestListeners {
		v.Addresses = append(v.Addresses, address(l.Address, " (test)", l.Problem, host))
	}
	for _, i := range s.Ingress {
		one := port{Text: term.Line(i.URL), Label: "public address"}
		if strings.HasPrefix(i.URL, "https://") || strings.HasPrefix(i.URL, "http://") {
			one.URL = i.URL
		}
		v.Addresses = append(v.Addresses, one)
	}
	p := progressOf(s)
	v.Moving = s.Status == "ACTIVE" && (p != nil || len(s.Deployments) > 0 && s.Deployments[0].RolloutState == "IN_PROGRESS")
	v.Paused = p != nil && slices.ContainsFunc(p.Hooks, func(h api.HookCall) bool { return h.Status == "AWAITING_ACTION" })
	for _, d := range s.Deployments {
		v.Revisions = append(v.Revisions, newRevision(s, d, p))
	}
	v.Steps, v.StepText = steps(s, p, now)
	return v
}

// Hooks are the calls of the deployment that is under way.
func (v shop) Hooks() []api.HookCall {
	if p := progressOf(v.Service); p != nil {
		return p.Hooks
	}
	return nil
}

// Age is how long ago the service was created.
func (v shop) Age() string { return console.ShortSpan(v.now.Sub(v.CreatedAt)) }

// progressOf is that of a deployment with stages that is under way; nil if there is none.
func progressOf(s api.Service) *api.DeploymentProgress {
	if n := len(s.History); n > 0 && s.History[n-1].FinishedAt.IsZero() {
		return s.History[n-1].Progress
	}
	return nil
}

// address is a listener. The browser reaches it as localhost if it is on all addresses or on loopback.
func address(text, more, problem string, host Host) port {
	one := port{Text: term.Line(text) + more, Label: cmp.Or(term.Line(problem), "listener")}
	ip, number, err := net.SplitHostPort(text)
	n, numberErr := strconv.ParseUint(number, 10, 16)
	if err == nil && numberErr == nil && problem == "" {
		one.URL = linkTo(ip, uint16(n), host)
	}
	if problem != "" {
		one.Text += ": " + term.Line(problem)
	}
	return one
}

// serviceChip says what a service does.
func serviceChip(s api.Service) chip {
	p := progressOf(s)
	switch {
	case s.Status != "ACTIVE":
		return chip{"busy", strings.ToLower(term.Line(s.Status))}
	case p != nil && p.Returning:
		return chip{"warn", "rolling back"}
	case p != nil && slices.ContainsFunc(p.Hooks, func(h api.HookCall) bool { return h.Status == "AWAITING_ACTION" }):
		return chip{"warn", "paused"}
	case p != nil:
		return chip{"busy", "updating"}
	case len(s.Deployments) > 0 && s.Deployments[0].RolloutState == "FAILED":
		return chip{"bad", "failed"}
	case s.Sleep == api.SleepAsleep:
		return chip{"idle", "asleep"}
	case s.Sleep == api.SleepWaking:
		return chip{"busy", "waking"}
	case s.DesiredCount > 0 && s.HealthyCount == 0 && s.Steady:
		return chip{"bad", "down"}
	case s.Steady && s.DesiredCount == 0:
		return chip{"idle", "no copies"}
	case s.Steady:
		return chip{"good", "steady"}
	}
	return chip{"busy", "updating"}
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
	switch {
	case gone(t):
		return chip{"idle", "stopped"}
	case t.Phase == "STOPPING":
		return chip{"idle", "stopping"}
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

// Latest are the events, the newest first.
func (v shop) Latest() []api.ServiceEvent {
	events := slices.Clone(v.Events)
	slices.Reverse(events)
	return events
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
}

// Past are the deployments that have ended, the newest first.
func (v shop) Past() (list []past) {
	for _, h := range slices.Backward(v.History) {
		kind := "idle"
		switch h.Status {
		case "SUCCESSFUL":
			kind = "good"
		case "IN_PROGRESS", "ROLLBACK_IN_PROGRESS":
			kind = "busy"
		case "ROLLBACK_FAILED":
			kind = "bad"
		case "ROLLBACK_SUCCESSFUL":
			kind = "warn"
		}
		word := map[string]string{"SUCCESSFUL": "done", "ROLLBACK_SUCCESSFUL": "rolled back", "ROLLBACK_IN_PROGRESS": "rolling back", "ROLLBACK_FAILED": "rollback failed", "IN_PROGRESS": "in progress", "STOPPED": "replaced"}[h.Status]
		list = append(list, past{h, chip{kind, cmp.Or(word, strings.ToLower(term.Line(h.Status)))}, h.CreatedAt.Local().Format("2006-01-02 15:04:05"), console.Ago(v.now, h.CreatedAt), term.Line(h.Reason)})
	}
	return list
}
