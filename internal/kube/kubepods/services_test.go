package kubepods

import (
	"context"
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podtask/podtask/internal/testing/kubetest"
)

// TestPodsHaveVariablesOfServices: they come before all others, so that others win.
func TestPodsHaveVariablesOfServices(t *testing.T) {
	t.Parallel()
	linked, alone := kubetest.Pod("web", "u1"), kubetest.Pod("alone", "u2")
	linked.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{Prefix: "own"}}
	alone.Spec.EnableServiceLinks = new(false)
	w := newWorld(t, linked, alone)
	w.pods.manifests.Services = func(_ context.Context, namespace string) ([]*corev1.Service, error) {
		return []*corev1.Service{service(namespace, "db", "10.0.0.5", corev1.ServicePort{Port: 80})}, nil
	}
	for uid, pod := range map[string]*corev1.Pod{"u1": linked, "u2": alone} {
		_ = w.pods.CreatePod(t.Context(), pod)
		w.awaitTask(uid)
	}
	s, _, _ := w.agent.Get("task-of-u1")
	from := s.Object.Spec.Containers[0].EnvFrom
	if len(from) != 2 || from[0].ConfigMapRef == nil || from[1].Prefix != "own" {
		t.Fatalf("the container has %+v", from)
	}
	var list struct{ Items []corev1.ConfigMap }
	if err := json.Unmarshal([]byte(s.Definition), &list); err != nil {
		t.Fatal(err)
	}
	if c := list.Items[1]; c.Name != from[0].ConfigMapRef.Name || c.Data["DB_SERVICE_HOST"] != "10.0.0.5" {
		t.Errorf("the second object is %+v", c)
	}
	if s, _, _ = w.agent.Get("task-of-u2"); len(s.Object.Spec.Containers[0].EnvFrom) != 0 {
		t.Errorf("a Pod that wants none has %+v", s.Object.Spec.Containers[0].EnvFrom)
	}
}
