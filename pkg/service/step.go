package service

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Input is a fact or a request: what Step takes.
type Input interface{ input() }

type (
	// Updated asks for changes; a nil field leaves things as they are. The caller has
	// checked them (Validate). With Spec a new deployment begins.
	Updated struct {
		DesiredCount *int
		Config       *Config
		Spec         *Spec
		// Grown takes the place of the primary deployment's spec: it has other numbered copies behind those of that one.
		Grown *Spec
		// Notes become events.
		Notes []string
	}
	// RollbackRequested asks for the deployment of RollbackTarget. A deployment that is under way returns as its strategy
	// says. After it has ended, all connections move back at once, without the hooks, alarms and waits of the strategy,
	// unless Gradual.
	RollbackRequested struct{ Gradual bool }
	// AbortRequested asks for the attempt that has not ended to be given up as it is.
	AbortRequested struct{}
	// DeleteRequested asks for everything to be stopped and removed.
	DeleteRequested struct{}
	// Seen is a new observation of a task.
	Seen struct {
		ID string
		Observation
	}
	// Vanished is the end of the record of a task.
	Vanished struct{ ID string }
	// Done answers an effect. Refused is why it was not done; empty: it was. A removal is
	// done when the task is gone, a stop when it was asked for.
	Done struct{ ID, Refused string }
	// Heard is which listeners could not be opened; none if all are open.
	Heard struct{ Not []Unheard }
	// HookAnswered answers CallHook. Status is HookSucceeded, HookFailed or HookInProgress; the call is
	// repeated after CallBackDelay then (0 stands for DefaultCallBackDelay), with Details added to those of
	// the hook. Reason is why it failed: what it answered, or why it could not be called, with the end of
	// its output.
	HookAnswered struct {
		ID            string
		Number        int
		Status        HookStatus
		CallBackDelay time.Duration
		Details       json.RawMessage
		Reason        string
	}
	// ContinueRequested answers the pause of an id: the deployment continues, or is rolled back.
	ContinueRequested struct {
		ID       string
		Rollback bool
	}
	// AlarmsChecked answers CheckAlarms: the names of those that are raised, or why that is unknown.
	AlarmsChecked struct {
		Attempt int
		Raised  []string
		Problem string
	}
	// WakeRequested asks for a service that sleeps to wake without a connection; By names the one who asks.
	WakeRequested struct{ By string }
	// TimerFired is the arrival of Wake.
	TimerFired struct{}
	// ClockChanged is a step of the host's clock: forward by a time, or back if it is negative. The
	// times that a deployment waits for move with it.
	ClockChanged struct{ By time.Duration }
)

func (Updated) input()           {}
func (RollbackRequested) input() {}
func (AbortRequested) input()    {}
func (DeleteRequested) input()   {}
func (Seen) input()              {}
func (Vanished) input()          {}
func (Done) input()              {}
func (Heard) input()             {}
func (HookAnswered) input()      {}
func (ContinueRequested) input() {}
func (AlarmsChecked) input()     {}
func (WakeRequested) input()     {}
func (TimerFired) input()        {}
func (ClockChanged) input()      {}

// Effect is something to be done.
type Effect interface{ effect() }

type (
	// StartTask makes the task of an id, if there is none, and lets it run.
	StartTask struct{ ID string }
	// DrainTask waits until the connections of a task that is no longer in Rotation have
	// ended, at most for the drain timeout. It comes before StopTask if there are listeners.
	DrainTask struct{ ID string }
	// StopTask asks a task to stop. One that is not there is an answer Vanished. With Spare
	// one that is protected is left alone.
	StopTask struct {
		ID, Cause string
		Spare     bool
	}
	// RemoveTask removes a task that has stopped, likewise.
	RemoveTask struct{ ID string }
	// CallHook asks the hook of the call of an id, as State.HookRequest has it, and is answered with
	// HookAnswered. Number tells repeated calls apart. A call that is no longer open in the state may be
	// given up. After a restart of the agent a call that was not answered is made again.
	CallHook struct {
		ID     string
		Number int
	}
	// CheckAlarms asks the alarms of the attempt of a number, as its Method has them.
	CheckAlarms struct{ Attempt int }
)

func (StartTask) effect()   {}
func (DrainTask) effect()   {}
func (StopTask) effect()    {}
func (RemoveTask) effect()  {}
func (CallHook) effect()    {}
func (CheckAlarms) effect() {}

// Step takes in what has happened and returns the next state with what is to be done once
// that state is saved. The given state is left as it is.
func Step(s State, at time.Time, in Input) (State, []Effect) {
	s = s.clone()
	s.recall()
	s.fold(at, in)
	s.mendClock(at)
	for i := range s.Tasks {
		s.Tasks[i].HealthyNow = s.Tasks[i].isHealthy(at)
	}
	s.reportUnplaced(at)
	s.judge(at)
	s.remember(at)
	s.rest(at)
	s.advance(at)
	s.schedule(at)
	s.settle(at)
	if s.rest(at); s.Rest.Asleep { // its deployment may have been completed, or tried, just now
		s.schedule(at)
	}
	s.tally(at)
	s.pruneRevisions()
	return s, s.effects(at)
}

// fold takes in what has happened.
func (s *State) fold(at time.Time, in Input) {
	switch in := in.(type) {
	case Updated:
		s.applyUpdate(at, in)
	case RollbackRequested:
		if d, ok := s.RollbackTarget(); ok {
			s.say(at, "(deployment %s) is rolled back to (deployment %s) as asked.", s.Primary().ID, d.ID)
			s.prefer(d.ID)
			m := s.Config.Method
			if !in.Gradual {
				m = m.atOnce()
			}
			s.restore(at, d, m, Asked)
		}
	case AbortRequested:
		s.abort(at)
	case DeleteRequested:
		if s.Status != Draining {
			s.Status = Draining
			s.say(at, "is to be removed.")
			s.stopAttempt(at, "the service is removed")
		}
	case Seen:
		if t := s.task(in.ID); t != nil {
			s.observe(at, t, in.Observation)
		}
	case Vanished:
		if t := s.task(in.ID); t != nil && t.Phase != Wanted {
			s.drop(in.ID)
		}
	case Done:
		if t := s.task(in.ID); t != nil && t.Phase == Removing && in.Refused == "" {
			s.drop(in.ID)
		} else if t != nil {
			s.finish(at, t, in.Refused)
		}
	case Heard:
		s.hear(at, in.Not)
	case HookAnswered:
		s.answer(at, in)
	case ContinueRequested:
		s.resolve(at, in)
	case AlarmsChecked:
		s.checked(at, in)
	case Used:
		s.use = use{Used: in, known: true}
	case WakeRequested:
		if s.Status == Active && s.Rest.Asleep {
			s.wake(at, in.By+" asks for it")
		}
	case ClockChanged:
		s.moveTimes(in.By)
	case TimerFired:
	}
}

func (s *State) applyUpdate(at time.Time, in Updated) {
	if s.Status != Active {
		return
	}
	if in.Config != nil {
		before := s.Config.Names
		s.Config = *in.Config
		s.sayNames(at, before)
	}
	if p := &s.Deployments[0]; in.Grown != nil {
		p.Spec = *in.Grown
		for i := range s.Completed {
			if c := &s.Completed[i]; c.ID == p.ID {
				c.Spec = *in.Grown
			}
		}
	}
	if in.DesiredCount != nil && *in.DesiredCount != s.DesiredCount {
		s.say(at, "has a desired count of %d instead of %d.", *in.DesiredCount, s.DesiredCount)
		if p := &s.Deployments[0]; s.DesiredCount == 0 && !s.proven(p.ID) {
			p.Rollout, p.FailedTasks = InProgress, 0
			s.resumeAttempt(at)
		}
		s.DesiredCount, s.Steady = *in.DesiredCount, false
	}
	if in.Spec != nil {
		s.deploy(at, *in.Spec)
	}
	for _, note := range in.Notes {
		s.say(at, "%s", note)
	}
}

// replacedBy begins the reason of an attempt that a newer one has stopped.
const replacedBy = "replaced by deployment "

// deploy begins a new deployment.
func (s *State) deploy(at time.Time, spec Spec) {
	s.LastDeployment++
	id, sources := fmt.Sprintf("%s/%d", s.Name, s.LastDeployment), Shares(*s)
	s.stopAttempt(at, fmt.Sprintf(replacedBy+"%s (%s)", id, spec.TaskDefinition))
	s.makePrimary(at, Deployment{ID: id, Spec: spec, CreatedAt: at})
	s.noteRevision(s.Primary(), s.Config.Client)
	s.say(at, "(deployment %s) began with %s.", s.Primary().ID, spec.TaskDefinition)
	s.beginAttempt(at, s.Config.Method, sources)
}

// restore makes an earlier deployment the primary one again: its tasks that are still
// there stay. A method is for a new attempt; one that is under way keeps its own.
func (s *State) restore(at time.Time, d Deployment, m Method, reason string) {
	sources := Shares(*s)
	d.FailedTasks, d.LastFailure, d.Reason, d.Rollback, d.FailedAt = 0, "", "", false, time.Time{}
	s.makePrimary(at, d)
	s.returnTo(at, m, reason, sources)
}

// Aborted is the reason of a deployment that AbortRequested has stopped, Asked that of one that RollbackRequested
// has replaced.
const (
	Aborted = "a user stopped it"
	Asked   = "a user asked for it"
)

// abort gives up the attempt: no more copies are made or stopped.
func (s *State) abort(at time.Time) {
	if s.History.current() == nil {
		return
	}
	p := &s.Deployments[0]
	p.Rollout, p.Reason = Failed, Aborted
	s.say(at, "(deployment %s) deployment stopped as asked.", p.ID)
	s.stopAttempt(at, Aborted)
}

func (s *State) makePrimary(at time.Time, d Deployment) {
	others := slices.DeleteFunc(s.Deployments, func(o Deployment) bool { return o.ID == d.ID })
	for i := range others {
		others[i].Primary = false
	}
	d.Primary, d.Rollout, d.UpdatedAt = true, InProgress, at
	s.Deployments = append([]Deployment{d}, others...)
	s.BackOff, s.Steady = BackOff{}, false
}

// prefer has later rollbacks return to a deployment that was completed, because a user has.
func (s *State) prefer(id string) {
	if i := slices.IndexFunc(s.Completed, func(d Deployment) bool { return d.ID == id }); i > 0 {
		d := s.Completed[i]
		s.Completed = slices.Insert(slices.Delete(s.Completed, i, i+1), 0, d)
	}
}

// RollbackTarget is the deployment that a rollback would return to: the last one that was completed and is
// not the primary one, or the one whose copies run beside those of the primary one.
func (s State) RollbackTarget() (Deployment, bool) {
	i := slices.IndexFunc(s.Completed, func(d Deployment) bool { return d.ID != s.Primary().ID })
	if a := s.staged(); a != nil && !a.Progress.Back && !a.rolls() {
		if d, ok := s.Deployment(a.Progress.Blue); ok && (i < 0 || s.proven(d.ID)) {
			return d, true
		}
	}
	if i < 0 {
		return Deployment{}, false
	}
	return s.Completed[i], true
}

// proven: all copies of the deployment were healthy once.
func (s *State) proven(id string) bool {
	return slices.ContainsFunc(s.Completed, func(d Deployment) bool { return d.ID == id })
}

func (s *State) drop(id string) {
	s.Tasks = slices.DeleteFunc(s.Tasks, func(t Task) bool { return t.ID == id })
}

func (s *State) task(id string) *Task {
	i := slices.IndexFunc(s.Tasks, func(t Task) bool { return t.ID == id })
	if i < 0 {
		return nil
	}
	return &s.Tasks[i]
}

// observe takes in what became of a task.
func (s *State) observe(at time.Time, t *Task, seen Observation) {
	if !t.present() {
		return
	}
	asked := t.Phase == Stopping
	if t.Phase == Wanted {
		t.Phase = Live
	}
	t.Seen, t.Refused, t.fresh = seen, "", true
	s.announce(at, seen.Stopped)
	switch {
	case seen.Queue == "":
		t.QueuedAt, t.Unplaced = time.Time{}, false
	case t.QueuedAt.IsZero():
		t.QueuedAt = at
	}
	if asked && s.Status == Active && t.spared(at) { // before it was asked to stop
		t.Phase, t.Cause, t.Drained, asked = Live, "", false, false
		t.notUntil = time.Time{}
	}
	if seen.Stopped {
		t.Phase, t.op = Stopped, idle
		if !asked && !seen.ByUser {
			s.countFailure(at, t, seen.Reason)
		} else if !asked {
			s.say(at, "(task %s) was %s.", s.TaskName(*t), stoppedBy(seen.Reason))
		}
	}
}

// stoppedBy is a stopped reason that a request gave. It may be free text of a client.
func stoppedBy(reason string) string {
	if strings.HasPrefix(reason, "stopped by ") {
		return reason
	}
	return "stopped by a user: " + reason
}

// remember notes since when tasks have been healthy, once it is known which have failed. One that
// becomes healthy has the failures of its deployment counted from zero again.
func (s *State) remember(at time.Time) {
	for i := range s.Tasks {
		t := &s.Tasks[i]
		switch {
		case t.Phase == Stopped: // HealthySince is still needed
		case !t.Healthy():
			t.HealthySince = time.Time{}
		case t.HealthySince.IsZero():
			t.HealthySince = at
			if p := &s.Deployments[0]; t.Deployment == p.ID && p.Rollout == InProgress && !s.Config.Breaker.Cumulative {
				p.FailedTasks = 0
			}
		}
	}
}

// announce lists the tasks that were started: placed, as ECS has it, not only asked for. Tasks that were made together are
// named together, as soon as it is known of each whether it was placed or waits; at once if hurried.
func (s *State) announce(at time.Time, hurried bool) {
	var names []string
	for _, t := range s.Tasks {
		switch {
		case !t.Unannounced || t.Phase == Stopped || t.Phase == Removing:
		case t.Seen.placed():
			names = append(names, s.TaskName(t))
		case t.Phase != Stopping && t.Refused == "" && t.Seen.Queue == "" && !hurried:
			return
		}
	}
	if len(names) == 0 {
		return
	}
	for i := range s.Tasks {
		if t := &s.Tasks[i]; t.Seen.placed() {
			t.Unannounced = false
		}
	}
	s.say(at, "has started %d tasks: (task %s).", len(names), strings.Join(names, ") (task "))
}

// placed: the task has its share of the host, or had it.
func (o Observation) placed() bool { return o.Placed || o.Running || o.Stopped && !o.ByUser }

// reportUnplaced says once what a task waits for that has been in the queue for queueNotice.
func (s *State) reportUnplaced(at time.Time) {
	for i := range s.Tasks {
		if t := &s.Tasks[i]; t.awaitsNotice() && !at.Before(t.QueuedAt.Add(queueNotice)) {
			t.Unplaced = true
			s.say(at, "was unable to place a task because it waits for %s (task %s).", t.Seen.Queue, s.TaskName(*t))
		}
	}
}

// awaitsNotice: the task is in the queue, and no event says so yet.
func (t Task) awaitsNotice() bool {
	return t.Phase == Live && t.Seen.Queue != "" && !t.Unplaced && !t.QueuedAt.IsZero()
}

// finish takes in the answer to an effect.
func (s *State) finish(at time.Time, t *Task, refused string) {
	drained := t.op == draining
	t.op = idle
	switch {
	case drained:
		t.Drained = t.Phase == Stopping
	case refused != "":
		t.notUntil = at.Add(retryAfter)
		if t.Phase == Wanted && t.Refused != refused {
			s.say(at, "was unable to place a task because %s (task %s).", refused, s.TaskName(*t))
		}
		t.Refused = refused
	case t.Phase == Wanted:
		t.Phase, t.Refused = Live, ""
	case t.Phase == Stopping && t.maySpare(s): // in case it was protected for a moment
		t.notUntil = at.Add(repeatStop)
	case t.Phase == Stopping:
		t.op = done
	}
}

// countFailure counts a task that has failed.
func (s *State) countFailure(at time.Time, t *Task, reason string) {
	if t.Failed {
		return
	}
	t.Failed = true
	s.say(at, "(task %s) failed: %s.", s.TaskName(*t), reason)
	for i := range s.Deployments {
		if d := &s.Deployments[i]; d.ID == t.Deployment {
			d.FailedTasks++
			d.LastFailure = reason
		}
	}
	b := s.backOff(t.Deployment)
	if b == nil {
		return
	}
	if !t.HealthySince.IsZero() && at.Sub(t.HealthySince) >= forgiven {
		*b = BackOff{}
	}
	if t.Number > b.Known {
		b.Streak++
		b.Known = s.LastTask
	}
	if pause := backOff(b.Streak); pause > 0 {
		b.NotUntil = at.Add(pause)
		s.say(at, "is unable to consistently start tasks successfully; the next is due in %s.", pause)
	}
}

// backOff delays the tasks of a deployment; nil if none are made.
func (s *State) backOff(id string) *BackOff {
	if id == s.Primary().ID {
		return &s.BackOff
	}
	i := slices.IndexFunc(s.Deployments, func(d Deployment) bool { return d.ID == id })
	if a := s.staged(); a == nil || a.rolls() || i < 0 {
		return nil
	}
	return &s.Deployments[i].BackOff
}

// backOff returns the pause before the next task after streak failures in a row: none
// after the first, then 1 s, doubled each time.
func backOff(streak int) time.Duration {
	if streak < 2 {
		return 0
	}
	return min(MaxBackOff, time.Second<<min(streak-2, 20))
}

// say adds an event.
func (s *State) say(at time.Time, format string, args ...any) {
	s.LastEvent++
	message := fmt.Sprintf("(service %s) ", s.Name) + fmt.Sprintf(format, args...)
	s.Events = append(s.Events, Event{ID: s.LastEvent, CreatedAt: at, Message: message})
	if n := len(s.Events); n > keptEvents {
		s.Events = slices.Clone(s.Events[n-keptEvents:])
	}
}
