package kubepods

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podtask/podtask/internal/kube/podmanifest"
	"github.com/podtask/podtask/internal/testing/kubetest"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// After a restart of the host, Podman has lost the containers. The Pod runs again, unless it is
// to run once, and the restart counts.
func TestPodRunsAgainAfterARestartOfTheHost(t *testing.T) {
	t.Parallel()
	always, once := kubetest.Pod("always", "u1"), kubetest.Pod("once", "u2")
	once.Spec.RestartPolicy = corev1.RestartPolicyNever
	w := newWorld(t, always, once)
	for _, p := range []*corev1.Pod{always, once} {
		_ = w.pods.CreatePod(t.Context(), p)
		w.awaitTask(string(p.UID))
		w.set(string(p.UID), func(s *kubetest.Task) {
			s.StopCode = lifecycle.StopEssentialContainerExited
			s.Containers = []api.Container{{Name: "app", Essential: true, Errors: []api.Error{{Name: lifecycle.ErrContainerVanished}}}}
			s.Object.Status.Phase = corev1.PodFailed // not settled yet
			s.Object.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", RestartCount: 2, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137}}}}
		})
	}
	w.await("the end of the other Pod", func() bool { return w.has("once").Status.Phase == corev1.PodFailed })
	w.await("the status of the Pod", func() bool { return len(w.has("always").Status.ContainerStatuses) == 1 })
	if got := w.has("always").Status.Phase; got != corev1.PodPending {
		t.Errorf("the Pod is %s for the cluster, for good", got)
	}
	w.set("u1", func(s *kubetest.Task) { s.End(corev1.PodFailed) })
	w.await("another task", func() bool {
		s, _, err := w.agent.Get("task-of-u1")
		return err == nil && s.Goal == "UP"
	})
	w.set("u1", func(s *kubetest.Task) {
		s.Object.Status.Phase = corev1.PodRunning
		s.Object.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", RestartCount: 1, State: corev1.ContainerState{Running: new(corev1.ContainerStateRunning)}}}
	})
	w.await("Running", func() bool { return w.has("always").Status.Phase == corev1.PodRunning })
	if got := w.has("always").Status.ContainerStatuses[0].RestartCount; got != 4 {
		t.Errorf("%d restarts, want the two before, that of the host and one since", got)
	}
	again := newWorld(t, w.has("always")) // the next process
	again.agent.Change(func() {
		s, _, _ := w.agent.Get("task-of-u1")
		s.Object = *s.Object.DeepCopy()
		s.Object.Status.ContainerStatuses[0].RestartCount = 2
		again.agent.ByID["task-of-u1"] = &s
	})
	if err := again.pods.Adopt(); err != nil {
		t.Fatal(err)
	}
	again.pods.see(again.has("always"), false)
	again.await("one more restart", func() bool {
		got := again.has("always").Status.ContainerStatuses
		return len(got) == 1 && got[0].RestartCount == 5
	})
}

// A Pod whose task is not there any more runs again, and its status has how often it ran before.
func TestALostTaskCountsAsARestart(t *testing.T) {
	t.Parallel()
	pod := kubetest.Pod("web", "u1")
	pod.Annotations = map[string]string{podmanifest.AnnotationRestarts: `{"app":70}`} // not the node's
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", RestartCount: 2, State: corev1.ContainerState{Running: new(corev1.ContainerStateRunning)}}}
	w := newWorld(t, pod)
	_ = w.pods.CreatePod(t.Context(), pod)
	w.awaitTask("u1")
	w.set("u1", func(s *kubetest.Task) {
		s.Object.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app"}}
	})
	w.await("a restart", func() bool {
		got := w.has("web").Status.ContainerStatuses
		return len(got) == 1 && got[0].RestartCount == 3
	})
	if task, _, _ := w.agent.Get("task-of-u1"); task.Object.Annotations[podmanifest.AnnotationRestarts] != `{"app":3}` {
		t.Errorf("the task has %v", task.Object.Annotations)
	}
}

// A Pod whose task has run and was removed while nobody saw it runs again if it is to run for good; a Job's has failed, and
// does not run twice.
func TestAPodWhoseTaskHasRunIsNotRunTwice(t *testing.T) {
	t.Parallel()
	server, job := kubetest.Pod("web", "u1"), kubetest.Pod("job", "u2")
	job.Spec.RestartPolicy = corev1.RestartPolicyNever
	w := newWorld(t, server, job)
	w.agent.Gone = map[string]bool{"pod u1/0": true, "pod u1/1": true, "pod u2/0": true}
	for _, p := range []*corev1.Pod{server, job} {
		if err := w.pods.CreatePod(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	w.awaitTask("u1")
	w.await("the end of the job", func() bool {
		s := w.has("job").Status
		return s.Phase == corev1.PodFailed && s.Reason == reasonTaskRemoved
	})
	if _, _, err := w.agent.Get("task-of-u2"); err == nil {
		t.Error("the job runs again")
	}
	if !slices.Contains(w.agent.Tokens, "pod u1/2") {
		t.Errorf("the tokens are %q", w.agent.Tokens)
	}
}
