package podevents

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/podtask/podtask/internal/testing/kubetest"
	"github.com/podtask/podtask/pkg/api"
)

// list is a Recorder.
type list []string

func (l *list) Event(_ runtime.Object, kind, reason, message string) {
	*l = append(*l, kind+" "+reason+" "+message)
}

func (l *list) drained() []string {
	out := *l
	*l = nil
	return out
}

// TestEventsOfContainers follows containers; each state has the events since the one before.
func TestEventsOfContainers(t *testing.T) {
	t.Parallel()
	epoch := time.Unix(1000, 0)
	pod := kubetest.Pod("web", "u1")
	pod.Spec.Containers[0].ReadinessProbe, pod.Spec.Containers[0].LivenessProbe = new(corev1.Probe), new(corev1.Probe)
	busy := []api.Reason{{Code: "operation", Container: "app", Since: epoch}}
	waiting := func(reason, message string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	}
	running := func(health string, streak int) api.Container {
		return api.Container{Name: "app", Image: "app:1", ImageID: "i", ImageSource: "registry", RuntimeID: "r", Status: "RUNNING", StartedAt: epoch,
			Health: &api.Health{Status: health, Output: "HTTP 500", FailingStreak: streak}}
	}
	led := running("HEALTHY", 0)
	led.Health.Output = "Probe terminated redirects, Response body: there"
	type state struct {
		container api.Container
		why       []api.Reason
		status    corev1.ContainerState
		goal      string
		want      []string
	}
	for what, states := range map[string][]state{
		"runs until it is stopped": {
			{container: api.Container{Status: "NONE"}},
			{container: api.Container{Status: "MANIFEST_PULLED", ImageDigest: "d"}, why: busy, want: []string{`Normal Pulling Pulling image "app:1"`}},
			{container: api.Container{Status: "MANIFEST_PULLED", ImageDigest: "d"}, why: busy},
			{container: api.Container{Status: "PULLED", ImageDigest: "d", ImageID: "i", ImageSource: "registry"}, want: []string{`Normal Pulled Successfully pulled image "app:1"`}},
			{container: running("UNKNOWN", 0), want: []string{"Normal Created Created container: app", "Normal Started Started container app"}},
			{container: running("HEALTHY", 0)},
			{container: running("HEALTHY", 0), goal: "DOWN", want: []string{"Normal Killing Stopping container app"}},
			{container: running("HEALTHY", 0), goal: "DOWN"},
		},
		"has its image already": {
			{container: api.Container{Status: "PULLED", ImageID: "i", ImageSource: "cache"}, want: []string{`Normal Pulled Container image "app:1" already present on machine`}},
		},
		"was pulled between two states": {
			{container: api.Container{Status: "CREATED", ImageID: "i", ImageSource: "registry", RuntimeID: "r"},
				want: []string{`Normal Pulling Pulling image "app:1"`, `Normal Pulled Successfully pulled image "app:1"`, "Normal Created Created container: app"}},
		},
		"has no image": {
			{container: api.Container{Retry: &api.Retry{Attempts: 1}}, status: waiting("ErrImagePull", "denied"),
				want: []string{`Warning Failed Failed to pull image "app:1": denied`, "Warning Failed Error: ErrImagePull"}},
			{container: api.Container{Retry: &api.Retry{Attempts: 1}}, status: waiting("ImagePullBackOff", "denied"),
				want: []string{`Normal BackOff Back-off pulling image "app:1"`, "Warning Failed Error: ImagePullBackOff"}},
			{container: api.Container{Retry: &api.Retry{Attempts: 1}}, status: waiting("ImagePullBackOff", "denied")},
		},
		"cannot be started": {
			{status: waiting("RunContainerError", "no such file"), want: []string{"Warning Failed Error: no such file"}},
			{container: api.Container{Retry: &api.Retry{Attempts: 1}}, status: waiting("RunContainerError", "no such file"), want: []string{"Warning Failed Error: no such file"}},
		},
		"crashes": {
			{status: waiting("ContainerCreating", "")},
			{status: waiting("CrashLoopBackOff", "back-off 10s"), want: []string{"Warning BackOff Back-off restarting failed container app in pod web_default(u1)"}},
		},
		"is not ready, and then not alive": {
			{container: running("UNKNOWN", 1), want: []string{
				`Normal Pulling Pulling image "app:1"`, `Normal Pulled Successfully pulled image "app:1"`, "Normal Created Created container: app", "Normal Started Started container app",
				"Warning Unhealthy Readiness probe failed: HTTP 500"}},
			{container: running("UNHEALTHY", 2), want: []string{"Warning Unhealthy Readiness probe failed: HTTP 500"}},
			{container: running("UNHEALTHY", 3), why: busy, want: []string{"Warning Unhealthy Liveness probe failed: HTTP 500", "Normal Killing Container app failed liveness probe, will be restarted"}},
		},
		"is led elsewhere by its answer": {
			{container: led, want: []string{
				`Normal Pulling Pulling image "app:1"`, `Normal Pulled Successfully pulled image "app:1"`, "Normal Created Created container: app", "Normal Started Started container app",
				"Warning ProbeWarning Readiness probe warning: Probe terminated redirects, Response body: there"}},
			{container: led},
		},
		"has a hook that fails": {
			{container: api.Container{Errors: []api.Error{{Name: "FailedPostStartHook", Message: "exit code 3"}, {Name: "OutOfMemoryError"}}}, want: []string{"Warning FailedPostStartHook exit code 3"}},
		},
	} {
		recorder := new(list)
		events := &Observer{Recorder: recorder}
		for i, s := range states {
			s.container.Name, s.container.Image = "app", "app:1"
			task := api.Task{ID: "t", Goal: "UP", Why: s.why, Containers: []api.Container{s.container}}
			if s.goal != "" {
				task.Goal = s.goal
			}
			events.Observe(pod, task, corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "app", State: s.status}}})
			if got := recorder.drained(); !slices.Equal(got, s.want) {
				t.Errorf("%s, state %d:\ngot  %q\nwant %q", what, i, got, s.want)
			}
		}
	}
}

// A process that finds a task does not report again what happened before.
func TestEventsOfATaskThatWasFound(t *testing.T) {
	t.Parallel()
	pod, recorder := kubetest.Pod("web", "u1"), new(list)
	events := &Observer{Recorder: recorder, Adopted: "t"}
	task := api.Task{ID: "t", Goal: "UP", Containers: []api.Container{{Name: "app", Image: "app:1", ImageID: "i", RuntimeID: "r", Status: "RUNNING", StartedAt: time.Unix(1, 0)}}}
	events.Observe(pod, task, corev1.PodStatus{})
	if got := recorder.drained(); len(got) != 0 {
		t.Errorf("reported again: %q", got)
	}
	task.Containers[0].StartedAt = time.Unix(2, 0)
	events.Observe(pod, task, corev1.PodStatus{})
	got := recorder.drained()
	if len(got) != 1 || !strings.HasPrefix(got[0], "Normal Started Started container app") || Ref(pod, "app").FieldPath != "spec.containers{app}" {
		t.Errorf("events %q", got)
	}
}
