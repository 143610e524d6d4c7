package kubeserve_test

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// bound are the Pods of the node of the tests.
func bound() []*corev1.Pod {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	return []*corev1.Pod{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, InitContainerStatuses: []corev1.ContainerStatus{{State: ended}},
			ContainerStatuses: []corev1.ContainerStatus{{State: running}, {State: running}}},
	}, {Status: corev1.PodStatus{Phase: corev1.PodPending}}, {Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
		{Type: corev1.PodResizePending, Reason: corev1.PodReasonDeferred}, {Type: corev1.PodResizeInProgress},
	}}}}
}

func TestWhatTheNodeHas(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	status, body := c.get(c.server(), "/pods")
	var list corev1.PodList
	if err := json.Unmarshal([]byte(body), &list); err != nil || status != 200 || list.Kind != "PodList" || len(list.Items) != 3 || list.Items[0].Name != "web" {
		t.Errorf("%d %v %s", status, err, body)
	}
	var config struct{ Kubeletconfig map[string]any }
	status, body = c.get(c.server(), "/configz")
	if err := json.Unmarshal([]byte(body), &config); err != nil || status != 200 || config.Kubeletconfig["kind"] != "KubeletConfiguration" || config.Kubeletconfig["maxPods"] != 7.0 {
		t.Errorf("%d %v %s", status, err, body)
	}
	status, body = c.get(c.server(), "/metrics")
	for _, want := range []string{
		`kubelet_node_name{node="edge"} 1`, "kubelet_running_pods 1", `kubelet_running_containers{container_state="running"} 2`,
		`kubelet_pod_pending_resizes{reason="deferred"} 1`, `kubelet_pod_pending_resizes{reason="infeasible"} 0`, "kubelet_pod_in_progress_resizes 1",
		`kubelet_running_containers{container_state="exited"} 1`, "go_goroutines ", "process_start_time_seconds ",
	} {
		if status != 200 || !strings.Contains(body, want) {
			t.Errorf("%d: no %s in %s", status, want, body)
		}
	}
	before := len(c.asked)
	for path, want := range map[string]string{"/pods": "system:node:other get pods, system:node:other get proxy", "/configz": "system:node:other get configz, system:node:other get proxy"} {
		if status, body := c.get(c.as("system:node:other"), path); status != 403 || strings.Contains(body, "web") {
			t.Errorf("%s for another node: %d %s", path, status, body)
		}
		if got := strings.Join(c.asked[before:], ", "); !strings.Contains(want, got) && got != want {
			t.Errorf("%s: asked about %q, want %q", path, got, want)
		}
		before = len(c.asked)
	}
}
