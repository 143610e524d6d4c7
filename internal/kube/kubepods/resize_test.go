package kubepods

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	"github.com/podtask/podtask/internal/testing/kubetest"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/test/testbed"
)

// withMemory gives the containers of a Pod a request and a limit of memory.
func withMemory(p *corev1.Pod, size string) {
	list := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(size)}
	p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Limits: list, Requests: list.DeepCopy()}
}

// resizable is a world with a Pod of 64 MiB that runs, and the events of the node.
func resizable(t *testing.T) (*world, *record.FakeRecorder) {
	t.Helper()
	pod := kubetest.Pod("web", "u1")
	withMemory(pod, "64Mi")
	w := newWorld(t, pod)
	events := record.NewFakeRecorder(100)
	w.pods.config.Events = events
	_ = w.pods.CreatePod(t.Context(), pod)
	w.awaitTask("u1")
	w.set("u1", startsToRun)
	w.await("that it runs", func() bool { return w.has("web").Status.Phase == corev1.PodRunning })
	return w, events
}

func startsToRun(s *kubetest.Task) {
	s.Status, s.Object.Status.Phase = "RUNNING", corev1.PodRunning
	s.Object.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
}

// memory returns the memory limit of the Pod's first container in its status.
func (w *world) memory(name string) string {
	c := w.has(name).Status.ContainerStatuses[0]
	if c.Resources == nil {
		return ""
	}
	limit, allocated := c.Resources.Limits[corev1.ResourceMemory], c.AllocatedResources[corev1.ResourceMemory]
	return limit.String() + " of " + allocated.String()
}

// resizing is the condition about a resize; empty for none.
func (w *world) resizing(name string) string {
	for _, c := range w.has(name).Status.Conditions {
		if c.Type == corev1.PodResizePending || c.Type == corev1.PodResizeInProgress {
			return string(c.Type) + " " + c.Reason + ": " + c.Message
		}
	}
	return ""
}

func (w *world) awaitEvent(events *record.FakeRecorder, want string) {
	w.Helper()
	for {
		select {
		case got := <-events.Events:
			if strings.Contains(got, want) {
				return
			}
		case <-time.After(testbed.Patience):
			w.Fatalf("no event %q", want)
		}
	}
}

func (w *world) requests(of string) (out []string) {
	for _, a := range w.agent.Asked() {
		if strings.HasPrefix(a, of) {
			out = append(out, a)
		}
	}
	return out
}

func TestAResizeReachesTheTask(t *testing.T) {
	t.Parallel()
	w, events := resizable(t)
	if got := w.memory("web"); got != "64Mi of 64Mi" {
		t.Errorf("before, the status has %s", got)
	}
	w.update("web", func(p *corev1.Pod) { withMemory(p, "128Mi") })
	w.await("the resize", func() bool { return w.memory("web") == "128Mi of 128Mi" && w.resizing("web") == "" })
	w.awaitEvent(events, `Normal ResizeStarted Pod resize started: {"containers":[{"name":"app","resources":{"limits":{"memory":"128Mi"}`)
	w.awaitEvent(events, "Normal ResizeCompleted Pod resize completed: ")
	if got := w.requests("resize"); len(got) != 1 || !strings.Contains(got[0], `{"containers":{"app":{"limits":{"memory":"128Mi"},"requests":{"memory":"128Mi"}}}}`) {
		t.Errorf("the agent was asked to %q", got)
	}
}

func TestAResizeThatTheNodeHasNoRoomFor(t *testing.T) {
	t.Parallel()
	w, events := resizable(t)
	w.room = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")}
	w.update("web", func(p *corev1.Pod) { withMemory(p, "512Mi") })
	w.await("that it cannot be", func() bool {
		return strings.HasPrefix(w.resizing("web"), "PodResizePending Infeasible: Node didn't have")
	})
	w.awaitEvent(events, "Warning ResizeInfeasible")

	other := kubetest.Pod("other", "u2")
	withMemory(other, "150Mi")
	_ = w.client.Tracker().Add(other)
	_ = w.pods.CreatePod(t.Context(), other)
	w.awaitTask("u2")
	w.set("u2", startsToRun)
	w.await("the other one", func() bool { return w.has("other").Status.Phase == corev1.PodRunning })
	w.update("web", func(p *corev1.Pod) { withMemory(p, "128Mi") })
	w.await("that it has to wait", func() bool { return strings.HasPrefix(w.resizing("web"), "PodResizePending Deferred: ") })
	w.awaitEvent(events, "Warning ResizeDeferred")
	if got := w.memory("web"); got != "64Mi of 64Mi" {
		t.Errorf("the status has %s", got)
	}
	w.set("u2", func(s *kubetest.Task) { s.End(corev1.PodSucceeded) })
	w.await("the resize", func() bool { return w.memory("web") == "128Mi of 128Mi" && w.resizing("web") == "" })
}

func TestAResizeThatTheAgentRefuses(t *testing.T) {
	t.Parallel()
	w, events := resizable(t)
	w.agent.Change(func() {
		w.agent.Refusal = api.Failed(api.Conflict, "container app uses 100 bytes of memory now, and the new limit is 50")
	})
	w.update("web", func(p *corev1.Pod) { withMemory(p, "32Mi") })
	w.await("the reason", func() bool {
		return w.resizing("web") == "PodResizeInProgress Error: container app uses 100 bytes of memory now, and the new limit is 50"
	})
	w.awaitEvent(events, "Warning ResizeError")
	w.agent.Change(func() { w.agent.Refusal = api.Failed(api.Unsupported, "this host cannot apply memory limits") })
	w.await("another reason", func() bool {
		return w.resizing("web") == "PodResizePending Infeasible: this host cannot apply memory limits"
	})
	w.agent.Change(func() { w.agent.Refusal = nil })
	w.update("web", func(p *corev1.Pod) { withMemory(p, "64Mi") })
	w.await("the end of the wish", func() bool { return w.resizing("web") == "" })
	if got := w.memory("web"); got != "64Mi of 64Mi" {
		t.Errorf("the status has %s", got)
	}
}

// The agent restarts a container whose resizePolicy says so; users are told why.
func TestAResizeThatNeedsARestart(t *testing.T) {
	t.Parallel()
	w, events := resizable(t)
	w.update("web", func(p *corev1.Pod) {
		withMemory(p, "128Mi")
		p.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{
			{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.NotRequired}, {ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer},
		}
	})
	w.await("the resize", func() bool { return w.memory("web") == "128Mi of 128Mi" && w.resizing("web") == "" })
	w.awaitEvent(events, "Normal Killing Container app resize requires restart")
	w.awaitEvent(events, "Normal ResizeCompleted")
}

// A process that adopts a task finds a resize that came meanwhile.
func TestAResizeWhileNothingWatched(t *testing.T) {
	t.Parallel()
	pod := kubetest.Pod("web", "u1")
	withMemory(pod, "64Mi")
	w := newWorld(t, pod)
	_ = w.pods.CreatePod(t.Context(), pod)
	w.awaitTask("u1") // its document has 64 MiB, and it does not run yet
	w.update("web", func(p *corev1.Pod) { withMemory(p, "128Mi") })
	if got := w.requests("resize"); len(got) > 0 {
		t.Errorf("before it runs, the agent was asked to %q", got)
	}
	w.set("u1", startsToRun)
	w.await("the resize", func() bool {
		return w.has("web").Status.Phase == corev1.PodRunning && w.memory("web") == "128Mi of 128Mi"
	})
}

// What is refused is not asked for again because the refusal was written into the status of the Pod, or
// because the Pod changes in another way.
func TestARefusedResizeIsNotRepeatedByItself(t *testing.T) {
	t.Parallel()
	w, events := resizable(t)
	w.agent.Change(func() { w.agent.Refusal = api.Failed(api.Unsupported, "this host cannot apply memory limits") })
	w.update("web", func(p *corev1.Pod) { withMemory(p, "32Mi") })
	w.await("the reason", func() bool { return strings.HasPrefix(w.resizing("web"), "PodResizePending Infeasible") })
	w.awaitEvent(events, "Warning ResizeInfeasible")
	for _, value := range []string{"1", "2", "3"} {
		w.update("web", func(p *corev1.Pod) { metav1.SetMetaDataAnnotation(&p.ObjectMeta, "other", value) })
	}
	w.agent.Change(func() { w.agent.Refusal = nil })
	w.update("web", func(p *corev1.Pod) { withMemory(p, "48Mi") })
	w.await("the next resize", func() bool { return w.memory("web") == "48Mi of 48Mi" && w.resizing("web") == "" })
	if got := w.requests("resize"); len(got) != 2 {
		t.Errorf("the agent was asked to %q", got)
	}
}

// An answer of the agent from before a resize does not undo what is known of it.
func TestAnOldAnswerDoesNotUndoAResize(t *testing.T) {
	t.Parallel()
	old, resized := kubetest.Pod("web", "u1"), kubetest.Pod("web", "u1")
	withMemory(old, "64Mi")
	withMemory(resized, "128Mi")
	k := &podWorker{pod: resized, given: old, changed: make(chan struct{})}
	before := k.resizeCount()
	k.setResources(resized)
	k.setAllocated(old, before)
	if change := resourceChanges(k.allocated(), resized); len(change.Containers) > 0 {
		t.Errorf("%s is to be changed again", change.Containers)
	}
	k.setAllocated(old, k.resizeCount()) // as after a change by somebody else
	if change := resourceChanges(k.allocated(), resized); len(change.Containers) != 1 {
		t.Error("a newer answer does not count")
	}
}
