package service

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Reason is one thing that a service waits for.
type Reason struct {
	// Code is one of the Why* codes.
	Code string
	// Text is a sentence without the full stop.
	Text string
	// Until is the time at which something happens by itself; Then says what.
	Until time.Time
	Then  string
}

// The codes of reasons.
const (
	WhySteady    = "steady"
	WhyRolling   = "rolling"
	WhyBackOff   = "throttled"
	WhyBreaker   = "circuit-breaker"
	WhyPlacement = "placement"
	WhyQueued    = "queued"
	WhyRetry     = "retry"
	WhyPending   = "pending"
	WhyRemoving  = "removing"
	WhyListener  = "listener"
	WhyIngress   = "ingress"
	WhyProtected = "protected"
	WhyHook      = "hook"
	WhyPause     = "pause"
	WhyStage     = "stage"
	WhyBake      = "bake"
	WhyAsleep    = "asleep"
	WhyWaking    = "waking"
)

// Explain lists the reasons for which the service waits, the root cause first. There is always one.
func (s State) Explain(at time.Time) (reasons []Reason) {
	add := func(r Reason) { reasons = append(reasons, r) }
	p, c := s.Primary(), s.Count("")
	if s.Status == Draining {
		add(Reason{Code: WhyRemoving, Text: fmt.Sprintf("it is being removed, %s left", count(len(s.Tasks), "copy", "copies"))})
		return reasons
	}
	for _, r := range s.explainStage(at) {
		add(r)
	}
	if p.Rollout == Failed {
		next := fmt.Sprintf("try again with `podtask service update --force %s`", s.Name)
		if _, ok := s.RollbackTarget(); ok {
			next = fmt.Sprintf("go back with `podtask service rollback %s`", s.Name)
		}
		add(Reason{Code: WhyBreaker, Text: fmt.Sprintf("deployment %s (%s) failed, and podtask starts no more copies of it: %s; %s", p.ID, p.TaskDefinition, p.Reason, next)})
	}
	for _, t := range s.Tasks {
		switch {
		case t.Phase == Wanted && t.Refused != "":
			add(Reason{Code: WhyPlacement, Text: fmt.Sprintf("%s cannot be created: %s", s.TaskName(t), t.Refused), Until: t.notUntil, Then: "podtask tries again"})
		case t.Phase == Live && t.Seen.Queue != "":
			add(Reason{Code: WhyQueued, Text: fmt.Sprintf("%s waits for %s", s.TaskName(t), t.Seen.Queue)})
		case t.Phase == Live && t.Seen.Failing != "":
			if !slices.ContainsFunc(reasons, func(r Reason) bool { return r.Code == WhyRetry }) { // the others mostly fail like it
				add(Reason{Code: WhyRetry, Text: fmt.Sprintf("%s does not start and podtask keeps trying: %s", s.TaskName(t), t.Seen.Failing)})
			}
		case t.Phase == Live && t.spared(at) && (t.Deployment != p.ID || c.Present > s.target()):
			add(Reason{Code: WhyProtected, Text: fmt.Sprintf("%s is protected and keeps running", s.TaskName(t)), Until: t.Seen.Protected, Then: "the protection ends"})
		}
	}
	if at.Before(s.BackOff.NotUntil) {
		add(Reason{Code: WhyBackOff, Text: fmt.Sprintf("copies of %s keep failing, %d in a row; the last one: %s", p.TaskDefinition, s.BackOff.Streak, p.LastFailure), Until: s.BackOff.NotUntil, Then: "podtask starts the next one"})
	}
	if mine := s.Count(p.ID); s.staged() == nil && p.Rollout == InProgress && mine.Present < c.Present {
		text := fmt.Sprintf("deployment %s (%s) is in progress: %d of %s healthy", p.ID, p.TaskDefinition, mine.Healthy, count(s.target(), "copy is", "copies are"))
		if p.FailedTasks > 0 {
			text += fmt.Sprintf(", %d failed", p.FailedTasks)
		}
		if p.FailedTasks > 0 && p.LastFailure != "" && !at.Before(s.BackOff.NotUntil) { // else that reason has it
			text += "; the last one: " + p.LastFailure
		}
		add(Reason{Code: WhyRolling, Text: text})
	}
	for _, l := range s.Unheard {
		add(l.explain())
	}
	reasons = append(reasons, s.explainRest()...)
	switch {
	case len(reasons) > 0:
	case s.Steady:
		add(Reason{Code: WhySteady, Text: steadyText(s.target(), p.TaskDefinition)})
	default:
		add(Reason{Code: WhyPending, Text: fmt.Sprintf("%d of %s of %s healthy", c.Healthy, count(s.target(), "copy", "copies"), p.TaskDefinition)})
	}
	if p.Rollback && p.Reason != "" {
		add(Reason{Code: WhyBreaker, Text: p.Reason})
	}
	return reasons
}

// explainStage describes the wait of a deployment with stages: for its hooks, else the stage's own work.
func (s State) explainStage(at time.Time) (reasons []Reason) {
	a := s.staged()
	if a == nil {
		return nil
	}
	p := a.Progress
	where := fmt.Sprintf("deployment %s (stage %s)", p.Green, p.Stage)
	if p.Back {
		where = fmt.Sprintf("podtask is rolling back deployment %s and", p.Green)
	}
	for _, c := range p.Calls {
		if !c.Open() {
			continue
		}
		h, _ := a.hook(c.Hook)
		spent := fmt.Sprintf("%s of %s", span(at.Sub(c.StartedAt)), span(h.timeout()))
		then := "the deployment is rolled back"
		if h.OnTimeout == TimeoutContinue || p.Back {
			then = "it continues anyway"
		}
		if c.Status == HookAwaiting {
			reasons = append(reasons, Reason{Code: WhyPause, Text: fmt.Sprintf("%s is paused by %s (%s); continue with `podtask service continue %[4]s`, roll back with `podtask service continue --rollback %[4]s`", where, c.Hook, spent, s.Name), Until: c.ExpiresAt, Then: then})
			continue
		}
		reasons = append(reasons, Reason{Code: WhyHook, Text: fmt.Sprintf("%s waits for hook %s (%s)", where, c.Hook, spent), Until: c.ExpiresAt, Then: then})
	}
	rows, i := a.row()
	if len(reasons) > 0 || rows[i].done == nil || rows[i].done(&s, a, at) {
		return reasons
	}
	if end := p.Since.Add(a.Wait()); a.Wait() > 0 && at.Before(end) {
		then := "podtask stops the old copies"
		if p.Stage == Production {
			then = "it gets more connections"
		}
		if !a.rolls() {
			where += fmt.Sprintf(" has %s of the connections and", p.Weight)
		}
		return []Reason{{Code: WhyBake, Text: fmt.Sprintf("%s is watched %s (%s of %s)", where, rows[i].waits, span(at.Sub(p.Since)), span(a.Wait())), Until: end, Then: then}}
	}
	waits := rows[i].waits
	if strings.Contains(waits, "%d") {
		waits = fmt.Sprintf(waits, s.Count(s.Primary().ID).Healthy, s.target())
	}
	r := Reason{Code: WhyStage, Text: where + " waits " + waits, Until: a.deadline()}
	if _, back := s.RollbackTarget(); !r.Until.IsZero() && back {
		r.Then = "podtask rolls it back"
	} else if !r.Until.IsZero() {
		r.Then = "podtask gives up on it"
	}
	return []Reason{r}
}

// steadyText is the sentence about a revision of which all copies are healthy.
func steadyText(n int, definition string) string {
	switch n {
	case 0:
		return "no copy of " + definition + " is wanted"
	case 1:
		return "its copy of " + definition + " is healthy"
	case 2:
		return "both copies of " + definition + " are healthy"
	}
	return fmt.Sprintf("all %d copies of %s are healthy", n, definition)
}

// span formats a duration in seconds, without those that are zero: 3s, 5m, 1h30m.
func span(d time.Duration) string {
	text := d.Round(time.Second).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// count returns a number with the singular or the plural of its noun.
func count(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// explain describes a fault of an address.
func (u Unheard) explain() Reason {
	switch {
	case u.Served:
		return Reason{Code: WhyIngress, Text: fmt.Sprintf("%s is served, but has a problem: %s", u.Address, u.Problem)}
	case u.Pending:
		return Reason{Code: WhyIngress, Text: fmt.Sprintf("%s is not served yet: %s", u.Address, u.Problem)}
	case strings.Contains(u.Address, "://"):
		return Reason{Code: WhyIngress, Text: fmt.Sprintf("%s is not served: %s", u.Address, u.Problem)}
	}
	return Reason{Code: WhyListener, Text: fmt.Sprintf("podtask cannot listen on %s and keeps trying: %s", u.Address, u.Problem)}
}
