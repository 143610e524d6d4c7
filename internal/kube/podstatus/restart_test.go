package podstatus

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestRestartPoliciesOfContainersGoBeforeThatOfThePod(t *testing.T) {
	t.Parallel()
	policy := func(p corev1.ContainerRestartPolicy, rules int) corev1.Container {
		c := corev1.Container{RestartPolicyRules: make([]corev1.ContainerRestartRule, rules)}
		if p != "" {
			c.RestartPolicy = &p
		}
		return c
	}
	const always, never, onFailure = corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure
	for _, tt := range []struct {
		name             string
		pod              corev1.RestartPolicy
		init, containers []corev1.Container
		forGood, never   bool
	}{
		{"the Pod's", corev1.RestartPolicyAlways, nil, []corev1.Container{policy("", 0)}, true, false},
		{"the Pod's, never", corev1.RestartPolicyNever, nil, []corev1.Container{policy("", 0)}, false, true},
		{"one runs for good", corev1.RestartPolicyNever, nil, []corev1.Container{policy("", 0), policy(always, 0)}, true, false},
		{"never in a Pod that restarts others", corev1.RestartPolicyAlways, nil, []corev1.Container{policy(never, 0)}, false, true},
		{"on failure", corev1.RestartPolicyNever, nil, []corev1.Container{policy(onFailure, 0)}, false, false},
		{"a rule", corev1.RestartPolicyNever, nil, []corev1.Container{policy(never, 1)}, false, false},
		{"a sidecar", corev1.RestartPolicyNever, []corev1.Container{policy(always, 0)}, []corev1.Container{policy("", 0)}, false, true},
		{"an init container with a rule", corev1.RestartPolicyNever, []corev1.Container{policy(never, 1)}, []corev1.Container{policy("", 0)}, false, false},
	} {
		s := corev1.PodSpec{RestartPolicy: tt.pod, InitContainers: tt.init, Containers: tt.containers}
		if forGood, never := RunsForGood(s), neverRestarted(s); forGood != tt.forGood || never != tt.never {
			t.Errorf("%s: for good %v, never %v", tt.name, forGood, never)
		}
	}
}
