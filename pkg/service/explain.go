package service

import (
	"fmt"
	"strings"
	"time"
)

// Reason says what a service waits for.
type Reason struct {
	// Code is one of the Why* codes.
	Code string
	// Text is a sentence without the full stop.
	Text string
	// Until is when something happens by itself; Then says what.
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
	WhyPending   = "pending"
	WhyRemoving  = "removing"
	WhyListener  = "listener"
	WhyIngress   = "ingress"
	WhyProtected = "protected"
	WhyHook      = "hook"
	WhyPause     = "pause"
	WhyStage     = "stage"
	WhyBake      = "bake"
)

// Explain says what the service waits for, the root cause first. There is always a reason.
func (s State) Explain(at time.Time) (reasons []Reason) {
	add := func(r Reason) { reasons = append(reasons, r) }
	p, c := s.Primary(), s.Count("")
	if s.Status == Draining {
		add(Reason{Code: WhyRemoving, Text: fmt.Sprintf("it is being removed: %d of its tasks are left", len(s.Tasks))})
		return reasons
	}
	for _, r := range s.explainStage(at) {
		add(r)
	}
	if p.Rollout == Failed {
		next := fmt.Sprintf("`podtask service update --force %s` begins again", s.Name)
		if _, ok := s.RollbackTarget(); ok {
			next = fmt.Sprintf("`podtask service rollback %s` returns to the deployment before it", s.Name)
		}
		add(Reason{Code: WhyBreaker, Text: fmt.Sprintf("deployment %s (%s) has failed, and no more tasks are created: %s; %s", p.ID, p.TaskDefinition, p.Reason, next)})
	}
	for _, t := range s.Tasks {
		switch {
		case t.Phase == Wanted && t.Refused != "":
			add(Reason{Code: WhyPlacement, Text: fmt.Sprintf("task %s cannot be created: %s", s.TaskName(t), t.Refused), Until: t.notUntil, Then: "it is tried again"})
		case t.Phase == Live && t.Seen.Queue != "":
			add(Reason{Code: WhyQueued, Text: fmt.Sprintf("task %s waits for %s", s.TaskName(t), t.Seen.Queue)})
		case t.Phase == Live && t.spared(at) && (t.Deployment != p.ID || c.Present > s.DesiredCount):
			add(Reason{Code: WhyProtected, Text: fmt.Sprintf("task %s is protected and keeps running", s.TaskName(t)), Until: t.Seen.Protected, Then: "it may be stopped"})
		}
	}
	for _, l := range s.Unheard {
		if strings.Contains(l.Address, "://") {
			add(Reason{Code: WhyIngress, Text: fmt.Sprintf("%s is not served: %s", l.Address, l.Problem)})
			continue
		}
		add(Reason{Code: WhyListener, Text: fmt.Sprintf("it cannot listen on %s: %s", l.Address, l.Problem), Then: "it is tried again"})
	}
	if at.Before(s.BackOff.NotUntil) {
		add(Reason{Code: WhyBackOff, Text: fmt.Sprintf("tasks of %s keep failing, %d times in a row; the last: %s", p.TaskDefinition, s.BackOff.Streak, p.LastFailure), Until: s.BackOff.NotUntil, Then: "the next is created"})
	}
	if mine := s.Count(p.ID); s.staged() == nil && p.Rollout == InProgress && mine.Present < c.Present {
		add(Reason{Code: WhyRolling, Text: fmt.Sprintf("it is rolling out %s (deployment %s): %d of %d copies are healthy, %d failed so far", p.TaskDefinition, p.ID, mine.Healthy, s.DesiredCount, p.FailedTasks)})
	}
	switch {
	case len(reasons) > 0:
	case s.Steady:
		add(Reason{Code: WhySteady, Text: fmt.Sprintf("all %d copies of %s are healthy", s.DesiredCount, p.TaskDefinition)})
	default:
		add(Reason{Code: WhyPending, Text: fmt.Sprintf("%d of %d copies of %s are healthy", c.Healthy, s.DesiredCount, p.TaskDefinition)})
	}
	if p.Rollback && p.Reason != "" {
		add(Reason{Code: WhyBreaker, Text: p.Reason})
	}
	return reasons
}

// explainStage says what a deployment with stages waits for: its hooks, else the stage's own work.
func (s State) explainStage(at time.Time) (reasons []Reason) {
	a := s.staged()
	if a == nil {
		return nil
	}
	p := a.Progress
	where := fmt.Sprintf("deployment %s is in the stage %s", p.Green, p.Stage)
	if p.Back {
		where = fmt.Sprintf("it is on the way back from deployment %s", p.Green)
	}
	for _, c := range p.Calls {
		if !c.Open() {
			continue
		}
		h, _ := a.hook(c.Hook)
		spent := fmt.Sprintf("%s of %s", at.Sub(c.StartedAt).Round(time.Second), h.timeout())
		then := "the deployment is rolled back"
		if h.OnTimeout == TimeoutContinue || p.Back {
			then = "it continues all the same"
		}
		if c.Status == HookAwaiting {
			reasons = append(reasons, Reason{Code: WhyPause, Text: fmt.Sprintf("%s, which pauses (%s, %s): `podtask service continue %s` continues it, and with --rollback gives it up", where, c.Hook, spent, s.Name), Until: c.ExpiresAt, Then: then})
			continue
		}
		reasons = append(reasons, Reason{Code: WhyHook, Text: fmt.Sprintf("%s and waits for the hook %s, %s", where, c.Hook, spent), Until: c.ExpiresAt, Then: then})
	}
	rows, i := a.row()
	if len(reasons) > 0 || rows[i].done == nil || rows[i].done(&s, a, at) {
		return reasons
	}
	if end := p.Since.Add(a.Wait()); a.Wait() > 0 && at.Before(end) {
		then := "the old copies are stopped"
		if p.Stage == Production {
			then = "it gets more"
		}
		return []Reason{{Code: WhyBake, Text: fmt.Sprintf("%s with %s of the connections, and waits %s, %s of %s", where, p.Weight, rows[i].waits, at.Sub(p.Since).Round(time.Second), a.Wait()), Until: end, Then: then}}
	}
	waits := rows[i].waits
	if strings.Contains(waits, "%d") {
		waits = fmt.Sprintf(waits, s.Count(s.Primary().ID).Healthy, s.DesiredCount)
	}
	r := Reason{Code: WhyStage, Text: where + " and waits " + waits, Until: a.deadline()}
	if _, back := s.RollbackTarget(); !r.Until.IsZero() && back {
		r.Then = "it is rolled back"
	} else if !r.Until.IsZero() {
		r.Then = "it is given up"
	}
	return []Reason{r}
}
