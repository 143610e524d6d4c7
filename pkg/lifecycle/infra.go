package lifecycle

import (
	"time"

	"github.com/podtask/podtask/pkg/taskdef"
)

// The pod's infra container holds the network that the containers share. When it ends,
// by somebody's hand, Podman takes down what connects them: published ports are closed
// and nothing outside is reached, while the containers run on. A network that Podman
// makes again is not theirs. So the end of the infra container stops the task, as that
// of the ECS agent's pause container does, unless nothing of the task runs: then the pod
// is mended when it is needed.

// InfraIndex stands in Hinted for the pod's infra container.
const InfraIndex = -1

// WatchesInfra reports whether the driver should wait for the end of the pod's infra
// container and report it with Hinted{InfraIndex}.
func (s State) WatchesInfra() bool {
	b := s.Sandbox
	return s.Goal == Up && b.Phase == SandboxReady && !b.Stale && s.anyRuns() && s.podHasNetwork()
}

// podHasNetwork reports whether the containers are connected by the infra container.
func (s *State) podHasNetwork() bool {
	return !s.Task.Bridged() && s.Task.Network != taskdef.NetworkHost && s.Task.Network != taskdef.NetworkNone
}

// foldInfraHint distrusts what is known of the infra container.
func (s *State) foldInfraHint() {
	if s.Goal == Up && s.Sandbox.Phase == SandboxReady && s.podHasNetwork() {
		s.Sandbox.Stale = true
	}
}

// doubtsInfra reports whether the infra container is to be looked at. Before, it is
// known which containers run.
func (s *State) doubtsInfra() bool {
	b := &s.Sandbox
	return b.Stale && !b.Lost && b.Phase == SandboxReady && s.podHasNetwork() && s.anyRuns() && !s.anyStale()
}

// foldInfra takes over what was seen of the infra container. If it is not the run that
// the containers joined, they are looked at before anything is concluded: they may have
// ended with it, or been started again after it.
func (s *State) foldInfra(seen Observed) {
	b := &s.Sandbox
	runs := seen.Presence == Running
	same := runs && (b.InfraStartedAt.IsZero() || seen.StartedAt.IsZero() || seen.StartedAt.Equal(b.InfraStartedAt))
	b.InfraStartedAt = time.Time{}
	if runs {
		b.InfraStartedAt = seen.StartedAt
	}
	b.Stale = !runs
	if same || s.Goal != Up || !s.anyRuns() || !s.podHasNetwork() {
		return
	}
	b.Lost, b.Stale = true, true
	for i := range s.Containers {
		if s.Containers[i].Presence == Running {
			s.foldHint(i)
		}
	}
}

// settleInfra stops a task of which a container runs without a network, once it is known
// what runs.
func (s *State) settleInfra(at time.Time) (changed bool) {
	b := &s.Sandbox
	if !b.Lost || s.Goal == Up && s.anyStale() {
		return false
	}
	b.Lost = false
	for i := range s.Containers {
		c := &s.Containers[i]
		if s.Goal == Up && c.Presence == Running && (b.InfraStartedAt.IsZero() || c.StartedAt.Before(b.InfraStartedAt)) {
			s.lowerGoal(at, Down, StopReason{Code: StopInfrastructureHealth, Reason: infraLost})
		}
	}
	return true
}

const infraLost = "somebody else stopped or killed the pod's infra container, and with it the network of the task"
