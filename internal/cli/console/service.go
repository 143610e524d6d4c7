package console

import (
	"fmt"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/api"
)

// Kind is a class of states with a color of its own.
type Kind string

// The kinds.
const (
	Good Kind = "good"
	Bad  Kind = "bad"
	Warn Kind = "warn"
	Busy Kind = "busy" // it passes by itself
	Idle Kind = "idle"
)

// ServiceState returns what a service does in everyday words, for tables and screens: steady, updating, a stage of its deployment,
// paused, rolling back, failed, down, address down, asleep, waking, no copies, draining.
func ServiceState(s api.Service) (words string, kind Kind) {
	p := ProgressOf(s)
	switch {
	case s.Status != "ACTIVE":
		return strings.ToLower(term.Line(s.Status)), Busy
	case p != nil && p.Returning:
		return "rolling back", Warn
	case Paused(s):
		return "paused", Warn
	case p != nil && p.Stage != "":
		return StageWords(term.Line(p.Stage)), Busy
	case len(s.Deployments) > 0 && s.Deployments[0].RolloutState == "FAILED":
		return "failed", Bad
	case s.Sleep == api.SleepWaking:
		return api.SleepWaking, Busy
	case s.DesiredCount > 0 && s.HealthyCount == 0 && s.Steady && s.Sleep != api.SleepAsleep:
		return "down", Bad
	case len(DownAddresses(s)) > 0:
		return "address down", Bad
	case s.Sleep == api.SleepAsleep:
		return api.SleepAsleep, Idle
	case s.Steady && s.DesiredCount == 0:
		return "no copies", Idle
	case s.Steady:
		return "steady", Good
	}
	return "updating", Busy
}

// DownAddresses returns the addresses at which a service is not reached. One that is about to be served is not among them.
func DownAddresses(s api.Service) (all []string) {
	for _, i := range s.Ingress {
		if i.Down {
			all = append(all, i.URL)
		}
	}
	for _, l := range s.Listeners {
		if l.Problem != "" {
			all = append(all, l.Address)
		}
	}
	return all
}

// ProgressOf returns how far the deployment that is under way is; nil if there is none, or it has no stages.
func ProgressOf(s api.Service) *api.DeploymentProgress {
	if n := len(s.History); n > 0 && s.History[n-1].FinishedAt.IsZero() {
		return s.History[n-1].Progress
	}
	return nil
}

// Paused reports whether a deployment of the service waits for `podtask service continue`.
func Paused(s api.Service) bool {
	p := ProgressOf(s)
	return p != nil && slices.ContainsFunc(p.Hooks, func(h api.HookCall) bool { return h.Status == "AWAITING_ACTION" })
}

// eventWords turn the words of ECS for what happens in a service into everyday ones; the first that fits does.
var eventWords = []struct {
	from *lazy.Regexp
	to   string
}{
	{lazy.MustCompile(`^has started \d+ tasks: (.*)$`), "started $1"},
	{lazy.MustCompile(`^has stopped \d+ tasks: (.*)$`), "stopped $1"},
	{lazy.MustCompile(`^stopped \d+ pending tasks: (.*)$`), "stopped $1, which had not run yet"},
	{lazy.MustCompile(`^has begun draining connections on 1 tasks$`), "lets the connections of a copy end"},
	{lazy.MustCompile(`^has begun draining connections on (\d+) tasks$`), "lets the connections of $1 copies end"},
	{lazy.MustCompile(`^has reached a steady state$`), "steady"},
	{lazy.MustCompile(`^(deployment \S+) deployment (completed|failed|stopped)(.*)$`), "$1 $2$3"},
	{lazy.MustCompile(`^(deployment \S+) began with (.*)$`), "$1 begins with $2"},
	{lazy.MustCompile(`^was unable to place a task because (?:it waits for )?(.*) \(task (\S+)\)$`), "$2 cannot start yet: $1"},
	{lazy.MustCompile(`^is unable to consistently start tasks successfully; the next is due in (.*)$`), "copies keep failing; the next one starts in $1"},
	{lazy.MustCompile(`^has a desired count of (\d+) instead of (\d+)$`), "scaled from $2 to $1"},
}

var (
	eventTask       = lazy.MustCompile(`\(task ([^)]+)\)`)
	eventDeployment = lazy.MustCompile(`\(deployment (\S+?)\)`)
	eventStage      = lazy.MustCompile(`^(deployment \S+) is in the stage ([A-Z_]+)$`)
)

// ServiceEvent returns what an event of a service says, without the words of ECS and the name of the service.
func ServiceEvent(service, message string) string {
	text := strings.TrimSuffix(strings.TrimPrefix(term.Line(message), fmt.Sprintf("(service %s) ", service)), ".")
	text = eventDeployment.ReplaceAllString(text, "deployment $1")
	text = strings.ReplaceAll(text, ") (task ", ", ")
	if m := eventStage.FindStringSubmatch(text); m != nil {
		return m[1] + ": " + StageWords(m[2])
	}
	for _, w := range eventWords {
		if w.from.MatchString(text) {
			text = w.from.ReplaceAllString(text, w.to)
			break
		}
	}
	return eventTask.ReplaceAllString(text, "$1")
}
