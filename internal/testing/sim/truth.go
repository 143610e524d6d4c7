package sim

import (
	"time"

	"github.com/podtask/podtask/pkg/lifecycle"
)

// truth is what is really so of a container, whatever the state believes.
type truth struct {
	presence          lifecycle.Presence
	code              int
	started, finished time.Duration // since epoch
	runs              int           // how often it was started
	healthy           bool          // one of its checks has passed since
	// hooked and startedUp are the latest runs whose postStart hook was done and whose
	// startup check passed. stopHook: the preStop hook of the present run is over.
	hooked, startedUp int
	stopHook          bool
	flushed           bool // it got the last lines
	unhealthy         bool // it ended after its check had failed, for which it is restarted
	vanished          bool // a user removed it after it had been created
	paused            bool // it runs, frozen by a user
	podRun            int  // the run of the infra container that it joined
}

// act lets an operation act on the world. Its answer is still to come.
func act(w *World, f *flight) {
	r := perform(w, f)
	f.result = &r
}

// perform does what an operation does and returns its answer.
func perform(w *World, f *flight) lifecycle.Result {
	if f.slot == sandbox {
		performSandbox(w, f.kind)
		return lifecycle.Result{PodID: "pod", Admitted: true, Seen: seenInfra(w)}
	}
	t := &w.truth[f.slot]
	switch f.kind {
	case lifecycle.Resolve:
		return lifecycle.Result{Digest: "sha256:d"}
	case lifecycle.Pull:
		return lifecycle.Result{ImageID: "image", Source: lifecycle.SourceRegistry}
	case lifecycle.Create:
		if t.presence == lifecycle.Absent && w.made {
			t.presence, t.runs = lifecycle.Created, 0
		}
	case lifecycle.Start:
		if t.presence == lifecycle.Exited && w.state.Task.Containers[f.slot].Restart == nil {
			w.broken(StartOnce, "%s is started again", w.name(f.slot))
		}
		if t.presence == lifecycle.Created || t.presence == lifecycle.Exited {
			begin(w, f.slot)
		}
	case lifecycle.Stop:
		if t.presence == lifecycle.Running {
			w.end(f.slot, 143)
		}
	case lifecycle.Probe:
		if t.paused {
			break
		}
		t.healthy = t.healthy || t.presence == lifecycle.Running
		if f.probe == lifecycle.Startup && t.presence == lifecycle.Running {
			t.startedUp = t.runs
		}
		return lifecycle.Result{Probe: lifecycle.ProbeResult{Healthy: t.presence == lifecycle.Running}}
	case lifecycle.Flush:
		return lifecycle.Result{}
	case lifecycle.PostStart, lifecycle.PreStop:
		runs := t.presence == lifecycle.Running && !t.paused
		if runs && f.kind == lifecycle.PostStart {
			t.hooked = t.runs
		}
		return lifecycle.Result{Probe: lifecycle.ProbeResult{Healthy: runs}}
	}
	return lifecycle.Result{Seen: seen(w, f.slot)}
}

func performSandbox(w *World, k lifecycle.Kind) {
	switch k {
	case lifecycle.Prepare:
		w.made = true
		if w.state.Sandbox.NoInfra {
			w.pod = lifecycle.SandboxReady
		}
	case lifecycle.Launch:
		if w.made && w.pod != lifecycle.SandboxReady {
			startPod(w)
		}
	case lifecycle.Admit:
		w.share = lifecycle.ReservationGranted
	case lifecycle.Release:
		w.share = lifecycle.ReservationNone
	case lifecycle.Halt:
		if w.pod == lifecycle.SandboxReady {
			w.pod = lifecycle.SandboxStopped
		}
	case lifecycle.Remove:
		w.pod, w.podKilled, w.made = lifecycle.SandboxAbsent, false, false
		for i := range w.truth {
			if w.truth[i].presence == lifecycle.Running && !w.state.Containers[i].Abandoned {
				w.broken(RemoveLast, "%s runs", w.name(i))
			}
			w.truth[i] = truth{}
		}
	}
}

// discard removes the pod in which nothing ever ran, and with it what was created in it.
func discard(w *World) {
	w.pod, w.made = lifecycle.SandboxAbsent, false
	for i := range w.truth {
		w.truth[i] = truth{}
	}
}

// begin starts a container. No two runs of it begin at the same time.
func begin(w *World, i int) {
	if w.podKilled {
		startPod(w) // Podman does, before a member
	}
	t := &w.truth[i]
	t.runs++
	t.presence, t.podRun, t.paused, t.unhealthy, t.stopHook, t.flushed = lifecycle.Running, w.podRuns, false, false, false, false
	t.started = w.now.Sub(epoch) + time.Duration(t.runs-1)
	if w.podRuns > 1 && t.started < w.podStarted { // within one moment of the model
		t.started = w.podStarted + time.Duration(t.runs)
	}
}

// startPod starts the infra container, after all that has started before.
func startPod(w *World) {
	started := w.now.Sub(epoch)
	if w.podRuns > 0 {
		started = max(started, w.podStarted+1)
	}
	for i := range w.truth {
		if t := &w.truth[i]; t.runs > 0 {
			started = max(started, t.started+1)
		}
	}
	w.pod, w.podStarted, w.podKilled = lifecycle.SandboxReady, started, false
	w.podRuns++
}

// end lets a running container end.
func (w *World) end(i, code int) {
	t := &w.truth[i]
	t.presence, t.code, t.finished, t.paused = lifecycle.Exited, code, max(t.started, w.now.Sub(epoch)), false
}

// sharedNetwork: the infra container connects the containers.
func sharedNetwork(w *World) bool { return !w.state.Sandbox.NoInfra && !w.state.Task.Bridged() }

// cutOff reports whether a container runs that has lost its network.
func cutOff(w *World, i int) bool {
	t := &w.truth[i]
	return sharedNetwork(w) && t.presence == lifecycle.Running && (w.pod != lifecycle.SandboxReady || t.podRun != w.podRuns)
}

// seenInfra is what an inspection finds of the infra container.
func seenInfra(w *World) lifecycle.Observed {
	if w.pod != lifecycle.SandboxReady {
		return lifecycle.Observed{}
	}
	return lifecycle.Observed{Presence: lifecycle.Running, StartedAt: epoch.Add(w.podStarted)}
}

// seen is what an inspection finds.
func seen(w *World, i int) lifecycle.Observed {
	t := &w.truth[i]
	if t.presence == lifecycle.Absent {
		return lifecycle.Observed{}
	}
	o := lifecycle.Observed{Presence: t.presence, ID: w.name(i), ExitCode: t.code, Paused: t.paused}
	if t.presence >= lifecycle.Running {
		o.StartedAt = epoch.Add(t.started)
	}
	if t.presence == lifecycle.Exited {
		o.FinishedAt = epoch.Add(t.finished)
	}
	return o
}
