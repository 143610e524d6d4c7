package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/logdriver"
)

// Property names something that must always be so.
type Property string

// The properties, by what each promises.
const (
	Invariants    Property = "the state keeps lifecycle's invariants"
	OneOperation  Property = "there is one operation at a time on each container and on the sandbox"
	DigestsFirst  Property = "nothing is pulled or made before every digest is known"
	DigestsAtOnce Property = "every digest is asked for at once, whatever the start order"
	ShareFirst    Property = "nothing is pulled or made before the task has its share of the host"
	ShareBack     Property = "a settled task has given its share back, and none before it has stopped"
	QueueIsHeard  Property = "a task that waits for its share asks again when the queue moves"
	StrictImages  Property = "a strict pull behaviour never continues without the registry's digest"
	SandboxFirst  Property = "containers are created in a pod that exists and started in one that runs"
	StartOrder    Property = "a container starts after its dependencies have met their conditions"
	StartOnce     Property = "a container is started again only as its restart policy says"
	Restarted     Property = "a container that its restart policy wants back is not given up"
	RunningIsTrue Property = "a task is RUNNING after all its containers have run, or can not"
	StoppedFor    Property = "a container is stopped only with the task, or when its failed health check says so"
	HealthIsHeard Property = "a container that is to be restarted for its health is stopped"
	ChecksWait    Property = "no check is made before the postStart hook is done, and no other before the startup check has passed"
	HookFirst     Property = "a container is not asked to stop before its preStop hook is over, or has had its time"
	FlushFirst    Property = "a log router is not asked to stop before it has got the last lines of the others, or has had its time"
	DeadlineKept  Property = "a task does not continue after its deadline"
	StopOrder     Property = "a container is stopped after all that depend on it"
	KillAtOnce    Property = "a kill leaves no grace to anything"
	CancelUseless Property = "an operation that is no longer needed is cancelled, once"
	StaysEnded    Property = "an ended container stays ended, with its exit code"
	ExitCodes     Property = "the exit code recorded is the container's own"
	GoalFalls     Property = "the goal never rises to UP again and the stop reason never changes"
	StaysStopped  Property = "a STOPPED task stays STOPPED"
	StoppedIsTrue Property = "STOPPED means that nothing runs and the ports are free"
	NothingLeft   Property = "removed means that nothing is left"
	RemoveLast    Property = "nothing is removed under a running container"
	SettledRests  Property = "a settled task has nothing in flight"
	ReportsOnce   Property = "statuses are reported forwards, each once and in order"
	UsersAreHeard Property = "what a user asks for becomes the goal"
	OnlyEssential Property = "no container stops the task unless it is essential or its image is strictly wanted"
	Connected     Property = "a task rests with the goal UP only while its containers have the network they share"
	HintsAreHeard Property = "an end that was announced is looked into"
	SavedIsAll    Property = "a saved state is read back as it was"
	OutageIsNone  Property = "an outage of Podman is no failure of the task, unless it lasts too long"
	WhyIsTrue     Property = "every state explains what it waits for, and the explanation is true"
	ReachesGoal   Property = "the goal is reached once nothing fails any more"
)

// Violation is a broken property, with the moves that led to it.
type Violation struct {
	Property Property
	Detail   string
	// Task is the definition, in the words of a script.
	Task string
	// Moves are in order, from the submission on.
	Moves []string
}

// Error names the property and lists the moves, one on a line.
func (v *Violation) Error() string {
	return fmt.Sprintf("broken: %s\n%s\n%safter\n  %s", v.Property, v.Detail, v.Task, strings.Join(v.Moves, "\n  "))
}

// broken ends the run. It panics because a violation may come up in the middle
// of any move; catch turns it into an error where runs begin.
func (w *World) broken(p Property, format string, a ...any) {
	panic(&Violation{Property: p, Detail: fmt.Sprintf(format, a...), Task: describeTask(w.state.Task, w.state.Options), Moves: moved(w)})
}

// catch is deferred by what runs worlds.
func catch(err *error) {
	switch v := recover().(type) {
	case nil:
	case *Violation:
		*err = v
	default:
		panic(v)
	}
}

// checkStep checks what can be said of one step that led from old to w.state.
func checkStep(w *World, old *lifecycle.State) {
	if err := w.state.Invariants(); err != nil {
		w.broken(Invariants, "%v", err)
	}
	checkForward(w, old)
	checkReports(w, old)
	checkTruth(w)
	checkFlights(w)
	checkDeadline(w)
	checkOutage(w)
	if w.driver != nil {
		checkWhy(w)
	}
}

// checkOutage checks that a task without time limits fails only if something else than an outage has happened.
// The tasks of random walks and scripts have time limits.
func checkOutage(w *World) {
	blameless := w.left
	blameless.Outages, blameless.Requests, blameless.Splits, blameless.Lates = w.given.Outages, w.given.Requests, w.given.Splits, w.given.Lates
	if w.driver != nil || w.given.Outages == 0 || w.lasting || blameless != w.given {
		return
	}
	s := &w.state
	if s.Goal != lifecycle.Up && s.Stop.Code != lifecycle.StopUserInitiated {
		w.broken(OutageIsNone, "it stops: %v", s.Stop)
	}
	for i, c := range s.Containers {
		if c.Abandoned && !s.Force || len(c.Failures) > 0 {
			w.broken(OutageIsNone, "%s is given up, failures %v", w.name(i), c.Failures)
		}
	}
}

// checkForward compares with the state before.
func checkForward(w *World, old *lifecycle.State) {
	s := &w.state
	for i := range old.Containers {
		was, now := &old.Containers[i], &s.Containers[i]
		checkGivenUp(w, old, i)
		checkRestartForHealth(w, i)
		if now.Restarts < was.Restarts {
			w.broken(StaysEnded, "%s has lost a restart", w.name(i))
		}
		if was.Ended && (!now.Ended || now.HasExit != was.HasExit || now.ExitCode != was.ExitCode) {
			w.broken(StaysEnded, "%s did not", w.name(i))
		}
	}
	if old.Goal > s.Goal && s.Goal == lifecycle.Up || old.Goal != lifecycle.Up && old.Stop != s.Stop {
		w.broken(GoalFalls, "from %s (%v) to %s (%v)", old.Goal, old.Stop, s.Goal, s.Stop)
	}
	if old.Goal == lifecycle.Up && s.Goal != lifecycle.Up {
		checkStopReason(w)
	}
	if old.Status() == lifecycle.StatusStopped && s.Status() != lifecycle.StatusStopped {
		w.broken(StaysStopped, "it is %s", s.Status())
	}
}

// noteHealth notes that a container is to be restarted for its health, until it is.
func noteHealth(w *World, i int) {
	check, c, t := w.state.Task.Containers[i].HealthCheck, &w.state.Containers[i], &w.truth[i]
	if c.Presence != lifecycle.Running {
		return
	}
	t.unhealthy = check != nil && check.Action == taskdef.ActionRestart && c.Health.Status == lifecycle.HealthUnhealthy ||
		c.Startup.Status == lifecycle.HealthUnhealthy || c.Liveness.Status == lifecycle.HealthUnhealthy || c.Hooks.Failed != ""
}

// checkDeadline looks for a task that has run for longer than it may.
func checkDeadline(w *World) {
	limit, began := w.state.Task.Extensions.Deadline, w.state.Began()
	if w.state.Goal == lifecycle.Up && limit > 0 && !began.IsZero() && !w.stepped.Before(began.Add(limit)) {
		w.broken(DeadlineKept, "it was %s", limit)
	}
}

// checkRestartForHealth looks for a container that is left unhealthy.
func checkRestartForHealth(w *World, i int) {
	s, c := &w.state, &w.state.Containers[i]
	waits := c.Stale || c.Paused || c.Op.Busy() || c.Retry.NotUntil.After(w.stepped)
	if s.Goal == lifecycle.Up && c.Presence == lifecycle.Running && w.truth[i].unhealthy && !waits {
		w.broken(HealthIsHeard, "%s is not", w.name(i))
	}
}

// checkGivenUp looks at a container that has just ended by itself.
func checkGivenUp(w *World, old *lifecycle.State, i int) {
	s, was, now := &w.state, &old.Containers[i], &w.state.Containers[i]
	asked := s.Goal != lifecycle.Up && s.Stop.Container != w.name(i)
	if was.Ended || !now.Ended || !now.HasExit || asked || old.Goal != lifecycle.Up || len(now.Failures) > len(was.Failures) {
		return
	}
	if t := &w.truth[i]; t.presence == lifecycle.Exited && whyNoRestart(w, i) == "" {
		w.broken(Restarted, "%s ran for %s and exited with %d", w.name(i), t.finished-t.started, t.code)
	}
}

// whyNoRestart explains why the policy of an exited container does not permit a restart;
// empty if it does.
func whyNoRestart(w *World, i int) string {
	p, t, c := w.state.Task.Containers[i].Restart, &w.truth[i], &w.state.Containers[i]
	switch {
	case p == nil:
		return "there is no policy"
	case p.Ignores(t.code) && (p.RulesOnly || !t.unhealthy):
		return "its exit code is ignored"
	case t.finished-t.started < p.AttemptPeriod && p.BackOff == 0:
		return "it did not run for long enough"
	case p.MaxCount > 0 && c.Restarts >= p.MaxCount:
		return "it was restarted often enough"
	}
	return ""
}

// checkStopReason looks at why the goal has left UP.
func checkStopReason(w *World) {
	i, named := w.state.Task.Index(w.state.Stop.Container)
	for k, c := range w.state.Containers {
		if w.state.Task.Extensions.UntilLast && w.state.Stop.Code == lifecycle.StopEssentialContainerExited && w.state.Task.Containers[k].Essential && !c.Ended {
			w.broken(OnlyEssential, "%s has not ended", w.name(k))
		}
	}
	if !named || w.state.Task.Containers[i].Essential {
		return
	}
	strict := w.state.Options.Pull != lifecycle.PullDefault && w.state.Options.Pull != lifecycle.PullPreferCached
	if !strict || w.state.Stop.Code != lifecycle.StopTaskFailedToStart {
		w.broken(OnlyEssential, "%s did: %s: %s", w.name(i), w.state.Stop.Code, w.state.Stop.Reason)
	}
}

// checkTruth compares what the state claims with what is so.
func checkTruth(w *World) {
	s := &w.state
	for i := range s.Containers {
		c, t := &s.Containers[i], &w.truth[i]
		if !c.Ended || t.presence != lifecycle.Exited {
			continue
		}
		if !c.HasExit || !c.StartedAt.IsZero() && c.ExitCode != t.code {
			w.broken(ExitCodes, "%s exited with %d; recorded: %v %d", w.name(i), t.code, c.HasExit, c.ExitCode)
		}
	}
	if s.Status() == lifecycle.StatusStopped {
		for i := range w.truth {
			if w.truth[i].presence == lifecycle.Running {
				w.broken(StoppedIsTrue, "%s runs", w.name(i))
			}
		}
		if w.pod == lifecycle.SandboxReady {
			w.broken(StoppedIsTrue, "the sandbox holds its ports")
		}
	}
	if s.Sandbox.Phase == lifecycle.SandboxRemoved {
		for i := range w.truth {
			if w.truth[i].presence != lifecycle.Absent {
				w.broken(NothingLeft, "%s is", w.name(i))
			}
		}
		if w.made {
			w.broken(NothingLeft, "the pod is")
		}
	}
}

// checkFlights looks at what is in flight after a step.
func checkFlights(w *World) {
	s := &w.state
	if s.Settled() && len(w.flights) > 0 {
		w.broken(SettledRests, "%d operations are", len(w.flights))
	}
	if s.Settled() && w.share != lifecycle.ReservationNone {
		w.broken(ShareBack, "it is %s", w.share)
	}
	for _, f := range w.flights {
		if f.canceled {
			continue
		}
		switch {
		case s.Goal != lifecycle.Up && (f.kind == lifecycle.Resolve || f.kind == lifecycle.Pull || f.kind == lifecycle.Probe || f.kind == lifecycle.PostStart || f.kind == lifecycle.Prepare || f.kind == lifecycle.Launch || f.kind == lifecycle.Admit):
			w.broken(CancelUseless, "%s of %s continues with the goal %s", f.kind, w.name(f.slot), s.Goal)
		case s.Force && (f.kind == lifecycle.Stop && f.gentle || f.kind == lifecycle.PreStop || f.kind == lifecycle.Flush):
			w.broken(KillAtOnce, "the gentle stop of %s continues", w.name(f.slot))
		}
	}
	if s.Goal != lifecycle.Up {
		return
	}
	for i := range s.Containers {
		c := &s.Containers[i]
		if !c.Resolved && !c.Ended && !c.Stale && !w.now.Before(c.Retry.NotUntil) && w.flightOf(i) == nil {
			w.broken(DigestsAtOnce, "that of %s is not", w.name(i))
		}
	}
}

// checkReports looks at what a step added to the history.
func checkReports(w *World, old *lifecycle.State) {
	s := &w.state
	if s.Reported < old.Reported || s.Sandbox.Reported < old.Sandbox.Reported {
		w.broken(ReportsOnce, "backwards")
	}
	for i := range s.Containers {
		if s.Containers[i].Reported < old.Containers[i].Reported {
			w.broken(ReportsOnce, "%s backwards", w.name(i))
		}
	}
	for _, t := range newReports(old, s) {
		if t.Status != "RUNNING" || t.Container != "" {
			continue
		}
		if old.Goal != lifecycle.Up {
			w.broken(ReportsOnce, "the task RUNNING on its way down")
		}
		checkRunning(w)
	}
	if w.driver == nil {
		return
	}
	seen := make(map[string]int)
	for k, t := range s.History {
		var st lifecycle.Status
		if k > 0 && t.Seq != s.History[k-1].Seq+1 {
			w.broken(ReportsOnce, "number %d follows %d", t.Seq, s.History[k-1].Seq)
		}
		if t.Status == lifecycle.Restarting {
			if seen[t.Container] != int(lifecycle.StatusRunning) {
				w.broken(ReportsOnce, "%q: %s after %s", t.Container, t.Status, lifecycle.Status(seen[t.Container]))
			}
			seen[t.Container] = int(lifecycle.StatusCreated) // RUNNING may follow, or the end
			continue
		}
		if st.UnmarshalText([]byte(t.Status)) != nil {
			continue // a health
		}
		if last, ok := seen[t.Container]; ok && int(st) <= last {
			w.broken(ReportsOnce, "%q: %s after %s", t.Container, t.Status, lifecycle.Status(last))
		}
		seen[t.Container] = int(st)
	}
}

// checkRunning looks at a task that has just been reported RUNNING.
func checkRunning(w *World) {
	for i, c := range w.state.Containers {
		if c.Stale || !c.Ended && w.truth[i].runs == 0 && !w.truth[i].vanished {
			w.broken(RunningIsTrue, "%s may not run", w.name(i))
		}
	}
}

// newReports are the lines of history that a step has added.
func newReports(old, s *lifecycle.State) []lifecycle.Transition {
	var last uint64
	if n := len(old.History); n > 0 {
		last = old.History[n-1].Seq
	}
	k := len(s.History)
	for k > 0 && s.History[k-1].Seq > last {
		k--
	}
	return s.History[k:]
}

// checkAsked looks at an effect in the moment it is asked for.
func checkAsked(w *World, f flight, e lifecycle.Effect) {
	s := &w.state
	if g := w.flightOf(f.slot); g != nil {
		w.broken(OneOperation, "%s of %s while a %s is in flight", f.kind, w.name(f.slot), g.kind)
	}
	making := f.kind == lifecycle.Pull || f.kind == lifecycle.Create || f.kind == lifecycle.Start || f.kind == lifecycle.Prepare || f.kind == lifecycle.Launch
	if making && w.share != lifecycle.ReservationGranted && !s.Need().IsZero() {
		w.broken(ShareFirst, "%s of %s without", f.kind, w.name(f.slot))
	}
	if f.kind == lifecycle.Release && s.Status() != lifecycle.StatusStopped {
		w.broken(ShareBack, "it is given back while the task is %s", s.Status())
	}
	if s.Goal == lifecycle.Up && making {
		for i := range s.Containers {
			if !s.Containers[i].Resolved {
				w.broken(DigestsFirst, "%s of %s before that of %s", f.kind, w.name(f.slot), w.name(i))
			}
		}
	}
	switch e := e.(type) {
	case lifecycle.PullImage:
		if e.Digest == "" && (s.Options.Pull == lifecycle.PullAlways || s.Options.Pull == lifecycle.PullOnce) {
			w.broken(StrictImages, "%s is pulled without", w.name(e.Index))
		}
	case lifecycle.CreateContainer:
		if !w.made {
			w.broken(SandboxFirst, "%s is not created in one", w.name(e.Index))
		}
	case lifecycle.StartContainer:
		if w.pod != lifecycle.SandboxReady && !w.podKilled && !(w.made && w.state.Sandbox.NoInfra) {
			w.broken(SandboxFirst, "%s is not started in one", w.name(e.Index))
		}
		checkStart(w, e.Index)
	case lifecycle.StopContainer:
		checkStop(w, e.Index, e.Grace)
		checkHookFirst(w, e.Index)
		checkFlushFirst(w, e.Index)
	case lifecycle.FlushLogs:
		checkStop(w, e.Index, e.Limit)
	case lifecycle.RunHook:
		if e.Hook == lifecycle.PreStop {
			checkStop(w, e.Index, e.Limit)
		}
	case lifecycle.CheckHealth:
		checkProbe(w, e)
	}
}

// checkProbe looks at a check of a run that the owner knows of.
func checkProbe(w *World, e lifecycle.CheckHealth) {
	t, c, x := &w.truth[e.Index], &w.state.Containers[e.Index], w.state.Task.Containers[e.Index].Extensions
	if !epoch.Add(t.started).Equal(c.StartedAt) || t.presence != lifecycle.Running {
		return
	}
	if x.Hooks.PostStart != nil && t.hooked != t.runs {
		w.broken(ChecksWait, "%s of %s, the hook is not", e.Probe, w.name(e.Index))
	}
	if x.Probes.Startup != nil && e.Probe != lifecycle.Startup && t.startedUp != t.runs {
		w.broken(ChecksWait, "%s of %s, the startup check has not", e.Probe, w.name(e.Index))
	}
}

// checkHookFirst looks at a container that is to be stopped.
func checkHookFirst(w *World, i int) {
	c, t, def := &w.state.Containers[i], &w.truth[i], &w.state.Task.Containers[i]
	since := c.Hooks.StopSince
	allowed := def.StopTimeout
	for _, p := range []*taskdef.Probe{def.Extensions.Probes.Startup, def.Extensions.Probes.Liveness} {
		if p != nil && p.Grace > 0 {
			allowed = min(allowed, p.Grace)
		}
	}
	skipped := w.state.Force || c.Paused || c.Unmonitored == lifecycle.MonitorLost || t.stopHook || c.Hooks.Stopped
	if def.Extensions.Hooks.PreStop != nil && !skipped && (since.IsZero() || w.stepped.Sub(since) < allowed) {
		w.broken(HookFirst, "%s is", w.name(i))
	}
}

// checkFlushFirst looks at a log router that is to be stopped.
func checkFlushFirst(w *World, i int) {
	c, t, def := &w.state.Containers[i], &w.truth[i], &w.state.Task.Containers[i]
	if w.state.Goal == lifecycle.Up || w.state.Force || c.Paused || c.Unmonitored == lifecycle.MonitorLost || t.flushed || c.Hooks.Flushed || def.FireLens == nil {
		return
	}
	since := c.Hooks.FlushSince
	wrote, all := false, true
	for app := range w.state.Containers {
		if l := w.state.Task.Containers[app].Log; l != nil && l.Driver == logdriver.FireLens && app != i {
			wrote = wrote || w.truth[app].runs > 0 && !w.state.Containers[app].StartedAt.IsZero()
			all = all && w.state.Containers[app].Ended
		}
	}
	if wrote && all && (since.IsZero() || w.stepped.Sub(since) < def.StopTimeout) {
		w.broken(FlushFirst, "%s is", w.name(i))
	}
}

func checkStart(w *World, i int) {
	if w.truth[i].presence == lifecycle.Exited {
		if why := whyNoRestart(w, i); why != "" {
			w.broken(StartOnce, "%s is, though %s", w.name(i), why)
		}
		return
	}
	for _, d := range w.state.Task.Containers[i].DependsOn {
		t := &w.truth[d.Container]
		met := false
		switch d.Condition {
		case taskdef.Start:
			x := w.state.Task.Containers[d.Container].Extensions
			met = t.runs > 0 && (x.Hooks.PostStart == nil || t.hooked > 0) && (x.Probes.Startup == nil || t.startedUp > 0)
		case taskdef.Complete:
			met = t.runs > 0 && t.presence == lifecycle.Exited
		case taskdef.Success:
			met = t.runs > 0 && t.presence == lifecycle.Exited && t.code == 0
		case taskdef.Healthy:
			p := w.state.Task.Containers[d.Container].Extensions.Probes
			met = t.healthy || p.Any() && p.Startup == nil && p.Readiness == nil
		}
		if !met && !t.vanished {
			w.broken(StartOrder, "%s before %s was %s", w.name(i), w.name(d.Container), d.Condition)
		}
	}
}

// checkStop looks at the stop of a container, or at the hook before it.
func checkStop(w *World, i int, grace time.Duration) {
	if w.state.Goal == lifecycle.Up {
		if !w.truth[i].unhealthy {
			w.broken(StoppedFor, "%s is", w.name(i))
		}
		return
	}
	if w.state.Force {
		if grace != 0 {
			w.broken(KillAtOnce, "%s gets %s", w.name(i), grace)
		}
		return
	}
	for j := range w.truth {
		if w.truth[j].presence == lifecycle.Running && dependsOn(&w.state.Task, j, i) {
			w.broken(StopOrder, "%s before %s", w.name(i), w.name(j))
		}
	}
}

// dependsOn reports whether container j names container i in dependsOn.
func dependsOn(t *taskdef.Task, j, i int) bool {
	return slices.ContainsFunc(t.Containers[j].DependsOn, func(d taskdef.Dependency) bool { return d.Container == i })
}

// checkFinal looks at a world that has come to rest.
func checkFinal(w *World) {
	s := &w.state
	switch {
	case s.Goal == lifecycle.Up && !steady(w):
		w.broken(ReachesGoal, "it rests with the goal UP before everything runs")
	case s.Goal != lifecycle.Up && !s.Settled():
		w.broken(ReachesGoal, "it rests with the goal %s, unsettled", s.Goal)
	}
	for i := range w.truth {
		if w.truth[i].presence == lifecycle.Running && (s.Goal != lifecycle.Up || s.Containers[i].Presence != lifecycle.Running) {
			w.broken(ReachesGoal, "%s runs unnoticed", w.name(i))
		}
		if s.Goal == lifecycle.Up && cutOff(w, i) {
			w.broken(Connected, "%s has not", w.name(i))
		}
	}
}
