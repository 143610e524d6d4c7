package kubepods

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	"github.com/podtask/podtask/internal/testing/kubetest"
	"github.com/podtask/podtask/pkg/api"
)

// The agent has the names before it makes the task of a Pod, and again when the Pod is ready.
func TestTheAgentKnowsTheNames(t *testing.T) {
	t.Parallel()
	pod := kubetest.Pod("web", "u1")
	pod.Labels = map[string]string{"app": "web"}
	w := newWorld(t, pod)
	s := service(pod.Namespace, "web", "10.0.0.5", corev1.ServicePort{Port: 80})
	s.Spec.Selector = pod.Labels
	w.pods.config.Services = func(context.Context, string) ([]*corev1.Service, error) {
		return []*corev1.Service{s}, nil
	}
	go w.pods.names.run(t.Context())
	_ = w.pods.CreatePod(t.Context(), pod)
	w.awaitTask("u1")
	w.agent.Change(func() {
		if names := w.agent.Names.Names; len(names) != 1 || names[0].Namespace != pod.Namespace || names[0].Hosts[0] != "web" {
			t.Errorf("at the creation the agent has %+v", names)
		}
	})
	w.agent.Change(func() {
		task := w.agent.ByID["task-of-u1"]
		startsToRun(task)
		task.Object.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	})
	w.await("the Pod gets connections", func() (connected bool) {
		w.agent.Change(func() {
			for _, name := range w.agent.Names.Names {
				connected = connected || slices.Contains(name.Ports[0].Targets, api.NodeTarget{Task: "task-of-u1", Port: 80})
			}
		})
		return connected
	})
}

func service(namespace, name, address string, ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.ServiceSpec{ClusterIP: address, Ports: ports}}
}

// A StatefulSet gives its Pods names that nothing here resolves.
func TestANameThatLeadsNowhereIsTold(t *testing.T) {
	t.Parallel()
	pod, other := kubetest.Pod("db-0", "u1"), kubetest.Pod("web", "u2")
	pod.Spec.Hostname, pod.Spec.Subdomain = "db-0", "db"
	w := newWorld(t, pod, other)
	events := record.NewFakeRecorder(9)
	w.pods.config.Events = events
	_ = w.pods.CreatePod(t.Context(), other)
	w.awaitTask("u2")
	_ = w.pods.CreatePod(t.Context(), pod)
	w.awaitTask("u1")
	if got := <-events.Events; !strings.HasPrefix(got, "Warning PodNameNotServed Pods of other nodes do not find this one as db-0.db,") {
		t.Errorf("the event is %q", got)
	}
	if len(events.Events) != 0 {
		t.Errorf("another event: %s", <-events.Events)
	}
}
