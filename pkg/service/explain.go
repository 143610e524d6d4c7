package service

import (
	"fmt"
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
	WhyProtected = "protected"
)

// Explain says what the service waits for, the root cause first. There is always a reason.
func (s State) Explain(at time.Time) (reasons []Reason) {
	add := func(r Reason) { reasons = append(reasons, r) }
	p, c := s.Primary(), s.Count("")
	if s.Status == Draining {
		add(Reason{Code: WhyRemoving, Text: fmt.Sprintf("it is being removed: %d of its tasks are left", len(s.Tasks))})
		return reasons
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
		add(Reason{Code: WhyListener, Text: fmt.Sprintf("it cannot listen on %s: %s", l.Address, l.Problem), Then: "it is tried again"})
	}
	if at.Before(s.BackOff.NotUntil) {
		add(Reason{Code: WhyBackOff, Text: fmt.Sprintf("tasks of %s keep failing, %d times in a row; the last: %s", p.TaskDefinition, s.BackOff.Streak, p.LastFailure), Until: s.BackOff.NotUntil, Then: "the next is created"})
	}
	if mine := s.Count(p.ID); p.Rollout == InProgress && mine.Present < c.Present {
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
