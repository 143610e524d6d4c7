package podmanifest

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
)

// AnnotationRestarts is the annotation of the Pod document of a task that took the place of
// another one: the restarts before it, by the names of the containers, as JSON. The status of the
// task does not count them.
const AnnotationRestarts = "podtask/earlier-restarts"

// MarkedRestarts are the restarts before the task of a Pod document.
func MarkedRestarts(pod *corev1.Pod) map[string]int32 {
	out := make(map[string]int32)
	if json.Unmarshal([]byte(pod.Annotations[AnnotationRestarts]), &out) != nil {
		return nil // there were none
	}
	return out
}

// markRestarts puts the restarts before a task on its document, and none but those.
func markRestarts(pod *corev1.Pod, earlier map[string]int32) {
	delete(pod.Annotations, AnnotationRestarts)
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
		pod.Annotations[AnnotationRestarts] = string(text)
	}
}

// Restarted are the restarts once another task has taken the place of that with this status:
// those which it counts, and one more of each container that ran.
func Restarted(s corev1.PodStatus, before map[string]int32) map[string]int32 {
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
