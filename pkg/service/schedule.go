package service

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// judge counts unhealthy tasks as failed, and trips the circuit breaker.
func (s *State) judge(at time.Time) {
	for i := range s.Tasks {
		if t := &s.Tasks[i]; t.Phase == Live && !t.Failed && s.isUnhealthy(at, *t) {
			s.countFailure(at, t, "it failed container health checks")
		}
	}
	p := s.Primary()
	if !s.breakerDue() || at.Before(p.UpdatedAt.Add(leastRollout)) {
		return
	}
	s.tripBreaker(at)
	why := fmt.Sprintf("circuit breaker: %d tasks failed, the last: %s", p.FailedTasks, p.LastFailure)
	s.giveUp(at, failure{why: why, event: "tasks failed to start", cause: p.LastFailure}, s.Config.Breaker.Rollback)
}

// breakerDue reports whether so many tasks of the deployment have failed that the circuit breaker
// ends it. If there is none to return to, it keeps trying, with growing pauses.
func (s State) breakerDue() bool { return s.Primary().FailedTasks >= s.Threshold() && s.guarded() }

// guarded reports whether the circuit breaker would end the deployment if enough of its tasks failed.
func (s State) guarded() bool {
	p := s.Primary()
	if s.Status != Active || !s.Config.Breaker.Enable || p.Rollout != InProgress || p.Rollback {
		return false
	}
	if a := s.staged(); a != nil && a.Progress.Back {
		return false
	}
	_, back := s.RollbackTarget()
	return back
}

// Threshold is the number of tasks of a deployment that may fail before it has failed.
func (s State) Threshold() int { return s.Config.Breaker.Threshold.of(s.target()) }

func (t Threshold) of(count int) int {
	if t.Type == "" {
		t = Threshold{Type: BoundedPercent, Value: 50}
	}
	part := (count*t.Value + 99) / 100
	switch t.Type {
	case ThresholdCount:
		return t.Value
	case UnboundedPercent:
		return max(part, 1)
	case BoundedPercent:
	}
	return min(max(part, 3), 200)
}

// isUnhealthy: the task is UNHEALTHY, and not only because it is young.
func (s *State) isUnhealthy(at time.Time, t Task) bool {
	return t.Seen.Running && t.Seen.Health == Unhealthy && !at.Before(t.Seen.Since.Add(s.Config.HealthCheckGracePeriod))
}

// hasFailed: the primary deployment has failed and there is no way back.
func (s *State) hasFailed() bool { return s.Deployments[0].Rollout == Failed }

// schedule lists the tasks that are to stop and those that are to be made.
func (s *State) schedule(at time.Time) {
	var stopped, pending []string
	finishing := 0
	stop := func(t *Task, cause string) {
		t.Phase, t.Cause, t.notUntil = Stopping, cause, time.Time{}
		if !t.Seen.Running {
			pending = append(pending, s.TaskName(*t))
			return
		}
		stopped = append(stopped, s.TaskName(*t))
		if drains(*s, *t) {
			finishing++
		}
	}
	switch {
	case s.Status == Draining:
		for i := range s.Tasks {
			if t := &s.Tasks[i]; t.mayStop() {
				stop(t, "the service is removed")
			}
		}
	case !s.hasFailed():
		s.stopTasks(at, stop)
	}
	if finishing > 0 {
		s.say(at, "has begun draining connections on %d tasks.", finishing)
	}
	if len(stopped) > 0 {
		s.say(at, "has stopped %d tasks: (task %s).", len(stopped), strings.Join(stopped, ") (task "))
	}
	if len(pending) > 0 {
		s.say(at, "stopped %d pending tasks: (task %s).", len(pending), strings.Join(pending, ") (task "))
	}
	if s.Status == Active && !s.hasFailed() {
		s.wantTasks(at)
	}
	s.forget()
}

// stopTasks stops what is too much, or is to be replaced and can be spared.
func (s *State) stopTasks(at time.Time, stop func(*Task, string)) {
	a := s.staged()
	switch {
	case a == nil:
	case !a.rolls():
		s.stopSets(at, a, stop)
		return
	case a.Progress.Stage == PreScaleUp:
		return
	}
	primary := s.Primary()
	least, most := s.Limits()
	kept := s.keptOf(primary.ID)
	for _, t := range s.expendable() {
		if s.holdsStop() {
			return
		}
		counts := s.Count("")
		old, spare := t.Deployment != primary.ID, !t.Healthy() || counts.Healthy > least
		switch {
		case t.spared(at):
		case old && spare:
			stop(t, "replaced by deployment "+primary.ID)
		case old:
		case t.Failed:
			// Its replacement comes first if there is room.
			replaced := s.Count(primary.ID).Healthy >= s.target() || counts.Present >= most || primary.Numbered != nil
			if spare && (replaced || t.Healthy()) {
				stop(t, "it failed container health checks")
			}
		case s.surplus(*t, kept) && spare:
			kept--
			stop(t, s.surplusCause())
		}
	}
}

// surplusCause is the reason for which a surplus copy is stopped.
func (s *State) surplusCause() string {
	if s.Rest.Asleep {
		return sleepCause
	}
	return "the desired count is lower"
}

// mayStop: the task is not to stop yet, and no effect on it is under way.
func (t Task) mayStop() bool {
	return (t.Phase == Wanted || t.Phase == Live) && t.op != busy && t.op != draining
}

// expendable are the tasks that may be stopped: first those that are not healthy, then the
// youngest.
func (s *State) expendable() (tasks []*Task) {
	for i := range s.Tasks {
		if t := &s.Tasks[i]; t.mayStop() {
			tasks = append(tasks, t)
		}
	}
	worth := func(t *Task) int {
		switch {
		case t.Healthy():
			return 2
		case t.Seen.Running:
			return 1
		}
		return 0
	}
	slices.SortStableFunc(tasks, func(a, b *Task) int {
		return cmp.Or(worth(a)-worth(b), laterFirst(a, b))
	})
	return tasks
}

// wantTasks adds tasks of each deployment as far as there is room for them and their predecessors'
// failures allow.
func (s *State) wantTasks(at time.Time) {
	lacking, due := s.lacking(), s.breakerDue()
	for i, d := range s.Deployments {
		n, b := lacking[d.ID], s.backOff(d.ID)
		if n <= 0 || b == nil || at.Before(b.NotUntil) || i == 0 && due {
			continue
		}
		if i == 0 {
			n = min(n, s.mayFail())
		}
		var copies []int
		if d.Numbered != nil {
			copies = s.missing()
		}
		for k := range n {
			s.LastTask++
			t := Task{ID: s.TaskID(s.LastTask), Number: s.LastTask, Deployment: d.ID, Phase: Wanted, WantedAt: at, Unannounced: true}
			if k < len(copies) {
				t.Copy = copies[k]
			}
			s.Tasks = append(s.Tasks, t)
		}
	}
}

// mayFail is the number of tasks that may be made of a deployment of which some have failed: if all of them and those that
// have not yet been healthy fail too, the circuit breaker's threshold is reached and not passed. Without a failure, or
// a circuit breaker that could act, there is no limit.
func (s *State) mayFail() int {
	p := s.Primary()
	if !s.guarded() || p.FailedTasks == 0 {
		return math.MaxInt
	}
	unproven := 0
	for _, t := range s.Tasks {
		if t.Deployment == p.ID && t.present() && !t.Failed && t.HealthySince.IsZero() {
			unproven++
		}
	}
	return max(0, s.Threshold()-p.FailedTasks-unproven)
}

// forget has stopped tasks removed, but for the latest.
func (s *State) forget() {
	keep := keptStopped
	if s.Status == Draining {
		keep = 0
	}
	for i := len(s.Tasks) - 1; i >= 0; i-- {
		if t := &s.Tasks[i]; t.Phase == Stopped {
			if keep--; keep < 0 {
				t.Phase, t.notUntil = Removing, time.Time{}
			}
		}
	}
}

// settle notes that a deployment without stages is completed, and that all is as desired.
func (s *State) settle(at time.Time) {
	a := s.History.current()
	if s.Deployments[0].Rollout == InProgress && s.staged() == nil && (s.whole() || a != nil && a.Return == nil && s.early(a.Method.Early)) {
		s.complete(at)
	}
	whole := s.whole() && s.Deployments[0].Rollout != InProgress
	if whole {
		s.Deployments = slices.DeleteFunc(s.Deployments, func(d Deployment) bool { return !d.Primary && !d.isShown(at) })
	}
	if whole && !s.Steady {
		s.say(at, "has reached a steady state.")
	}
	s.Steady = whole
}

// whole reports whether there are as many healthy copies of the primary deployment as desired, and no others.
func (s *State) whole() bool {
	mine, all := s.Count(s.Primary().ID), s.Count("")
	return s.Status == Active && mine.Healthy == s.target() && all.Present == s.target()
}

// early reports whether so many copies are replaced that the deployment has succeeded.
func (s *State) early(e EarlySuccess) bool {
	if !e.Enable || s.Status != Active || s.target() == 0 {
		return false
	}
	mine, all := s.Count(s.Primary().ID), s.Count("")
	return mine.Healthy >= max(1, (s.target()*e.HealthyPercent+99)/100) && (e.Deferred || mine.Present == all.Present)
}

// complete ends the rollout of the primary deployment: it has succeeded.
func (s *State) complete(at time.Time) {
	s.completeAttempt(at)
	p := &s.Deployments[0]
	p.Rollout, p.UpdatedAt = Completed, at
	s.noteCompleted()
	s.say(at, "(deployment %s) deployment completed.", p.ID)
}

// noteCompleted notes that a rollback may return to the primary deployment.
func (s *State) noteCompleted() {
	if p := s.Primary(); s.DesiredCount > 0 { // none at all prove nothing
		p.Rollout = Completed
		others := slices.DeleteFunc(slices.Clone(s.Completed), func(d Deployment) bool { return d.ID == p.ID })
		s.Completed = append([]Deployment{p}, others[:min(len(others), keptCompleted-1)]...)
	}
}

// isShown reports whether a deployment without tasks is listed still, because it has just failed.
func (d Deployment) isShown(at time.Time) bool {
	return !d.FailedAt.IsZero() && at.Before(d.FailedAt.Add(shownFailed))
}

// effects are the effects to begin now.
func (s *State) effects(at time.Time) (effects []Effect) {
	for i := range s.Tasks {
		t := &s.Tasks[i]
		if t.op != idle || at.Before(t.notUntil) {
			continue
		}
		switch t.Phase {
		case Wanted:
			effects = append(effects, StartTask{ID: t.ID})
		case Stopping:
			if drains(*s, *t) {
				t.op = draining
				effects = append(effects, DrainTask{ID: t.ID})
				continue
			}
			effects = append(effects, StopTask{ID: t.ID, Cause: t.Cause, Spare: t.maySpare(s)})
		case Removing:
			effects = append(effects, RemoveTask{ID: t.ID})
		case Live, Stopped:
			continue
		}
		t.op = busy
	}
	return slices.Concat(effects, s.startCalls(at), s.startCheck(at))
}

// Wake is the time at which TimerFired is due; zero for never.
func (s State) Wake(at time.Time) (wake time.Time) {
	sooner := func(t time.Time) {
		if t.After(at) && (wake.IsZero() || t.Before(wake)) {
			wake = t
		}
	}
	sooner(s.BackOff.NotUntil)
	s.wakeStage(sooner)
	s.wakeRest(sooner)
	if s.breakerDue() {
		sooner(s.Primary().UpdatedAt.Add(leastRollout))
	}
	for _, d := range s.Deployments[1:] {
		sooner(d.BackOff.NotUntil)
		if d.isShown(at) {
			sooner(d.FailedAt.Add(shownFailed))
		}
	}
	for _, t := range s.Tasks {
		if t.op == idle {
			sooner(t.notUntil)
		}
		if t.Phase == Live && t.Seen.Running && t.Seen.Health == Unchecked {
			sooner(t.Seen.Since.Add(monitor))
		}
		if t.awaitsNotice() {
			sooner(t.QueuedAt.Add(queueNotice))
		}
		if t.Phase == Live {
			sooner(t.Seen.Protected)
		}
		if t.Phase == Live && t.Seen.Health == Unhealthy {
			sooner(t.Seen.Since.Add(s.Config.HealthCheckGracePeriod))
		}
	}
	return wake
}
