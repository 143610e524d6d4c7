package kubepods

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podtask/podtask/internal/testing/kubetest"
)

func TestAPodWithAForbiddenSysctlIsRejected(t *testing.T) {
	t.Parallel()
	pod := kubetest.Pod("web", "u1")
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "kernel.msgmax", Value: "1"}}}
	w := newWorld(t, pod)
	_ = w.pods.CreatePod(t.Context(), pod)
	w.await("the rejection", func() bool { return w.has("web").Status.Phase == corev1.PodFailed })
	if got := w.has("web").Status; got.Reason != "SysctlForbidden" || !strings.Contains(got.Message, "kernel.msgmax") {
		t.Errorf("%s: %s", got.Reason, got.Message)
	}
}
