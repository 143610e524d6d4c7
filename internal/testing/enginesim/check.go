package enginesim

import (
	"slices"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/testing/enginetest"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// What must hold:
//
//   - a record that is read back is the last acknowledged one, or one written
//     since; it is whole, and consistent;
//   - a state keeps lifecycle's invariants;
//   - the events of a task are numbered without gaps, and report each status once;
//   - a container is started once, unless the machine or a user has undone it
//     before it was observed, or as often as its restart policy says;
//   - a container starts after its dependencies have met their conditions;
//   - a container is asked to stop after all that depend on it have ended, and the
//     sandbox after all containers;
//   - containers that run at the same time share no GPU, and each has as many as it needs;
//   - a container of a task in bridge mode starts with its network, its addresses and the
//     metadata endpoint, unless the task is told what it runs without;
//   - a service does not stop a task that is protected, also after its owner has died;
//   - a container has the image whose digest was found;
//   - a stopped task runs nothing, and knows the exit codes of all that ran and
//     that was not removed or reset;
//   - a removed task leaves nothing in Podman;
//   - what users put into our pods stays;
//   - what is swept away belongs to no task, and afterwards nothing is left;
//   - a task waits for a reservation only while other tasks hold it; at the end all
//     reservations are released;
//   - once nothing fails any more every task comes to its goal, can be stopped and
//     can be removed.

// truth is the real state of a container, whether or not it was observed.
type truth struct {
	id      string // of the present object; empty for none
	started bool   // the present object was, since it was made or reset
	running bool
	ended   bool // the present object ran and ended
	code    int
	// unmonitored: its conmon was killed in the present run
	unmonitored bool
	// asked: a user asked for its restart
	asked bool

	nudged time.Time // when a health check was made to pass

	everStarted, everEnded, everSucceeded, everHealthy bool
	codes                                              map[string][]int // of each run, by object
}

// look takes in what became true. o is the owner that acted, if one did.
func look(w *world, o *process) {
	facts := w.fake.Facts(w.known)
	w.known += len(facts)
	for _, f := range facts {
		if w.trail != nil {
			w.tell("FACT: %s", f)
		}
		for _, t := range w.tasks {
			name, ok := strings.CutPrefix(f.Container, t.pod()+"-")
			if !ok {
				continue
			}
			if i, ok := t.def.Index(name); ok {
				takeIn(w, t, i, f, o)
			} else if f.What == enginetest.TermSent {
				checkHalt(w, t, nil)
			}
		}
	}
}

func takeIn(w *world, t *task, i int, f enginetest.Fact, o *process) {
	c := &t.truth[i]
	switch f.What {
	case enginetest.Created:
		c.id, c.started, c.running, c.ended = f.ID, false, false, false
	case enginetest.Started:
		checkStart(w, t, i, f, o)
		checkGPUs(w, t, i)
		checkNetwork(w, t, i, f.PID)
		c.started, c.running, c.ended, c.everStarted = true, true, false, true
		c.unmonitored = false
	case enginetest.Ended:
		c.running, c.ended, c.code = false, true, f.Code
		c.everEnded, c.everSucceeded = true, c.everSucceeded || f.Code == 0
		if c.codes == nil {
			c.codes = map[string][]int{}
		}
		c.codes[f.ID] = append(c.codes[f.ID], f.Code)
	case enginetest.Healthy:
		c.everHealthy = true
	case enginetest.Reset:
		c.started, c.running, c.ended = false, false, false
	case enginetest.Removed:
		c.id, c.started, c.running, c.ended = "", false, false, false
	case enginetest.TermSent:
		if c.asked || restartedForHealth(t.def.Containers[i]) {
			break // it may be stopped alone, to be started again
		}
		for _, d := range t.def.Dependants(i) {
			// One without its conmon is ended at once, as if it had exited.
			if t.truth[d].running && !c.unmonitored {
				w.broken("%s is asked to stop while %s runs, which depends on it", t.container(i), t.def.Containers[d].Name)
			}
		}
	}
}

// restartedForHealth reports whether a container is stopped, and started again, when it is
// unhealthy.
func restartedForHealth(c taskdef.Container) bool {
	x := c.Extensions
	return c.HealthCheck != nil && c.HealthCheck.Action == taskdef.ActionRestart || x.Probes.Startup != nil || x.Probes.Liveness != nil || x.Hooks.PostStart != nil
}

func lastRequested(runs []lifecycle.Run) bool { return len(runs) > 0 && runs[len(runs)-1].Requested }

func checkStart(w *world, t *task, i int, f enginetest.Fact, o *process) {
	if c := t.truth[i]; c.ended {
		p := t.def.Containers[i].Restart
		if requested := c.asked && (o == nil || lastRequested(o.state.Containers[i].Runs)); !requested && (p == nil || c.running || p.Ignores(c.code) && !restartedForHealth(t.def.Containers[i]) || o != nil && (o.state.Containers[i].Ended || o.state.Containers[i].RestartAt.IsZero())) {
			w.broken("%s is started again after %d, not as its restart policy says", f.Container, c.code)
		}
		return
	}
	if t.truth[i].started {
		w.broken("%s is started twice", f.Container)
	}
	if o != nil && (o.state.Containers[i].Ended || !o.state.Containers[i].StartedAt.IsZero() && o.state.Containers[i].RestartAt.IsZero()) {
		w.broken("%s is started again, though it is known to have run", f.Container)
	}
	for _, d := range t.def.Containers[i].DependsOn {
		on, probes := t.truth[d.Container], t.def.Containers[d.Container].Extensions.Probes
		if d.Condition == taskdef.Healthy && probes.Any() && probes.Readiness == nil && probes.Startup == nil {
			continue // it is healthy from the start
		}
		if !on.meets(d.Condition) {
			w.broken("%s is started before %s was %s", f.Container, t.def.Containers[d.Container].Name, d.Condition)
		}
	}
}

func checkGPUs(w *world, t *task, i int) {
	own := w.fake.CDI(t.container(i))
	if len(own) != t.def.Containers[i].Linux.GPUs {
		w.broken("%s is started with the GPUs %v and needs %d", t.container(i), own, t.def.Containers[i].Linux.GPUs)
	}
	for _, other := range w.tasks {
		for k, c := range other.truth {
			if !c.running || other == t && k == i {
				continue
			}
			for _, name := range w.fake.CDI(other.container(k)) {
				if slices.Contains(own, name) {
					w.broken("%s is started with %s, which %s has", t.container(i), name, other.container(k))
				}
			}
		}
	}
}

func (c truth) meets(cond taskdef.Condition) bool {
	switch cond {
	case taskdef.Start:
		return c.everStarted
	case taskdef.Complete:
		return c.everEnded
	case taskdef.Success:
		return c.everSucceeded
	default:
		return c.everHealthy
	}
}

// checkHalt: the sandbox goes after the containers, but for those that could be neither
// stopped nor inspected for so long that the removal of the pod takes them along.
func checkHalt(w *world, t *task, known []lifecycle.Container) {
	for i := range t.truth {
		if t.truth[i].running && (known == nil || !known[i].Abandoned) {
			w.broken("the sandbox of %s is stopped while %s runs", t.def.Family, t.def.Containers[i].Name)
		}
	}
}

// checkNews checks an event that is about to be told. Health comes and goes, all
// other statuses come once.
func checkNews(w *world, t *task, tr lifecycle.Transition) {
	for _, h := range []lifecycle.Health{lifecycle.HealthUnknown, lifecycle.HealthHealthy, lifecycle.HealthUnhealthy} {
		if tr.Status == h.String() {
			return
		}
	}
	if tr.Status == lifecycle.Restarting || tr.Status == lifecycle.StatusRunning.String() && t.restarting(tr.Container) {
		return
	}
	for _, old := range t.log {
		if old.Container == tr.Container && old.Status == tr.Status {
			w.broken("%s: %s %s is reported a second time", t.def.Family, tr.Container, tr.Status)
		}
	}
}

// restarting reports whether the last thing told of a container is that it restarts.
func (t *task) restarting(container string) bool {
	for _, old := range slices.Backward(t.log) {
		if old.Container == container && (old.Status == lifecycle.Restarting || old.Status == lifecycle.StatusRunning.String()) {
			return old.Status == lifecycle.Restarting
		}
	}
	return false
}

// checkProtection: the service that stops a task did not do so while the task was protected,
// unless the task gave its protection up in the same step.
func checkProtection(w *world, o *process, next lifecycle.State, batch []lifecycle.Event) {
	changed := slices.ContainsFunc(batch, func(ev lifecycle.Event) bool { _, is := ev.(lifecycle.ProtectionRequested); return is })
	if changed || o.state.Goal != lifecycle.Up || next.Goal == lifecycle.Up {
		return
	}
	if w.clock.now.Before(o.state.ProtectedUntil) && next.Stop.Reason == "stopped by "+service {
		w.broken("%s is stopped by its service and is protected until %s", o.t.def.Family, o.state.ProtectedUntil)
	}
}

// beforeDo checks an operation that is about to be done.
func beforeDo(w *world, o *process, f *flight) {
	if _, ok := f.effect.(lifecycle.RemoveSandbox); ok {
		checkHalt(w, o.t, f.state.Containers)
	}
}

// afterDo checks what an operation has made.
func afterDo(w *world, o *process, f *flight, answer lifecycle.OpFinished) {
	e, ok := f.effect.(lifecycle.CreateContainer)
	if !ok || answer.Failure.Class != lifecycle.OK || answer.Result.Seen.Presence == lifecycle.Absent {
		return
	}
	want, seen := f.state.Containers[e.Index], w.fake.See(o.t.container(e.Index))
	if want.Source == lifecycle.SourceRegistry && want.Digest != "" && seen.ImageDigest != want.Digest {
		w.broken("%s has the image %s; the digest found was %s", o.t.container(e.Index), seen.ImageDigest, want.Digest)
	}
}

// checkStopped checks a task that has settled as stopped.
func checkStopped(w *world, o *process) {
	t, s := o.t, o.state
	if w.fake.Running(t.pod() + "-infra") {
		w.broken("%s has stopped but its infra container runs", t.def.Family)
	}
	for i, c := range s.Containers {
		tr, name := t.truth[i], t.container(i)
		switch {
		case tr.running:
			w.broken("%s has stopped but %s runs", t.def.Family, name)
		case c.HasExit && !c.StartedAt.IsZero():
			if codes := tr.codes[c.ID]; !slices.Contains(knowable(c, codes), c.ExitCode) {
				w.broken("%s is said to have exited with %d; in truth its runs ended with %v", name, c.ExitCode, codes)
			}
		case tr.ended && !c.HasExit && !c.LostMonitor():
			w.broken("%s ended with %d and its exit code is not known", name, tr.code)
		}
	}
	last := s.History[len(s.History)-1]
	for _, tr := range s.History {
		if tr.Container == "" {
			last = tr
		}
	}
	if last.Status != lifecycle.StatusStopped.String() || last.ExitCode == nil || *last.ExitCode != s.ExitCode() {
		w.broken("%s has stopped with %d but its last event is %+v", t.def.Family, s.ExitCode(), last)
	}
}

// knowable are the exit codes a container may be said to have, of those its runs
// ended with: that of the last run; or of any, where the container was removed or
// reset between a restart and the next look at it.
func knowable(c lifecycle.Container, codes []int) []int {
	n := len(c.Failures)
	if len(codes) == 0 || n > 0 && c.Failures[n-1].Name == lifecycle.ErrContainerVanished {
		return codes
	}
	return codes[len(codes)-1:]
}

// checkGone checks a task of which nothing may be left; what comes late is for the
// sweep.
func checkGone(w *world, t *task) {
	if t.haunted {
		return
	}
	if left := w.fake.Left(t.id); len(left) > 0 {
		w.broken("%s is removed but there is left: %s", t.def.Family, strings.Join(left, ", "))
	}
}

// checkForeign checks that what users have put into our pods is there.
func checkForeign(w *world) {
	for _, t := range w.tasks {
		if t.foreign != "" && w.fake.See(t.foreign).Status == libpod.Absent {
			w.broken("%s, which a user put into the pod of %s, is gone", t.foreign, t.def.Family)
		}
	}
}
