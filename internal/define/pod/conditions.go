package pod

import (
	"strings"
	"time"

	"github.com/podtask/podtask/pkg/lifecycle"
)

// conditions are those that the kubelet and the scheduler set.
func conditions(p Pod, s lifecycle.State, status Status) []Condition {
	return []Condition{
		readyToStart(s),
		initializedCondition(p, s, status.Phase),
		ready("Ready", p, s, status),
		ready("ContainersReady", p, s, status),
		scheduled(s),
	}
}

func condition(kind string, is bool, at time.Time) Condition {
	c := Condition{Type: kind, Status: conditionFalse, LastTransitionTime: timeOf(at)}
	if is {
		c.Status = conditionTrue
	}
	return c
}

// scheduled: the task has its share of the host.
func scheduled(s lifecycle.State) Condition {
	b := s.Sandbox
	if b.Reservation == lifecycle.ReservationNeeded || b.Reservation == lifecycle.ReservationRequested && !b.Dirty {
		c := condition("PodScheduled", false, s.CreatedAt)
		c.Reason = "Unschedulable"
		if b.Queue != "" {
			c.Message = "the task waits for " + b.Queue
		}
		return c
	}
	return condition("PodScheduled", true, s.CreatedAt)
}

// readyToStart: the Pod has its network and namespaces.
func readyToStart(s lifecycle.State) Condition {
	at := s.CreatedAt
	for _, t := range s.History {
		if t.Container == lifecycle.Infra {
			at = t.At
		}
	}
	return condition("PodReadyToStartContainers", s.Sandbox.Phase == lifecycle.SandboxReady, at)
}

// initializedCondition: every init container has succeeded, and every sidecar started.
func initializedCondition(p Pod, s lifecycle.State, phase string) Condition {
	at := s.CreatedAt
	var incomplete []string
	for i, def := range s.Task.Containers {
		c := s.Containers[i]
		switch {
		case p.isInit(def.Name) && c.Ended && c.HasExit && c.ExitCode == 0 && !c.StartedAt.IsZero():
			at = later(at, c.FinishedAt)
		case p.isSidecar(def.Name) && (s.Up(i) || mainStarted(p, s)):
			at = later(at, c.FirstStartedAt)
		case p.isInit(def.Name) || p.isSidecar(def.Name):
			incomplete = append(incomplete, def.Name)
		}
	}
	c := condition("Initialized", len(incomplete) == 0, at)
	switch {
	case len(incomplete) > 0:
		c.LastTransitionTime = timeOf(s.CreatedAt)
		c.Reason, c.Message = containersUninitialized, "containers with incomplete status: ["+strings.Join(incomplete, " ")+"]"
	case phase == Succeeded:
		c.Reason = podCompleted
	}
	return c
}

// ready is the condition Ready or ContainersReady, which have the same content where
// there are no readiness gates.
func ready(kind string, p Pod, s lifecycle.State, status Status) Condition {
	var not []string
	for _, c := range status.ContainerStatuses {
		if !c.Ready {
			not = append(not, c.Name)
		}
	}
	for _, c := range status.InitContainerStatuses {
		if p.isSidecar(c.Name) && !c.Ready {
			not = append(not, c.Name)
		}
	}
	c := condition(kind, len(not) == 0 && status.Phase == Running, readySince(p, s))
	switch {
	case status.Phase == Succeeded:
		c.Reason = podCompleted
	case status.Phase == Failed:
		c.Reason = podFailed
	case len(not) > 0:
		c.Reason, c.Message = containersNotReady, "containers with unready status: ["+strings.Join(not, " ")+"]"
	}
	return c
}

// readySince is the time at which the latest container that counts came up, went down or changed its
// health.
func readySince(p Pod, s lifecycle.State) time.Time {
	at := s.CreatedAt
	for i, def := range s.Task.Containers {
		if p.isInit(def.Name) {
			continue
		}
		c := s.Containers[i]
		at = later(later(at, c.StartedAt), c.FinishedAt)
	}
	for _, t := range s.History {
		if t.Status == lifecycle.HealthHealthy.String() || t.Status == lifecycle.HealthUnhealthy.String() {
			at = later(at, t.At)
		}
	}
	return at
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
