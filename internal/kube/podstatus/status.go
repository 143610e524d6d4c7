// Package podstatus makes the status of a Pod from the state of its task, and writes it to the API server.
package podstatus

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// Reasons for which containers wait, as the kubelet gives them.
const (
	Creating     = "ContainerCreating"
	ConfigError  = "CreateContainerConfigError"
	CreateError  = "CreateContainerError"
	RunError     = "RunContainerError"
	ErrImagePull = "ErrImagePull"
	PullBackOff  = "ImagePullBackOff"
	NeverPull    = "ErrImageNeverPull"
	CrashBackOff = "CrashLoopBackOff"
)

// Reasons and messages of conditions and of Pods that have ended, as the kubelet gives them.
const (
	reasonNotReady    = "ContainersNotReady"
	reasonTerminated  = "Terminated"
	messageTerminated = "Pod was terminated in response to imminent node shutdown."
)

// Names in the stopped reasons of tasks, "stopped by Kubernetes".
const (
	ByKubernetes = "Kubernetes"
	ByShutdown   = "the shutdown of the node"
)

// Ended reports whether a Pod has ended for good.
func Ended(p corev1.PodPhase) bool { return p == corev1.PodSucceeded || p == corev1.PodFailed }

// Failed returns the status of a Pod that ends before it has a task.
func Failed(pod *corev1.Pod, reason, message string) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodFailed, Reason: reason, Message: message, QOSClass: pod.Status.QOSClass}
}

// Waiting returns the status of a Pod whose task cannot be made yet.
func Waiting(pod *corev1.Pod, reason, message string) corev1.PodStatus {
	out := corev1.PodStatus{Phase: corev1.PodPending, QOSClass: pod.Status.QOSClass}
	state := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	var first, rest []string
	for _, c := range pod.Spec.InitContainers {
		first = append(first, c.Name)
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			rest = append(rest, c.Name)
		}
		out.InitContainerStatuses = append(out.InitContainerStatuses, corev1.ContainerStatus{Name: c.Name, Image: c.Image, State: state})
	}
	for _, c := range pod.Spec.Containers {
		rest = append(rest, c.Name)
		out.ContainerStatuses = append(out.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Image: c.Image, State: state})
	}
	out.Conditions = []corev1.PodCondition{
		{Type: corev1.PodInitialized, Status: corev1.ConditionFalse, Reason: "ContainersNotInitialized", Message: fmt.Sprintf("containers with incomplete status: %s", first)},
		{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: reasonNotReady, Message: fmt.Sprintf("containers with unready status: %s", rest)},
		{Type: corev1.ContainersReady, Status: corev1.ConditionFalse, Reason: reasonNotReady, Message: fmt.Sprintf("containers with unready status: %s", rest)},
	}
	if len(first) == 0 {
		out.Conditions[0] = corev1.PodCondition{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}
	}
	return out
}

// pending changes the status of a task that failed before anything ran to that of a Pod that is started again.
func pending(s *corev1.PodStatus) {
	s.Phase, s.Reason, s.Message = corev1.PodPending, "", ""
	for i, c := range s.Conditions {
		if c.Reason == "PodFailed" {
			s.Conditions[i].Reason = reasonNotReady
		}
	}
}

// lists returns the statuses of init containers, and those of the others.
func lists(s corev1.PodStatus) [][]corev1.ContainerStatus {
	return [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses}
}

// Named returns the status of a container; a zero one if there is none.
func Named(s corev1.PodStatus, name string) corev1.ContainerStatus {
	for _, list := range lists(s) {
		for _, c := range list {
			if c.Name == name {
				return c
			}
		}
	}
	return corev1.ContainerStatus{}
}

func waitsFor(c corev1.ContainerStatus, reason string) bool {
	return c.State.Waiting != nil && c.State.Waiting.Reason == reason
}

// cannotStart reports whether a container was created and could not be started, for instance
// because its image does not have the command.
func cannotStart(s corev1.PodStatus) bool {
	for _, list := range lists(s) {
		if slices.ContainsFunc(list, func(c corev1.ContainerStatus) bool { return waitsFor(c, RunError) }) {
			return true
		}
	}
	return false
}

// StartError is the state of a container that could not be started, as the kubelet with containerd reports it.
func StartError(message, id string, at metav1.Time) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 128, Reason: "StartError", Message: message, ContainerID: id, FinishedAt: at}}
}

// startErrors changes the status of a Pod that is never restarted: it has failed because its containers could not be started.
func startErrors(s *corev1.PodStatus, t api.Task) {
	s.Phase = corev1.PodFailed
	for _, list := range lists(*s) {
		for i, c := range list {
			if waitsFor(c, RunError) {
				list[i].State = StartError(c.State.Waiting.Message, c.ContainerID, lastError(t, c.Name))
			}
		}
	}
}

// lastError returns the time of the latest failure of a container.
func lastError(t api.Task, container string) metav1.Time {
	for _, c := range t.Containers {
		if c.Name == container && len(c.Errors) > 0 {
			return metav1.NewTime(c.Errors[len(c.Errors)-1].At)
		}
	}
	return metav1.NewTime(t.StoppedAt)
}

// merged returns the status to write: from, with the conditions and times that the API server or others have set.
func merged(pod *corev1.Pod, from corev1.PodStatus, address string) corev1.PodStatus {
	now := pod.Status
	out := *now.DeepCopy()
	out.Phase, out.Reason, out.Message = from.Phase, from.Reason, from.Message
	out.InitContainerStatuses, out.ContainerStatuses = from.InitContainerStatuses, from.ContainerStatuses
	out.ObservedGeneration = pod.Generation
	if out.StartTime == nil {
		out.StartTime = from.StartTime
	}
	if out.QOSClass == "" {
		out.QOSClass = from.QOSClass
	}
	out.HostIP, out.HostIPs, out.PodIP, out.PodIPs = address, nil, "", nil
	if address != "" {
		out.HostIPs = []corev1.HostIP{{IP: address}}
	}
	if reachable(pod) && from.PodIP != "" {
		out.PodIP, out.PodIPs = address, []corev1.PodIP{{IP: address}}
	}
	for _, c := range from.Conditions {
		setCondition(&out, pod.Generation, gated(pod, c))
	}
	return out
}

// gated returns a condition of the task; Ready is false while a readiness gate of the Pod is not met.
func gated(pod *corev1.Pod, c corev1.PodCondition) corev1.PodCondition {
	if c.Type != corev1.PodReady || c.Status != corev1.ConditionTrue {
		return c
	}
	for _, g := range pod.Spec.ReadinessGates {
		met := slices.ContainsFunc(pod.Status.Conditions, func(o corev1.PodCondition) bool {
			return o.Type == g.ConditionType && o.Status == corev1.ConditionTrue
		})
		if !met {
			c.Status, c.Reason = corev1.ConditionFalse, "ReadinessGatesNotReady"
			c.Message = fmt.Sprintf("the status of pod readiness gate %q is not \"True\"", g.ConditionType)
			return c
		}
	}
	return c
}

// setCondition sets a condition, with the time of its last change. PodScheduled is the
// scheduler's.
func setCondition(s *corev1.PodStatus, generation int64, c corev1.PodCondition) {
	if c.Type == corev1.PodScheduled {
		return
	}
	c.ObservedGeneration = generation
	if c.LastTransitionTime.IsZero() {
		c.LastTransitionTime = metav1.Now()
	}
	for i, o := range s.Conditions {
		if o.Type != c.Type {
			continue
		}
		if o.Status == c.Status {
			c.LastTransitionTime = o.LastTransitionTime
		}
		c.LastProbeTime = o.LastProbeTime
		s.Conditions[i] = c
		return
	}
	s.Conditions = append(s.Conditions, c)
}

// reachable reports whether the ports of a Pod are those of its host, so that the host's
// address is the Pod's for everybody else.
func reachable(pod *corev1.Pod) bool {
	if pod.Spec.HostNetwork {
		return true
	}
	has := false
	for _, c := range pod.Spec.Containers {
		for _, port := range c.Ports {
			if port.HostPort != port.ContainerPort {
				return false
			}
			has = true
		}
	}
	return has
}

// Adjust changes the status of a Pod whose task was not started or whose containers were lost. Active: the Pod is not to
// end. Adjust returns true if the task is to be made again.
func Adjust(s *corev1.PodStatus, spec corev1.PodSpec, t api.Task, active bool) (again bool) {
	settled, never := Settled(t), neverRestarted(spec)
	switch {
	case never && neverRan(t) && cannotStart(*s):
		startErrors(s, t)
	case neverRan(t):
		pending(s)
		return settled && active
	case vanished(t) && !never && active:
		pending(s)
		return settled
	}
	return false
}

// Settled reports whether a task has ended and nothing more happens to it.
func Settled(t api.Task) bool { return t.Settled && t.Status == lifecycle.StatusStopped.String() }

// neverRan reports whether the task failed before any of its containers started.
func neverRan(t api.Task) bool {
	if t.StopCode != lifecycle.StopTaskFailedToStart {
		return false
	}
	for _, c := range t.Containers {
		if !c.StartedAt.IsZero() {
			return false
		}
	}
	return true
}

// vanished reports whether the task ended because its containers were lost, as they are when
// the host restarts: Podman then forgets how they ended.
func vanished(t api.Task) bool {
	return t.StopCode == lifecycle.StopEssentialContainerExited && slices.ContainsFunc(t.Containers, func(c api.Container) bool {
		return c.Essential && slices.ContainsFunc(c.Errors, func(e api.Error) bool { return e.Name == lifecycle.ErrContainerVanished && !e.Tolerated })
	})
}

// Stopped sets the status of a Pod whose task was stopped on its host, at a shutdown or by hand, and not by Kubernetes. The
// exit codes of its containers then do not say whether it succeeded.
func Stopped(s *corev1.PodStatus, t api.Task) {
	switch {
	case t.StopCode != lifecycle.StopUserInitiated || t.StoppedReason == "stopped by "+ByKubernetes || t.Goal == lifecycle.Gone.String():
	case t.StoppedReason == "stopped by "+ByShutdown:
		Disrupt(s, reasonTerminated, messageTerminated)
	default:
		Disrupt(s, reasonTerminated, "Pod was "+t.StoppedReason+" on its node.")
	}
}

// Disrupt sets the status of a Pod that its node ended.
func Disrupt(s *corev1.PodStatus, reason, message string) {
	s.Phase, s.Reason, s.Message = corev1.PodFailed, reason, message
	s.Conditions = append(s.Conditions, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonTerminationByKubelet, Message: message,
	})
}
