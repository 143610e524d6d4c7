package kubenode

import (
	"context"
	"log/slog"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/podtask/podtask/internal/kube/pressure"
)

// The end of the Pods has the limit, and the API server knows of it.
func TestAShutdownIsReported(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "edge"}})
	n := &node{identity: Identity{Name: "edge", Pods: 110}, host: &hostStub{}, figures: func(string) pressure.Figures { return pressure.Figures{} }, log: slog.New(slog.DiscardHandler), pressure: newPressures(nil)}
	var limits []time.Duration
	shutDown := func(_ context.Context, limit time.Duration) { limits = append(limits, limit) }
	for _, begun := range []bool{false, true} {
		Shutdown{Begun: func(context.Context) bool { return begun }, Limit: time.Hour}.end(t.Context(), n, client, shutDown)
	}
	if len(limits) != 1 || limits[0] != time.Hour {
		t.Errorf("Pods were ended within %v", limits)
	}
	object, err := client.CoreV1().Nodes().Get(t.Context(), "edge", metav1.GetOptions{})
	if err != nil || len(object.Status.Conditions) != 1 || object.Status.Conditions[0].Status != corev1.ConditionFalse || object.Status.Conditions[0].Message != "node is shutting down" {
		t.Errorf("the node is %+v, %v", object.Status.Conditions, err)
	}
}
