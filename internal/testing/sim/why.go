package sim

import (
	"slices"

	"github.com/podtask/podtask/pkg/lifecycle"
)

// checkWhy compares what Explain says with what is so, right after a step.
func checkWhy(w *World) {
	s := &w.state
	reasons := s.Explain()
	if len(reasons) == 0 {
		w.broken(WhyIsTrue, "it gives no reason")
	}
	for _, r := range reasons {
		slot, named := s.Task.Index(r.Container)
		if !named {
			slot = sandbox
		}
		if r.Text == "" || named != (r.Container != "") || (r.Then == "") != r.Until.IsZero() {
			w.broken(WhyIsTrue, "incomplete: %+v", r)
		}
		if !whyHolds(w, r, slot) {
			w.broken(WhyIsTrue, "it gives %+v", r)
		}
	}
	for i := range s.Containers {
		named := func(r lifecycle.Reason) bool { return r.Container == w.name(i) || r.Container == "" }
		if needsReason(w, i) && !slices.ContainsFunc(reasons, named) {
			w.broken(WhyIsTrue, "it gives no reason for %s", w.name(i))
		}
	}
}

// needsReason reports whether a container is on its way somewhere.
func needsReason(w *World, i int) bool {
	c := &w.state.Containers[i]
	if w.state.Settled() || c.Ended || c.Abandoned {
		return false
	}
	if w.state.Goal != lifecycle.Up {
		return c.Presence == lifecycle.Running
	}
	return c.Presence != lifecycle.Running || c.Stale || c.Paused
}

// whyHolds reports whether a reason is true of the container in a slot, or of the sandbox.
func whyHolds(w *World, r lifecycle.Reason, slot int) bool {
	s := &w.state
	f := w.flightOf(slot)
	switch r.Code {
	case lifecycle.WhyOutage:
		return !s.OutageSince.IsZero()
	case lifecycle.WhyEnded:
		return s.Settled()
	case lifecycle.WhyOperation:
		return f != nil && f.kind != lifecycle.Inspect
	case lifecycle.WhyInspect:
		probed := slot != sandbox && s.Containers[slot].Stale && f != nil && f.kind == lifecycle.Probe && f.canceled
		return probed || f != nil && f.kind == lifecycle.Inspect
	case lifecycle.WhyRetry:
		return f == nil && r.Until.After(w.stepped)
	case lifecycle.WhyQueued:
		return slot == sandbox && s.Queued()
	case lifecycle.WhyRunning:
		return s.Goal == lifecycle.Up && !slices.ContainsFunc(w.flights, func(f flight) bool { return f.kind != lifecycle.Probe })
	}
	return slot != sandbox && (f == nil || f.kind == lifecycle.Probe) && whyOfContainer(w, r, slot)
}

func whyOfContainer(w *World, r lifecycle.Reason, i int) bool {
	s, c := &w.state, &w.state.Containers[i]
	podReady := s.Sandbox.Phase == lifecycle.SandboxReady && !s.Sandbox.Stale
	started := !c.StartedAt.IsZero()
	switch r.Code {
	case lifecycle.WhyRestart:
		return s.Goal == lifecycle.Up && started && c.HasExit && podReady && r.Until.After(w.stepped)
	case lifecycle.WhyDependency:
		return !started && c.Presence == lifecycle.Created && len(s.Unsatisfied(i)) > 0
	case lifecycle.WhyDigests:
		return c.Resolved && slices.ContainsFunc(s.Containers, func(o lifecycle.Container) bool { return !o.Resolved })
	case lifecycle.WhyVolumes:
		for _, from := range s.Task.Containers[i].VolumesFrom {
			if s.Containers[from.Container].Presence == lifecycle.Absent {
				return c.Presence == lifecycle.Absent
			}
		}
		return false
	case lifecycle.WhyPod:
		return c.Presence != lifecycle.Running && !podReady
	case lifecycle.WhyStopOrder:
		return s.Goal != lifecycle.Up && !s.Force && slices.ContainsFunc(s.Task.Dependants(i), func(d int) bool { return !s.Containers[d].Ended })
	case lifecycle.WhyHealth:
		return c.Presence == lifecycle.Running && c.HealthStatus() == lifecycle.HealthUnknown
	case lifecycle.WhyUnhealthy:
		return c.Presence == lifecycle.Running && c.HealthStatus() == lifecycle.HealthUnhealthy
	case lifecycle.WhyPaused:
		return c.Presence == lifecycle.Running && c.Paused
	}
	return false
}
