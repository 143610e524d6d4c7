package kubepods

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	"github.com/podtask/podtask/internal/kube/podstatus"
	"github.com/podtask/podtask/internal/testing/kubetest"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// failToStart makes a task one whose container was created and could not be started.
func failToStart(s *kubetest.Task) {
	s.StopCode = "TaskFailedToStart"
	s.Containers = []api.Container{{Name: "app", Essential: true, Errors: []api.Error{{Message: "no such file", At: time.Unix(1000, 0)}}}}
	s.Object.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "RunContainerError", Message: "no such file"}}}}
	s.End(corev1.PodFailed)
}

func TestAPodThatRunsOnceFailsIfItsCommandCannotBeStarted(t *testing.T) {
	t.Parallel()
	pod := kubetest.Pod("job", "u1")
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	w := newWorld(t, pod)
	_ = w.pods.CreatePod(t.Context(), pod)
	w.awaitTask("u1")
	w.set("u1", failToStart)
	w.await("the end", func() bool { return w.has("job").Status.Phase == corev1.PodFailed })
	got := w.has("job").Status.ContainerStatuses[0].State.Terminated
	if got == nil || got.Reason != "StartError" || got.ExitCode != 128 || got.Message != "no such file" || !got.FinishedAt.Time.Equal(time.Unix(1000, 0)) {
		t.Errorf("the container is %+v", got)
	}
	if len(w.agent.Asked()) != 0 {
		t.Errorf("the agent was asked to %v", w.agent.Asked())
	}
}

// A Pod that runs once waits for its image as long as others do.
func TestAPodThatRunsOnceWaitsForItsImage(t *testing.T) {
	t.Parallel()
	pod := kubetest.Pod("job", "u1")
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	w := newWorld(t, pod)
	_ = w.pods.CreatePod(t.Context(), pod)
	w.awaitTask("u1")
	w.set("u1", func(s *kubetest.Task) {
		failToStart(s)
		s.Object.Status.ContainerStatuses[0].State.Waiting.Reason = "ErrImagePull"
	})
	w.await("another task", func() bool {
		s, _, err := w.agent.Get("task-of-u1")
		return err == nil && s.Goal == "UP"
	})
	if got := w.has("job").Status.Phase; got == corev1.PodFailed {
		t.Error("the Pod has failed")
	}
}

func TestAWrongSubPathExprWaitsForARepair(t *testing.T) {
	t.Parallel()
	pod := kubetest.Pod("web", "u1")
	pod.Annotations = map[string]string{"path": "/absolute"}
	w := newWorld(t, pod)
	w.pods.config.Pace.Most, w.pods.config.Pace.Steady = time.Hour, time.Hour // only the change makes it try again
	w.agent.Refusal = &api.Failure{Code: api.BadRequest, Message: "invalid task definition", Problems: []taskdef.Problem{
		{Pointer: "/items/0/spec/containers/0/volumeMounts/0/subPathExpr", Line: 1, Column: 711, Message: "a path below the volume has no / before it"},
	}}
	_ = w.pods.CreatePod(t.Context(), pod)
	w.await("the reason", func() bool {
		s := w.has("web").Status
		return s.Phase == corev1.PodPending && len(s.ContainerStatuses) == 1 && s.ContainerStatuses[0].State.Waiting.Reason == podstatus.ConfigError
	})
	if got, want := w.has("web").Status.ContainerStatuses[0].State.Waiting.Message, "/spec/containers/0/volumeMounts/0/subPathExpr: a path below the volume has no / before it"; got != want {
		t.Errorf("the message is %q, want %q", got, want)
	}
	w.agent.Change(func() { w.agent.Refusal = nil })
	w.update("web", func(p *corev1.Pod) { p.Annotations = map[string]string{"path": "below"} })
	w.awaitTask("u1")
}

func TestAnythingElseThatIsWrongEndsThePod(t *testing.T) {
	t.Parallel()
	mount, other := "/items/0/spec/containers/0/volumeMounts/0/subPathExpr", "/items/0/spec/runtimeClassName"
	root := "/items/0/spec/containers/0/securityContext/runAsNonRoot"
	for _, c := range []struct {
		pointers []string
		want     bool
	}{{nil, false}, {[]string{mount}, true}, {[]string{mount, other}, false}, {[]string{mount + "/x"}, false}, {[]string{root}, true}, {[]string{"/items/0/spec/securityContext/runAsNonRoot", mount}, true}, {[]string{root + "Group"}, false}} {
		f := &api.Failure{Code: api.BadRequest}
		for _, p := range c.pointers {
			f.Problems = append(f.Problems, taskdef.Problem{Pointer: p})
		}
		if got := isConfigError(f); got != c.want {
			t.Errorf("%v: isConfigError is %t", c.pointers, got)
		}
	}
}

// activeDeadlineSeconds may be set while a Pod runs. The agent does not know it.
func TestADeadlineThatIsSetLaterEndsThePod(t *testing.T) {
	t.Parallel()
	pod := kubetest.Pod("job", "u1")
	w := newWorld(t, pod)
	_ = w.pods.CreatePod(t.Context(), pod)
	w.awaitTask("u1")
	w.set("u1", func(s *kubetest.Task) { s.Object.Status.Phase = corev1.PodRunning })
	w.await("Running", func() bool { return w.has("job").Status.Phase == corev1.PodRunning })
	start := metav1.NewTime(time.Now().Add(-time.Minute))
	w.update("job", func(p *corev1.Pod) { p.Status.StartTime, p.Spec.ActiveDeadlineSeconds = &start, new(int64(30)) })
	w.await("the stop", func() bool {
		return slices.Equal(w.agent.Asked(), []string{"stop task-of-u1"})
	})
	w.set("u1", func(s *kubetest.Task) {
		s.StopCode, s.StoppedReason = lifecycle.StopUserInitiated, "stopped by "+podstatus.ByKubernetes
		s.End(corev1.PodSucceeded)
	})
	w.await("the end", func() bool { return w.has("job").Status.Phase == corev1.PodFailed })
	if got := w.has("job").Status; got.Reason != "DeadlineExceeded" || len(got.Conditions) != 0 {
		t.Errorf("the status is %+v", got)
	}
}

func TestTheGenerationThatWasSeenIsReported(t *testing.T) {
	t.Parallel()
	pod := kubetest.Pod("web", "u1")
	pod.Generation = 1
	w := newWorld(t, pod)
	_ = w.pods.CreatePod(t.Context(), pod)
	w.awaitTask("u1")
	w.set("u1", func(s *kubetest.Task) { s.Object.Status.Phase = corev1.PodRunning })
	w.await("Running", func() bool {
		s := w.has("web").Status
		return s.Phase == corev1.PodRunning && s.ObservedGeneration == 1
	})
	w.update("web", func(p *corev1.Pod) { p.Generation = 2 })
	w.await("the next generation", func() bool { return w.has("web").Status.ObservedGeneration == 2 })
}

// What users may change of a Pod and does not reach its containers is told by one event.
func TestChangesWithoutEffectAreTold(t *testing.T) {
	t.Parallel()
	pod := kubetest.Pod("web", "u1")
	w := newWorld(t, pod)
	events := record.NewFakeRecorder(9)
	w.pods.config.Events = events
	_ = w.pods.CreatePod(t.Context(), pod)
	w.awaitTask("u1")
	w.await("the task", func() bool { return w.pods.find("", "", "u1").taskID() != "" })
	changed := pod.DeepCopy()
	changed.Spec.Containers[0].Image = "app:2"
	changed.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debugger"}}}
	for range 2 {
		w.pods.see(changed, false)
	}
	w.pods.see(pod, false)
	var got []string
	for len(events.Events) > 0 {
		e := <-events.Events
		got = append(got, strings.Join(strings.Fields(e)[:4], " "))
	}
	if want := []string{"Warning ImageNotChanged Container app", "Warning EphemeralContainersNotSupported Ephemeral container"}; !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
