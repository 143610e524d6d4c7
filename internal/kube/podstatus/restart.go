package podstatus

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// restartPolicy returns the restart policy of a container: its own, else the Pod's.
func restartPolicy(s corev1.PodSpec, c corev1.Container) corev1.RestartPolicy {
	if c.RestartPolicy != nil {
		return corev1.RestartPolicy(*c.RestartPolicy)
	}
	return s.RestartPolicy
}

// RunsForGood reports whether a container of the Pod is restarted whenever it ends.
func RunsForGood(s corev1.PodSpec) bool {
	return slices.ContainsFunc(s.Containers, func(c corev1.Container) bool { return restartPolicy(s, c) == corev1.RestartPolicyAlways })
}

// neverRestarted reports whether no container of the Pod is restarted, however it ends. Sidecars do not count.
func neverRestarted(s corev1.PodSpec) bool {
	restarted := func(c corev1.Container) bool {
		return restartPolicy(s, c) != corev1.RestartPolicyNever || len(c.RestartPolicyRules) > 0
	}
	return !slices.ContainsFunc(s.Containers, restarted) && !slices.ContainsFunc(s.InitContainers, func(c corev1.Container) bool {
		return restarted(c) && restartPolicy(s, c) != corev1.RestartPolicyAlways
	})
}
