package kubepods

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podtask/podtask/internal/kube/pressure"
	"github.com/podtask/podtask/internal/testing/kubetest"
)

func TestTheOrderOfEvictions(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	pod := func(name, request string, priority int32, use int64) candidate {
		p := kubetest.Pod(name, "u1")
		p.Spec.Priority = &priority
		if request != "" {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(request)}
		}
		if use < 0 {
			return candidate{p, nil}
		}
		return candidate{p, MemoryUse{"app": use}}
	}
	within, important := pod("within", "64Mi", -5, 10*mib), pod("important", "", 2_000_000_000, 900*mib)
	above, more, best := pod("above", "64Mi", 0, 70*mib), pod("more", "64Mi", 0, 80*mib), pod("best-effort", "", 0, 90*mib)
	low, blind := pod("low", "64Mi", -5, 65*mib), pod("blind", "64Mi", -5, -1)
	younger := pod("younger", "64Mi", -5, 10*mib)
	younger.pod.CreationTimestamp = metav1.NewTime(time.Unix(1000, 0))
	for _, c := range []struct {
		signal pressure.Signal
		want   string
		all    []candidate
	}{
		{pressure.MemoryAvailable, "", nil},
		{pressure.MemoryAvailable, "", []candidate{important}},
		{pressure.MemoryAvailable, "best-effort", []candidate{within, above, more, best, important}},
		{pressure.MemoryAvailable, "more", []candidate{within, above, more}},
		{pressure.MemoryAvailable, "low", []candidate{best, low, within}},
		{pressure.MemoryAvailable, "blind", []candidate{low, blind, best}},
		{pressure.MemoryAvailable, "younger", []candidate{within, younger}},
		{pressure.DiskAvailable, "within", []candidate{above, within, best}},
	} {
		got, ok := firstToGo(c.signal, c.all)
		if ok != (c.want != "") || ok && got.pod.Name != c.want {
			t.Errorf("short of %s, of %d the first is %v, want %q", c.signal, len(c.all), got.pod, c.want)
		}
	}
	if got, want := more.reasons(pressure.MemoryAvailable), "Container app was using 80Mi, request is 64Mi, has larger consumption of memory. "; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAnEvictedPodFailsAndStaysSo(t *testing.T) {
	t.Parallel()
	low, high := kubetest.Pod("low", "u1"), kubetest.Pod("high", "u2")
	low.Spec.Priority, high.Spec.Priority = new(int32(-1)), new(int32(1))
	w := newWorld(t, low, high)
	for _, p := range []*corev1.Pod{high, low} {
		_ = w.pods.CreatePod(t.Context(), p)
		w.awaitTask(string(p.UID))
		w.set(string(p.UID), func(s *kubetest.Task) { s.Object.Status.Phase = corev1.PodRunning })
		w.await("Running", func() bool { return w.has(p.Name).Status.Phase == corev1.PodRunning })
	}
	w.agent.Slow = true
	w.pods.config.Use = func(context.Context) (map[types.UID]MemoryUse, error) { return nil, nil }
	evict := func() {
		w.pods.Evict(t.Context(), pressure.Shortage{Signal: pressure.MemoryAvailable, Left: 1, Least: 2})
	}
	evict()
	evict() // the other one stays until this one has gone
	w.await("the eviction", func() bool { return w.has("low").Status.Phase == corev1.PodFailed })
	w.set("u1", func(s *kubetest.Task) { s.End(corev1.PodFailed) })
	w.await("the end of its task", func() bool { _, _, err := w.agent.Get("task-of-u1"); return err != nil })
	got := w.has("low").Status
	if got.Reason != "Evicted" || !strings.HasPrefix(got.Message, "The node was low on resource: memory.") ||
		len(got.Conditions) != 1 || got.Conditions[0].Type != corev1.DisruptionTarget {
		t.Errorf("the status is %+v", got)
	}
	if w.has("high").Status.Phase != corev1.PodRunning {
		t.Error("both Pods have gone at once")
	}
	w.await("the task to be forgotten", func() bool { return w.pods.find("", "", "u1").taskID() == "" })
	evict()
	w.await("the next eviction", func() bool { return w.has("high").Status.Phase == corev1.PodFailed })
}
