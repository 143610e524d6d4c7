package kubenode

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podtask/podtask/internal/kube/podmanifest"
	"github.com/podtask/podtask/internal/kube/pressure"
	"github.com/podtask/podtask/pkg/api"
)

// A shutdown ends ordinary Pods before critical ones, takes no others, and returns when the
// API server knows.
func TestShutdownEndsPodsInOrder(t *testing.T) {
	t.Parallel()
	web, vital, late := aPod("web", "u1"), aPod("vital", "u2"), aPod("late", "u3")
	vital.Spec.Priority = ptr[int32](2_000_000_000)
	w := newWorld(t, web, vital, late, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "edge"}})
	for _, p := range []*corev1.Pod{web, vital} {
		_ = w.pods.CreatePod(t.Context(), p)
		w.awaitTask(string(p.UID))
		w.set(string(p.UID), func(s *taskStub) { s.pod.Status.Phase = corev1.PodRunning })
	}
	n := &node{identity: Identity{Name: "edge", Pods: 110}, host: &hostStub{}, figures: func(string) pressure.Figures { return pressure.Figures{} }, log: slog.New(slog.DiscardHandler), pressure: newPressures(nil)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		Shutdown{Begun: func(context.Context) bool { return true }, Limit: time.Hour}.end(t.Context(), n, w.pods)
	}()
	for _, c := range []struct{ uid, asked string }{{"u1", "shut task-of-u1"}, {"u2", "shut task-of-u1 shut task-of-u2"}} {
		w.await("the request to stop "+c.uid, func() bool {
			w.agent.mu.Lock()
			defer w.agent.mu.Unlock()
			return strings.Join(w.agent.asked, " ") == c.asked
		})
		w.set(c.uid, func(s *taskStub) {
			s.StopCode, s.StoppedReason = stopUserInitiated, "stopped by "+byShutdown
			s.end(corev1.PodSucceeded) // it ends with the code 0 when it is told to
		})
	}
	<-done
	for _, name := range []string{"web", "vital"} {
		if got := w.has(name).Status; got.Phase != corev1.PodFailed || got.Reason != "Terminated" || got.Message != messageTerminated ||
			len(got.Conditions) != 1 || got.Conditions[0].Reason != corev1.PodReasonTerminationByKubelet {
			t.Errorf("the status of %s is %+v", name, got)
		}
	}
	_ = w.pods.CreatePod(t.Context(), late)
	w.await("the rejection", func() bool { return w.has("late").Status.Reason == "NodeShutdown" })
	object, err := w.client.CoreV1().Nodes().Get(t.Context(), "edge", metav1.GetOptions{})
	if err != nil || len(object.Status.Conditions) != 1 || object.Status.Conditions[0].Status != corev1.ConditionFalse || object.Status.Conditions[0].Message != "node is shutting down" {
		t.Errorf("the node is %+v, %v", object.Status.Conditions, err)
	}
}

// A Pod that does not end within the limit is killed.
func TestShutdownKillsWhatDoesNotEnd(t *testing.T) {
	t.Parallel()
	web := aPod("web", "u1")
	w := newWorld(t, web, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "edge"}})
	_ = w.pods.CreatePod(t.Context(), web)
	w.awaitTask("u1")
	terminateAll(t.Context(), w.pods, false, time.Now())
	w.agent.mu.Lock()
	defer w.agent.mu.Unlock()
	if got := strings.Join(w.agent.asked, " "); got != "shut task-of-u1 kill task-of-u1" {
		t.Errorf("asked %s", got)
	}
}

// What was stopped on the host has failed, whatever the exit code; an end of its own has
// not, and neither has one that Kubernetes asked for.
func TestStoppedStatus(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code, reason, goal string
		want, message      string
	}{
		{stopUserInitiated, "stopped by the shutdown of the node", "DOWN", "Terminated", messageTerminated},
		{stopUserInitiated, "stopped by the end of the agent", "DOWN", "Terminated", "Pod was stopped by the end of the agent on its node."},
		{stopUserInitiated, "stopped by podtask rm", "GONE", "", ""},
		{stopUserInitiated, "stopped by Kubernetes", "DOWN", "", ""},
		{"EssentialContainerExited", "app exited with code 0", "DOWN", "", ""},
	} {
		s := corev1.PodStatus{Phase: corev1.PodSucceeded}
		stoppedStatus(&s, api.Task{StopCode: c.code, StoppedReason: c.reason, Goal: c.goal})
		if s.Reason != c.want || s.Message != c.message || (s.Phase == corev1.PodFailed) != (c.want != "") {
			t.Errorf("%s: %+v", c.reason, s)
		}
	}
}

// After a restart of the host, Podman has lost the containers. The Pod runs again, unless it is
// to run once, and the restart counts.
func TestPodRunsAgainAfterARestartOfTheHost(t *testing.T) {
	t.Parallel()
	always, once := aPod("always", "u1"), aPod("once", "u2")
	once.Spec.RestartPolicy = corev1.RestartPolicyNever
	w := newWorld(t, always, once)
	for _, p := range []*corev1.Pod{always, once} {
		_ = w.pods.CreatePod(t.Context(), p)
		w.awaitTask(string(p.UID))
		w.set(string(p.UID), func(s *taskStub) {
			s.StopCode = stopContainerExited
			s.Containers = []api.Container{{Name: "app", Essential: true, Errors: []api.Error{{Name: containerVanished}}}}
			s.pod.Status.Phase = corev1.PodFailed // not settled yet
			s.pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", RestartCount: 2, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137}}}}
		})
	}
	w.await("the end of the other Pod", func() bool { return w.has("once").Status.Phase == corev1.PodFailed })
	w.await("the status of the Pod", func() bool { return len(w.has("always").Status.ContainerStatuses) == 1 })
	if got := w.has("always").Status.Phase; got != corev1.PodPending {
		t.Errorf("the Pod is %s for the cluster, for good", got)
	}
	w.set("u1", func(s *taskStub) { s.end(corev1.PodFailed) })
	w.await("another task", func() bool {
		s, _, err := w.agent.get("task-of-u1")
		return err == nil && s.Goal == "UP"
	})
	w.set("u1", func(s *taskStub) {
		s.pod.Status.Phase = corev1.PodRunning
		s.pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", RestartCount: 1, State: corev1.ContainerState{Running: new(corev1.ContainerStateRunning)}}}
	})
	w.await("Running", func() bool { return w.has("always").Status.Phase == corev1.PodRunning })
	if got := w.has("always").Status.ContainerStatuses[0].RestartCount; got != 4 {
		t.Errorf("%d restarts, want the two before, that of the host and one since", got)
	}
	again := newWorld(t, w.has("always")) // the next process
	again.agent.change(func() {
		s, _, _ := w.agent.get("task-of-u1")
		s.pod = *s.pod.DeepCopy()
		s.pod.Status.ContainerStatuses[0].RestartCount = 2
		again.agent.tasks["task-of-u1"] = &s
	})
	if err := again.pods.Adopt(t.Context()); err != nil {
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
	pod := aPod("web", "u1")
	pod.Annotations = map[string]string{podmanifest.AnnotationRestarts: `{"app":70}`} // not the node's
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", RestartCount: 2, State: corev1.ContainerState{Running: new(corev1.ContainerStateRunning)}}}
	w := newWorld(t, pod)
	_ = w.pods.CreatePod(t.Context(), pod)
	w.awaitTask("u1")
	w.set("u1", func(s *taskStub) {
		s.pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app"}}
	})
	w.await("a restart", func() bool {
		got := w.has("web").Status.ContainerStatuses
		return len(got) == 1 && got[0].RestartCount == 3
	})
	if task, _, _ := w.agent.get("task-of-u1"); task.pod.Annotations[podmanifest.AnnotationRestarts] != `{"app":3}` {
		t.Errorf("the task has %v", task.pod.Annotations)
	}
}

// A Pod whose task has run and was removed while nobody saw it runs again if it is to run for good; a Job's has failed, and
// does not run twice.
func TestAPodWhoseTaskHasRunIsNotRunTwice(t *testing.T) {
	t.Parallel()
	server, job := aPod("web", "u1"), aPod("job", "u2")
	job.Spec.RestartPolicy = corev1.RestartPolicyNever
	w := newWorld(t, server, job)
	w.agent.gone = map[string]bool{"pod u1/0": true, "pod u1/1": true, "pod u2/0": true}
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
	if _, _, err := w.agent.get("task-of-u2"); err == nil {
		t.Error("the job runs again")
	}
	w.agent.mu.Lock()
	defer w.agent.mu.Unlock()
	if !slices.Contains(w.agent.tokens, "pod u1/2") {
		t.Errorf("the tokens are %q", w.agent.tokens)
	}
}

func TestOnlyALostContainerIsRunAgain(t *testing.T) {
	t.Parallel()
	lost := api.Error{Name: containerVanished}
	for what, c := range map[string]struct {
		code      string
		container api.Container
		want      bool
	}{
		"lost":                  {stopContainerExited, api.Container{Essential: true, Errors: []api.Error{lost}}, true},
		"stopped by a user":     {stopUserInitiated, api.Container{Essential: true, Errors: []api.Error{lost}}, false},
		"a sidecar is lost":     {stopContainerExited, api.Container{Errors: []api.Error{lost}}, false},
		"it says so by itself":  {stopContainerExited, api.Container{Essential: true, Reason: containerVanished}, false},
		"another kind of error": {stopContainerExited, api.Container{Essential: true, Errors: []api.Error{{Name: "OutOfMemoryError"}}}, false},
	} {
		task := api.Task{StopCode: c.code, StoppedReason: "app: " + containerVanished, Containers: []api.Container{c.container}}
		if got := vanished(task); got != c.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}

// Containers and the status of the Pod have the same address of the host.
func TestContainersAreToldTheAddressOfTheNode(t *testing.T) {
	t.Parallel()
	pod := aPod("web", "u1")
	for _, path := range []string{"status.hostIP", "status.hostIPs", "status.podIP"} {
		pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, corev1.EnvVar{Name: path, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}})
	}
	got := podmanifest.Manifests{Node: "edge", Address: "192.0.2.7"}.Adapted(pod).Spec.Containers[0].Env
	if got[0].Value != "192.0.2.7" || got[1].Value != "192.0.2.7" || got[2].ValueFrom == nil {
		t.Errorf("%+v", got)
	}
}
