package kubenode

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
)

// annotationRestarts is the annotation of the Pod document of a task that took the place of
// another one: the restarts before it, by the names of the containers, as JSON. The status of the
// task does not count them.
const annotationRestarts = "podtask/earlier-restarts"

// markedRestarts are the restarts before the task of a Pod document.
func markedRestarts(pod *corev1.Pod) map[string]int32 {
	out := make(map[string]int32)
	if json.Unmarshal([]byte(pod.Annotations[annotationRestarts]), &out) != nil {
		return nil // there were none
	}
	return out
}

// markRestarts puts the restarts before a task on its document, and none but those.
func markRestarts(pod *corev1.Pod, earlier map[string]int32) {
	delete(pod.Annotations, annotationRestarts)
	counted := make(map[string]int32)
	for name, n := range earlier {
		if n > 0 {
			counted[name] = n
		}
	}
	if len(counted) == 0 {
		return
	}
	if text, err := json.Marshal(counted); err == nil {
		pod.Annotations[annotationRestarts] = string(text)
	}
}

// restarted are the restarts once another task has taken the place of that with this status:
// those which it counts, and one more of each container that ran.
func restarted(s corev1.PodStatus, before map[string]int32) map[string]int32 {
	out := make(map[string]int32)
	for _, list := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses} {
		for _, c := range list {
			out[c.Name] = max(c.RestartCount, before[c.Name])
			if c.State.Running != nil || c.State.Terminated != nil || c.LastTerminationState.Terminated != nil {
				out[c.Name]++
			}
		}
	}
	return out
}
