package kubepods

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podtask/podtask/internal/kube/podadmission"
)

// refusal returns the reason and the message with which the node rejects the Pod; empty if it takes the Pod.
func (w *podWorker) refusal() (reason, message string) {
	pod := w.latest()
	load := podadmission.Load{Node: w.pods.config.Node, Room: w.pods.config.Room(), Others: w.earlier(), Pressures: w.pods.config.Pressures(), Sysctls: w.pods.config.Sysctls}
	if reason, message = load.Refusal(pod); reason != "" {
		return reason, message
	}
	refused, ignored := unknownMembers(w.pods.members.of(pod.UID))
	if refused != "" {
		return reasonUnsupported, refused
	}
	if len(ignored) > 0 {
		w.pods.config.Events.Event(pod, corev1.EventTypeWarning, reasonUnknownMembers, "The Pod runs without "+strings.Join(ignored, ", ")+", which podtask-kubelet does not know")
	}
	return "", ""
}

// earlier returns the Pods that came before this one and have not ended. Later ones do not count against it.
func (w *podWorker) earlier() (out []*corev1.Pod) {
	w.pods.mu.Lock()
	defer w.pods.mu.Unlock()
	for _, o := range w.pods.all {
		switch {
		case o == w:
			return out
		case !o.report.Ended():
			out = append(out, o.counted())
		}
	}
	return out
}
