package kubepods

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podtask/podtask/internal/kube/podstatus"
	"github.com/podtask/podtask/internal/testing/kubetest"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// A shutdown ends ordinary Pods before critical ones, takes no others, and returns when the
// API server knows.
func TestShutdownEndsPodsInOrder(t *testing.T) {
	t.Parallel()
	web, vital, late := kubetest.Pod("web", "u1"), kubetest.Pod("vital", "u2"), kubetest.Pod("late", "u3")
	vital.Spec.Priority = new(int32(2_000_000_000))
	w := newWorld(t, web, vital, late)
	for _, p := range []*corev1.Pod{web, vital} {
		_ = w.pods.CreatePod(t.Context(), p)
		w.awaitTask(string(p.UID))
		w.set(string(p.UID), func(s *kubetest.Task) { s.Object.Status.Phase = corev1.PodRunning })
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.pods.ShutDown(t.Context(), time.Hour)
	}()
	for _, c := range []struct{ uid, asked string }{{"u1", "shut task-of-u1"}, {"u2", "shut task-of-u1 shut task-of-u2"}} {
		w.await("the request to stop "+c.uid, func() bool {
			return strings.Join(w.agent.Asked(), " ") == c.asked
		})
		w.set(c.uid, func(s *kubetest.Task) {
			s.StopCode, s.StoppedReason = lifecycle.StopUserInitiated, "stopped by "+podstatus.ByShutdown
			s.End(corev1.PodSucceeded) // it ends with the code 0 when it is told to
		})
	}
	<-done
	for _, name := range []string{"web", "vital"} {
		if got := w.has(name).Status; got.Phase != corev1.PodFailed || got.Reason != "Terminated" || got.Message != "Pod was terminated in response to imminent node shutdown." ||
			len(got.Conditions) != 1 || got.Conditions[0].Reason != corev1.PodReasonTerminationByKubelet {
			t.Errorf("the status of %s is %+v", name, got)
		}
	}
	_ = w.pods.CreatePod(t.Context(), late)
	w.await("the rejection", func() bool { return w.has("late").Status.Reason == "NodeShutdown" })
}

// A Pod that does not end within the limit is killed.
func TestShutdownKillsWhatDoesNotEnd(t *testing.T) {
	t.Parallel()
	web := kubetest.Pod("web", "u1")
	w := newWorld(t, web)
	_ = w.pods.CreatePod(t.Context(), web)
	w.awaitTask("u1")
	w.pods.terminate(t.Context(), false, time.Now())
	if got := strings.Join(w.agent.Asked(), " "); got != "shut task-of-u1 kill task-of-u1" {
		t.Errorf("asked %s", got)
	}
}
