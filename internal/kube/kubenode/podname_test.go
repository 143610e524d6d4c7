package kubenode

import (
	"strings"
	"testing"

	"k8s.io/client-go/tools/record"
)

// A StatefulSet gives its Pods names that nothing here resolves.
func TestANameThatLeadsNowhereIsTold(t *testing.T) {
	t.Parallel()
	pod, other := aPod("db-0", "u1"), aPod("web", "u2")
	pod.Spec.Hostname, pod.Spec.Subdomain = "db-0", "db"
	w := newWorld(t, pod, other)
	events := record.NewFakeRecorder(9)
	w.pods.Events = events
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
