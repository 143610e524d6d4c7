package lifecycle

import (
	"slices"
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
)

// The pod's infra container holds the network that the containers share. If it is stopped
// or killed, Podman removes what connects them: published ports are closed and nothing
// outside can be reached, while the containers continue to run. A network that Podman
// creates again is not theirs. So the end of the infra container stops the task, as that
// of the ECS agent's pause container does, unless nothing of the task runs: then the pod
// is started again when it is needed.

// InfraIndex stands in Hinted for the pod's infra container.
const InfraIndex = -1

// WatchesInfra reports whether the driver should wait for the end of the pod's infra
// container and report it with Hinted{InfraIndex}.
func (s State) WatchesInfra() bool {
	b := s.Sandbox
	return s.Goal == Up && b.Phase == SandboxReady && !b.Stale && anyRuns(&s) && podHasNetwork(&s)
}

// AutoUpdateLabel is Podman's label of containers that podman auto-update updates.
const AutoUpdateLabel = "io.containers.autoupdate"

// needsInfra reports whether the pod of a task needs an infra container: to hold a namespace
// that containers share, to tell the address of a Kubernetes Pod before its containers are created,
// or for podman auto-update, which fails (5.4.2) if a container that it updates is in a pod without.
func needsInfra(t taskdef.Task, o Options) bool {
	_, joins := t.Joined()
	updated := func(c taskdef.Container) bool { return c.Labels[AutoUpdateLabel] != "" }
	switch {
	case t.IPCMode == taskdef.IPCTask, t.PIDMode == taskdef.PIDTask, len(t.Extensions.Pod) > 0:
		return true
	case o.AutoUpdate != "", slices.ContainsFunc(t.Containers, updated):
		return true
	case t.Bridged():
		return false
	default:
		return joins || len(t.Containers) > 1
	}
}

// podHasNetwork reports whether the containers are connected by the infra container.
func podHasNetwork(s *State) bool {
	return !s.Sandbox.NoInfra && !s.Task.Bridged() && s.Task.Network != taskdef.NetworkHost && s.Task.Network != taskdef.NetworkNone
}

// foldInfraHint distrusts what is known of the infra container.
func foldInfraHint(s *State, early bool) {
	if s.Goal == Up && s.Sandbox.Phase == SandboxReady && podHasNetwork(s) {
		s.Sandbox.Stale, s.Sandbox.Made = true, false
		if early {
			s.Sandbox.Unmonitored.suspect()
		}
	}
}

// doubtsInfra reports whether the infra container is to be looked at. Before, it is
// known which containers run.
func doubtsInfra(s *State) bool {
	b := &s.Sandbox
	return b.Stale && !b.Lost && b.Phase == SandboxReady && podHasNetwork(s) && anyRuns(s) && !anyStale(s)
}

// foldInfra takes over what was seen of the infra container. If it is not the run that
// the containers joined, they are looked at before anything is concluded: they may have
// ended with it, or been started again after it.
func foldInfra(s *State, at time.Time, seen Observed) {
	b := &s.Sandbox
	if b.Unmonitored.note(seen) {
		b.Stale, b.Retry.NotUntil = true, at.Add(confirmAfter)
		return
	}
	runs := seen.Presence == Running && b.Unmonitored != MonitorLost
	same := runs && (b.InfraStartedAt.IsZero() || seen.StartedAt.IsZero() || seen.StartedAt.Equal(b.InfraStartedAt))
	b.InfraStartedAt = time.Time{}
	if runs {
		b.InfraStartedAt = seen.StartedAt
	}
	b.Stale = !runs
	if same || s.Goal != Up || !anyRuns(s) || !podHasNetwork(s) {
		return
	}
	b.Lost, b.Stale = true, true
	for i := range s.Containers {
		if s.Containers[i].Presence == Running {
			foldHint(s, i, false)
		}
	}
}

// settleInfra stops a task of which a container runs without a network, once it is known
// what runs.
func settleInfra(s *State, at time.Time) (changed bool) {
	b := &s.Sandbox
	if !b.Lost || s.Goal == Up && anyStale(s) {
		return false
	}
	b.Lost = false
	reason := infraLost
	if b.Unmonitored == MonitorLost {
		reason = infraMonitorLost
	}
	for i := range s.Containers {
		c := &s.Containers[i]
		if s.Goal == Up && c.Presence == Running && (b.InfraStartedAt.IsZero() || c.StartedAt.Before(b.InfraStartedAt)) {
			lowerGoal(s, at, Down, StopReason{Code: StopInfrastructureHealth, Reason: reason})
		}
	}
	return true
}

const infraLost = "another program stopped or killed the pod's infra container, and with it the network of the task"
