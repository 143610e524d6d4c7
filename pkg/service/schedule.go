package service

import (
	"cmp"
	"fmt"
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
	p := &s.Deployments[0]
	back, due := s.breakerDue()
	if !due || at.Before(p.UpdatedAt.Add(leastRollout)) {
		return
	}
	s.tripBreaker(at)
	p.Rollout, p.UpdatedAt = Failed, at
	p.Reason = fmt.Sprintf("circuit breaker: %d tasks failed, the last: %s", p.FailedTasks, p.LastFailure)
	s.say(at, "(deployment %s) deployment failed: tasks failed to start.", p.ID)
	if !s.Config.Breaker.Rollback {
		s.stopAttempt(at, p.Reason)
		return
	}
	p.FailedAt = at
	s.say(at, "rolling back to (deployment %s).", back.ID)
	s.Rollbacks++
	s.restore(at, back, p.Reason)
	s.Deployments[0].Rollback = true
	s.Deployments[0].Reason = fmt.Sprintf("rolled back from (deployment %s): %s", s.Deployments[1].ID, s.Deployments[1].LastFailure)
}

// breakerDue reports whether so many tasks of the deployment have failed that the circuit breaker
// ends it, and to which it may return. If there is none, it keeps trying, with growing pauses.
func (s State) breakerDue() (back Deployment, due bool) {
	p := s.Primary()
	if s.Status != Active || !s.Config.Breaker.Enable || p.Rollout != InProgress || p.Rollback || p.FailedTasks < s.Threshold() {
		return back, false
	}
	return s.RollbackTarget()
}

// Threshold is how many tasks of a deployment may fail before it has failed (ECS: half
// of the desired count, at least 3 and at most 200).
func (s State) Threshold() int { return min(max((s.DesiredCount+1)/2, 3), 200) }

// isUnhealthy: the task is UNHEALTHY, and not only because it is young.
func (s *State) isUnhealthy(at time.Time, t Task) bool {
	return t.Seen.Running && t.Seen.Health == Unhealthy && !at.Before(t.Seen.Since.Add(s.Config.HealthCheckGracePeriod))
}

// hasFailed: the primary deployment has failed and there is no way back.
func (s *State) hasFailed() bool { return s.Deployments[0].Rollout == Failed }

// schedule says which tasks are to stop and which are to be made.
func (s *State) schedule(at time.Time) {
	var stopped []string
	stop := func(t *Task, cause string) {
		t.Phase, t.Cause, t.notUntil = Stopping, cause, time.Time{}
		stopped = append(stopped, s.TaskName(*t))
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
	if len(stopped) > 0 {
		s.say(at, "has stopped %d tasks: (task %s).", len(stopped), strings.Join(stopped, ") (task "))
	}
	if s.Status == Active && !s.hasFailed() {
		s.wantTasks(at)
	}
	s.forget()
}

// stopTasks stops what is too much, or is to be replaced and can be spared.
func (s *State) stopTasks(at time.Time, stop func(*Task, string)) {
	primary := s.Primary()
	least, most := s.Limits()
	kept := 0
	for _, t := range s.Tasks {
		if t.kept() && t.Deployment == primary.ID {
			kept++
		}
	}
	for _, t := range s.expendable() {
		counts := s.Count("")
		old, spare := t.Deployment != primary.ID, !t.Healthy() || counts.Healthy > least
		switch {
		case t.spared(at):
		case old && spare:
			stop(t, "it is replaced by deployment "+primary.ID)
		case old:
		case t.Failed:
			// Its replacement comes first if there is room.
			replaced := s.Count(primary.ID).Healthy >= s.DesiredCount || counts.Present >= most
			if spare && (replaced || t.Healthy()) {
				stop(t, "it failed container health checks")
			}
		case kept > s.DesiredCount && spare:
			kept--
			stop(t, "the desired count is lower")
		}
	}
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
		return cmp.Or(worth(a)-worth(b), b.Number-a.Number)
	})
	return tasks
}

// wantTasks adds tasks of the primary deployment as far as there is room for them and
// their predecessors' failures allow.
func (s *State) wantTasks(at time.Time) {
	primary := s.Primary()
	kept := 0
	for _, t := range s.Tasks {
		if t.kept() && t.Deployment == primary.ID {
			kept++
		}
	}
	_, most := s.Limits()
	n := min(s.DesiredCount-kept, most-s.Count("").Present)
	if _, due := s.breakerDue(); due || n <= 0 || at.Before(s.BackOff.NotUntil) {
		return
	}
	var names []string
	for range n {
		s.LastTask++
		t := Task{ID: s.taskID(s.LastTask), Number: s.LastTask, Deployment: primary.ID, Phase: Wanted, WantedAt: at}
		s.Tasks = append(s.Tasks, t)
		names = append(names, s.TaskName(t))
	}
	s.say(at, "has started %d tasks: (task %s).", n, strings.Join(names, ") (task "))
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

// settle notes that a deployment is completed and that all is as desired.
func (s *State) settle(at time.Time) {
	p := s.Deployments[0]
	mine, all := s.Count(p.ID), s.Count("")
	whole := s.Status == Active && mine.Healthy == s.DesiredCount && all.Present == s.DesiredCount
	if whole && p.Rollout == InProgress {
		s.completeAttempt(at)
		p.Rollout, p.UpdatedAt = Completed, at
		s.Deployments[0] = p
		if s.DesiredCount > 0 { // none at all prove nothing
			others := slices.DeleteFunc(s.Completed, func(d Deployment) bool { return d.ID == p.ID })
			s.Completed = append([]Deployment{p}, others[:min(len(others), keptCompleted-1)]...)
		}
		s.say(at, "(deployment %s) deployment completed.", p.ID)
	}
	if whole {
		s.Deployments = slices.DeleteFunc(s.Deployments, func(d Deployment) bool { return !d.Primary && !d.isShown(at) })
	}
	if whole && !s.Steady {
		s.say(at, "has reached a steady state.")
	}
	s.Steady = whole
}

// isShown reports whether a deployment without tasks is listed still, because it has just failed.
func (d Deployment) isShown(at time.Time) bool {
	return !d.FailedAt.IsZero() && at.Before(d.FailedAt.Add(shownFailed))
}

// effects are what is to be begun now.
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
	return effects
}

// Wake is when TimerFired is due; zero for never.
func (s State) Wake(at time.Time) (wake time.Time) {
	sooner := func(t time.Time) {
		if t.After(at) && (wake.IsZero() || t.Before(wake)) {
			wake = t
		}
	}
	sooner(s.BackOff.NotUntil)
	if _, due := s.breakerDue(); due {
		sooner(s.Primary().UpdatedAt.Add(leastRollout))
	}
	for _, d := range s.Deployments[1:] {
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
