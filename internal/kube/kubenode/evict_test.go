package kubenode

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestThresholds(t *testing.T) {
	t.Parallel()
	all, err := ParseThresholds(DefaultThresholds)
	if err != nil || len(all) != 4 {
		t.Fatalf("%v, %v", all, err)
	}
	levels := map[Signal]Level{
		MemoryAvailable: {100<<20 - 1, 8 << 30}, DiskAvailable: {100, 1000}, InodesFree: {49, 1000}, // PIDs are not known
	}
	short := shortages(levels, all)
	if len(short) != 2 || short[0] != (Shortage{MemoryAvailable, 100<<20 - 1, 100 << 20}) || short[1] != (Shortage{InodesFree, 49, 50}) {
		t.Errorf("short of %+v", short)
	}
	if got, want := (Shortage{MemoryAvailable, 53 << 20, 100 << 20}).message(), "The node was low on resource: memory. Threshold quantity: 100Mi, available: 53Mi. "; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	_, err = ParseThresholds("memory.available<lots, imagefs.available<5%, pid.available<101%, nodefs.available, pid.available<1,pid.available<2")
	for _, want := range []string{`"lots"`, `"imagefs.available<5%"`, `"101%"`, `"nodefs.available"`, "pid.available is there twice"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %s in %v", want, err)
		}
	}
}

func FuzzParseThresholds(f *testing.F) {
	f.Add(DefaultThresholds)
	f.Fuzz(func(t *testing.T, text string) {
		all, err := ParseThresholds(text)
		for _, s := range all {
			if least := s.least(1000); err == nil && least < 0 {
				t.Errorf("%q: at least %d", text, least)
			}
		}
	})
}

func TestTheOrderOfEvictions(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	pod := func(name, request string, priority int32, use int64) candidate {
		p := asking("", request, "")
		p.Name, p.Spec.Priority = name, &priority
		if use < 0 {
			return candidate{p, nil}
		}
		return candidate{p, MemoryUse{"app": use}}
	}
	within, important := pod("within", "64Mi", -5, 10*mib), pod("important", "", leastCritical, 900*mib)
	above, more, best := pod("above", "64Mi", 0, 70*mib), pod("more", "64Mi", 0, 80*mib), pod("best-effort", "", 0, 90*mib)
	low, blind := pod("low", "64Mi", -5, 65*mib), pod("blind", "64Mi", -5, -1)
	younger := pod("younger", "64Mi", -5, 10*mib)
	younger.pod.CreationTimestamp = metav1.NewTime(time.Unix(1000, 0))
	for _, c := range []struct {
		signal Signal
		want   string
		all    []candidate
	}{
		{MemoryAvailable, "", nil},
		{MemoryAvailable, "", []candidate{important}},
		{MemoryAvailable, "best-effort", []candidate{within, above, more, best, important}},
		{MemoryAvailable, "more", []candidate{within, above, more}},
		{MemoryAvailable, "low", []candidate{best, low, within}},
		{MemoryAvailable, "blind", []candidate{low, blind, best}},
		{MemoryAvailable, "younger", []candidate{within, younger}},
		{DiskAvailable, "within", []candidate{above, within, best}},
	} {
		got, ok := firstToGo(c.signal, c.all)
		if ok != (c.want != "") || ok && got.pod.Name != c.want {
			t.Errorf("short of %s, of %d the first is %v, want %q", c.signal, len(c.all), got.pod, c.want)
		}
	}
	if got, want := more.reasons(MemoryAvailable), "Container app was using 80Mi, request is 64Mi, has larger consumption of memory. "; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAnEvictedPodFailsAndStaysSo(t *testing.T) {
	t.Parallel()
	low, high := aPod("low", "u1"), aPod("high", "u2")
	low.Spec.Priority, high.Spec.Priority = ptr[int32](-1), ptr[int32](1)
	w := newWorld(t, low, high)
	for _, p := range []*corev1.Pod{high, low} {
		_ = w.pods.CreatePod(t.Context(), p)
		w.awaitTask(string(p.UID))
		w.set(string(p.UID), func(s *taskStub) { s.pod.Status.Phase = corev1.PodRunning })
		w.await("Running", func() bool { return w.has(p.Name).Status.Phase == corev1.PodRunning })
	}
	w.agent.slow = true
	e := &evictor{pods: w.pods, short: func() []Shortage { return []Shortage{{MemoryAvailable, 1, 2}} },
		use: func(context.Context) (map[types.UID]MemoryUse, error) { return nil, nil }}
	e.step(t.Context())
	e.step(t.Context()) // the other one stays until this one has gone
	w.await("the eviction", func() bool { return w.has("low").Status.Phase == corev1.PodFailed })
	w.set("u1", func(s *taskStub) { s.end(corev1.PodFailed) })
	w.await("the end of its task", func() bool { _, _, err := w.agent.get("task-of-u1"); return err != nil })
	got := w.has("low").Status
	if got.Reason != "Evicted" || !strings.HasPrefix(got.Message, "The node was low on resource: memory.") ||
		len(got.Conditions) != 1 || got.Conditions[0].Type != corev1.DisruptionTarget {
		t.Errorf("the status is %+v", got)
	}
	if w.has("high").Status.Phase != corev1.PodRunning {
		t.Error("both Pods have gone at once")
	}
	w.await("the task to be forgotten", func() bool { return w.pods.find("", "", "u1").taskID() == "" })
	e.step(t.Context())
	w.await("the next eviction", func() bool { return w.has("high").Status.Phase == corev1.PodFailed })
}
