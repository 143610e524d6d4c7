package kubenode

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podtask/podtask/pkg/api"
)

// Reasons, as the kubelet gives them.
const (
	waitConfigError = "CreateContainerConfigError"
	waitCreateError = "CreateContainerError"
	waitCreating    = "ContainerCreating"
	waitRunError    = "RunContainerError"
	reasonNotReady  = "ContainersNotReady"
	startError      = "StartError"
	startErrorCode  = 128 // the exit code of a container that could not be started
)

// ended reports whether a Pod has ended for good.
func ended(p corev1.PodPhase) bool { return p == corev1.PodSucceeded || p == corev1.PodFailed }

// rejection is the status of a Pod that the node does not run (kubelet, rejectPod).
func rejection(pod *corev1.Pod, reason, message string) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodFailed, Reason: reason, Message: "Pod was rejected: " + message, QOSClass: pod.Status.QOSClass}
}

// failedStatus is the status of a Pod that ended before it had a task.
func failedStatus(pod *corev1.Pod, f failure) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodFailed, Reason: f.reason, Message: f.message, QOSClass: pod.Status.QOSClass}
}

// waitingStatus is the status of a Pod whose task cannot be made yet.
func waitingStatus(pod *corev1.Pod, reason, message string) corev1.PodStatus {
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

// pending changes the status of a task that failed before anything ran: the Pod is tried
// again.
func pending(s *corev1.PodStatus) {
	s.Phase, s.Reason, s.Message = corev1.PodPending, "", ""
	for i, c := range s.Conditions {
		if c.Reason == "PodFailed" {
			s.Conditions[i].Reason = reasonNotReady
		}
	}
}

// statusLists are the statuses of all containers.
func statusLists(s corev1.PodStatus) [][]corev1.ContainerStatus {
	return [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses}
}

func waitsFor(c corev1.ContainerStatus, reason string) bool {
	return c.State.Waiting != nil && c.State.Waiting.Reason == reason
}

// cannotStart reports whether a container was created and could not be started, for instance
// because its image does not have the command.
func cannotStart(s corev1.PodStatus) bool {
	for _, list := range statusLists(s) {
		if slices.ContainsFunc(list, func(c corev1.ContainerStatus) bool { return waitsFor(c, waitRunError) }) {
			return true
		}
	}
	return false
}

// startErrors makes the status of a Pod that is never restarted that of one that has failed
// because its containers could not be started, as the kubelet with containerd reports it.
func startErrors(s *corev1.PodStatus, t api.Task) {
	s.Phase = corev1.PodFailed
	for _, list := range statusLists(*s) {
		for i, c := range list {
			if waitsFor(c, waitRunError) {
				list[i].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
					ExitCode: startErrorCode, Reason: startError, Message: c.State.Waiting.Message, ContainerID: c.ContainerID, FinishedAt: lastError(t, c.Name),
				}}
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

// merged is the status that a Pod is to have: from, with what others than the node have
// set in now.
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

// gated is a condition of the task, with what the Pod's readiness gates add.
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
