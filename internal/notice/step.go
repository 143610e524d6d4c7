package notice

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Event is something that happened, as the event log of the host has it.
type Event struct {
	Seq      uint64
	At       time.Time
	About    About
	Status   string
	Reason   string
	ExitCode *int
}

// Statuses of events. Those of tasks and containers are ECS's.
const (
	running, stopped, restarting, healthy, unhealthy = "RUNNING", "STOPPED", "RESTARTING", "HEALTHY", "UNHEALTHY"
	infra                                            = "~infra"
)

// Statuses of events of deployments and schedules.
const (
	DeploymentDone        = "SUCCESSFUL"
	DeploymentReturning   = "ROLLBACK_IN_PROGRESS"
	DeploymentReturned    = "ROLLBACK_SUCCESSFUL"
	DeploymentNotReturned = "ROLLBACK_FAILED"
	// DeploymentFailed: it was given up without a rollback.
	DeploymentFailed = "FAILED"
	RunMissed        = "MISSED"
	RunFailed        = "FAILED"
	RunSucceeded     = "SUCCEEDED"
)

// loopTime and loopCount: that many failures within that time are a crash loop.
const (
	loopTime  = 10 * time.Minute
	loopCount = 5
)

// Step takes in events, whose numbers grow, and what has become due.
func Step(rules []Rule, s State, now time.Time, events []Event) State {
	s = s.clone()
	st := &step{State: &s, rules: rules, now: now}
	st.clock()
	for _, e := range events {
		if e.Seq <= s.Cursor {
			continue
		}
		st.event(e)
		s.Cursor = e.Seq
	}
	st.tick()
	s.prune(now)
	return s
}

// clock brings times of a clock that was set back since to now: nothing waits for the time by which it was.
func (s *step) clock() {
	for rule, r := range s.Rules {
		if r.Next.Sub(s.now) > farthest {
			r.Next = s.now
			s.Rules[rule] = r
		}
	}
	for key, o := range s.Open {
		for _, t := range []*time.Time{&o.WellAt, &o.Last} {
			if t.After(s.now) {
				*t = s.now
			}
		}
		o.Told = maps.Clone(o.Told)
		for rule, at := range o.Told {
			if at.After(s.now) {
				o.Told[rule] = s.now
			}
		}
		s.Open[key] = o
	}
	for what, all := range s.Restarts { // those of a time that has not come count in no row
		all = slices.DeleteFunc(slices.Clone(all), func(at time.Time) bool { return at.After(s.now) })
		if s.Restarts[what] = all; len(all) == 0 {
			delete(s.Restarts, what)
		}
	}
}

// forget drops what was for rules that are gone.
func (s *step) forget() {
	gone := func(rule string) bool {
		return !slices.ContainsFunc(s.rules, func(r Rule) bool { return r.Name == rule })
	}
	s.Outbox = slices.DeleteFunc(s.Outbox, func(m Message) bool { return gone(m.Rule) })
	maps.DeleteFunc(s.Rules, func(rule string, _ RuleState) bool { return gone(rule) })
}

// Look is a condition that is a state, as it is now: reasons why it is not well, by subject.
type Look struct {
	Condition Condition
	Bad       map[string]string
}

// Observe takes in how the conditions are that are no events.
func Observe(rules []Rule, s State, now time.Time, looks []Look) State {
	s = s.clone()
	st := &step{State: &s, rules: rules, now: now}
	for _, l := range looks {
		for _, key := range slices.Sorted(maps.Keys(s.Open)) {
			if o := s.Open[key]; o.Condition == l.Condition && l.Bad[o.Subject] == "" {
				st.well(key, now)
			}
		}
		for _, subject := range slices.Sorted(maps.Keys(l.Bad)) {
			st.bad(l.Condition, subject, Event{At: now, About: About{Kind: Host, Name: subject}, Reason: l.Bad[subject]})
		}
	}
	st.tick()
	s.prune(now)
	return s
}

type step struct {
	*State
	rules []Rule
	now   time.Time
}

// event takes in one event.
func (s *step) event(e Event) {
	switch a := e.About; {
	case e.Status == "" || a.Container == infra:
	case a.Kind == Schedule && a.Task == "":
		s.schedule(e)
	case a.Kind == Service && a.Task == "", a.Task == "":
		s.deployment(e)
	case a.Container == "":
		s.task(e)
	default:
		s.container(e)
	}
}

// subject is the name under which the failures of a task are counted: the service, the schedule or the name that outlives it. Alone: nothing does.
func subject(a About) (name string, alone bool) {
	switch {
	case a.Service != "":
		return "service/" + a.Service, false
	case a.Schedule != "":
		return "schedule/" + a.Schedule, false
	case a.Name != "" && a.Name != a.Task:
		return "task/" + a.Name, false
	}
	return "task/" + a.Task, true
}

// task: a task runs, or has ended.
func (s *step) task(e Event) {
	name, _ := subject(e.About)
	failed := e.Status == stopped && e.ExitCode != nil && *e.ExitCode != 0 && !strings.HasPrefix(e.Reason, "UserInitiated")
	switch {
	case failed:
		s.bad(Failed, name, e)
		s.count(name, name, e)
	case e.Status == running, e.Status == stopped:
		s.well(key(Failed, name), e.At)
	}
	if e.Status != stopped {
		return
	}
	if e.About.Schedule != "" {
		if failed {
			s.bad(ScheduleFailed, name, e)
		} else {
			s.wellRun(name, e.At)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(s.Open)) {
		if o := s.Open[k]; o.About.Task == e.About.Task {
			o.Gone = true
			s.Open[k] = o
		}
	}
}

// container: the health of a container has changed, or it was restarted.
func (s *step) container(e Event) {
	name, _ := subject(e.About)
	each := name + "/" + e.About.Container
	switch e.Status {
	case unhealthy:
		s.bad(Unhealthy, each, e)
	case healthy:
		if o, open := s.Open[key(Unhealthy, each)]; open && (o.Gone || o.About.Task == e.About.Task) {
			s.well(key(Unhealthy, each), e.At)
		}
	case restarting:
		s.count(e.About.Task+"/"+e.About.Container, each, e)
	}
}

// count notes a failure of what, and opens a crash loop of subject if there are too many.
func (s *step) count(what, subject string, e Event) {
	if !slices.ContainsFunc(s.rules, func(r Rule) bool { return slices.Contains(r.On, CrashLoop) }) {
		return
	}
	at := slices.DeleteFunc(slices.Clone(s.Restarts[what]), func(t time.Time) bool { return e.At.Sub(t) > loopTime })
	at = append(at, e.At)
	at = at[max(0, len(at)-loopCount):]
	s.Restarts[what] = at
	k := key(CrashLoop, subject)
	if _, open := s.Open[k]; len(at) == loopCount || open {
		s.bad(CrashLoop, subject, e)
		s.well(k, e.At) // unless it fails again
	}
}

// deployment: a deployment of a service, or an update of a unit, has ended or goes back.
func (s *step) deployment(e Event) {
	name := string(e.About.Kind) + "/" + e.About.Name
	switch e.Status {
	case DeploymentReturning, DeploymentNotReturned, DeploymentFailed:
		s.bad(RolledBack, name, e)
	case DeploymentReturned:
		if _, open := s.Open[key(RolledBack, name)]; !open { // else it was told when it began
			s.bad(RolledBack, name, e)
		}
	case DeploymentDone:
		s.well(key(RolledBack, name), e.At)
	}
}

// schedule: it is decided what becomes of a due time.
func (s *step) schedule(e Event) {
	name := "schedule/" + e.About.Name
	switch e.Status {
	case RunMissed:
		s.bad(ScheduleMissed, name, e)
	case RunFailed:
		s.bad(ScheduleFailed, name, e)
	case RunSucceeded:
		s.wellRun(name, e.At)
	}
}

func (s *step) wellRun(name string, at time.Time) {
	s.well(key(ScheduleMissed, name), at)
	s.well(key(ScheduleFailed, name), at)
}

func key(c Condition, subject string) string { return string(c) + " " + subject }

// bad opens a condition, or notes that it happened again.
func (s *step) bad(c Condition, subject string, e Event) {
	k := key(c, subject)
	o, open := s.Open[k]
	if !open {
		o = Open{Condition: c, Subject: subject, Since: e.At, Seq: e.Seq}
	}
	o.About, o.Last, o.WellAt, o.Gone, o.Told = e.About, e.At, time.Time{}, false, maps.Clone(o.Told)
	if o.Told == nil {
		o.Told = map[string]time.Time{}
	}
	for _, r := range s.rules {
		told, before := o.Told[r.Name]
		if !r.Matches(c, e.About) || before && (e.At.Sub(told) < againTime || onceOnly(c)) {
			continue
		}
		o.Told[r.Name] = e.At
		s.send(Message{
			ID: id(r.Name, k, e.At, e.Seq), Rule: r.Name, Created: s.now, Count: 1, Condition: c, At: e.At, Since: o.Since, Seq: e.Seq,
			Subject: subject, About: e.About, Status: e.Status, Reason: e.Reason, ExitCode: e.ExitCode,
		})
	}
	if len(o.Told) > 0 && !(c == Failed && strings.HasSuffix(subject, "/"+e.About.Task)) { // nothing follows the end of a task without a name
		s.Open[k] = o
	}
}

func onceOnly(c Condition) bool {
	f, _ := FactOf(c)
	return f.once
}

// well notes since when a condition is well.
func (s *step) well(k string, at time.Time) {
	if o, open := s.Open[k]; open && o.WellAt.IsZero() {
		o.WellAt = at
		s.Open[k] = o
	}
}

// tick does what has become due.
func (s *step) tick() {
	s.forget()
	for _, k := range slices.Sorted(maps.Keys(s.Open)) {
		o := s.Open[k]
		if o.WellAt.IsZero() || s.now.Before(o.WellAt.Add(settleOf(o.Condition))) {
			continue
		}
		delete(s.Open, k)
		for _, r := range s.rules {
			if _, told := o.Told[r.Name]; told && !r.Quiet {
				s.send(Message{
					ID: id(r.Name, "well "+k, o.WellAt, o.Seq), Rule: r.Name, Created: s.now, Count: 1, Condition: o.Condition, Well: true,
					Since: o.Since, At: o.WellAt, Seq: o.Seq, Subject: o.Subject, About: o.About,
				})
			}
		}
	}
	s.flush()
}

func settleOf(c Condition) time.Duration {
	f, _ := FactOf(c)
	return f.settle
}
