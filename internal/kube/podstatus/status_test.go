package podstatus

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podtask/podtask/internal/testing/kubetest"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// What was stopped on the host has failed, whatever the exit code; an end of its own has
// not, and neither has one that Kubernetes asked for.
func TestStoppedStatus(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code, reason, goal string
		want, message      string
	}{
		{lifecycle.StopUserInitiated, "stopped by the shutdown of the node", "DOWN", "Terminated", messageTerminated},
		{lifecycle.StopUserInitiated, "stopped by the end of the agent", "DOWN", "Terminated", "Pod was stopped by the end of the agent on its node."},
		{lifecycle.StopUserInitiated, "stopped by podtask rm", "GONE", "", ""},
		{lifecycle.StopUserInitiated, "stopped by Kubernetes", "DOWN", "", ""},
		{"EssentialContainerExited", "app exited with code 0", "DOWN", "", ""},
	} {
		s := corev1.PodStatus{Phase: corev1.PodSucceeded}
		Stopped(&s, api.Task{StopCode: c.code, StoppedReason: c.reason, Goal: c.goal})
		if s.Reason != c.want || s.Message != c.message || (s.Phase == corev1.PodFailed) != (c.want != "") {
			t.Errorf("%s: %+v", c.reason, s)
		}
	}
}

func TestOnlyALostContainerIsRunAgain(t *testing.T) {
	t.Parallel()
	lost := api.Error{Name: lifecycle.ErrContainerVanished}
	for what, c := range map[string]struct {
		code      string
		container api.Container
		want      bool
	}{
		"lost":                  {lifecycle.StopEssentialContainerExited, api.Container{Essential: true, Errors: []api.Error{lost}}, true},
		"stopped by a user":     {lifecycle.StopUserInitiated, api.Container{Essential: true, Errors: []api.Error{lost}}, false},
		"a sidecar is lost":     {lifecycle.StopEssentialContainerExited, api.Container{Errors: []api.Error{lost}}, false},
		"it says so by itself":  {lifecycle.StopEssentialContainerExited, api.Container{Essential: true, Reason: lifecycle.ErrContainerVanished}, false},
		"another kind of error": {lifecycle.StopEssentialContainerExited, api.Container{Essential: true, Errors: []api.Error{{Name: "OutOfMemoryError"}}}, false},
	} {
		task := api.Task{StopCode: c.code, StoppedReason: "app: " + lifecycle.ErrContainerVanished, Containers: []api.Container{c.container}}
		if got := vanished(task); got != c.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}

// A Pod that waits for an object says which containers are not ready, as with a kubelet.
func TestConditionsOfAPodThatWaits(t *testing.T) {
	t.Parallel()
	pod := kubetest.Pod("web", "u1")
	if got := Waiting(pod, ConfigError, "none").Conditions; got[0].Status != corev1.ConditionTrue || got[1].Message != "containers with unready status: [app]" || got[2].Message != got[1].Message {
		t.Errorf("%+v", got)
	}
	always := corev1.ContainerRestartPolicyAlways
	pod.Spec.InitContainers = []corev1.Container{{Name: "first"}, {Name: "side", RestartPolicy: &always}}
	got := Waiting(pod, ConfigError, "none").Conditions
	if got[0].Status != corev1.ConditionFalse || got[0].Message != "containers with incomplete status: [first side]" || got[1].Message != "containers with unready status: [side app]" {
		t.Errorf("%+v", got)
	}
}
