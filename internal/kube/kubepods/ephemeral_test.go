package kubepods

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/podtask/podtask/internal/kube/ephemeral"
	"github.com/podtask/podtask/internal/kube/podstatus"
	"github.com/podtask/podtask/internal/testing/kubetest"
	"github.com/podtask/podtask/pkg/api"
)

// ephemeralStub is a host whose ephemeral containers run until they are ended.
type ephemeralStub struct {
	mu      sync.Mutex
	started []ephemeral.Request
	states  map[string]ephemeral.State
	changed chan struct{}
	refusal error
}

func newEphemeralStub() *ephemeralStub {
	return &ephemeralStub{states: make(map[string]ephemeral.State), changed: make(chan struct{})}
}

func (e *ephemeralStub) set(name string, s ephemeral.State) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.states[name] = s
	close(e.changed)
	e.changed = make(chan struct{})
}

func (e *ephemeralStub) refuse(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.refusal = err
}

func (e *ephemeralStub) requests() []ephemeral.Request {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.started)
}

func (e *ephemeralStub) Start(_ context.Context, r ephemeral.Request) (ephemeral.State, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.started = append(e.started, r)
	if e.refusal != nil {
		return ephemeral.State{}, e.refusal
	}
	s := ephemeral.State{Exists: true, Running: true, ID: "c1", ImageID: "aa", StartedAt: time.Unix(1000, 0)}
	e.states[r.Name] = s
	return s, nil
}

func (e *ephemeralStub) Await(ctx context.Context, _, name string) (ephemeral.State, error) {
	for {
		e.mu.Lock()
		s, changed := e.states[name], e.changed
		e.mu.Unlock()
		if !s.Running {
			return s, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return s, context.Cause(ctx)
		}
	}
}

func (e *ephemeralStub) Stop(_ context.Context, _, name string, _ time.Duration) error {
	e.set(name, endedWith(137))
	return nil
}

func endedWith(code int) ephemeral.State {
	return ephemeral.State{Exists: true, ID: "c1", ImageID: "aa", StartedAt: time.Unix(1000, 0), FinishedAt: time.Unix(1001, 0), ExitCode: code}
}

// debugged is a Pod that runs on a node with ephemeral containers.
func debugged(t *testing.T) (*world, *ephemeralStub) {
	t.Helper()
	pod := kubetest.Pod("web", "u1")
	w := newWorld(t, pod)
	stub := newEphemeralStub()
	w.pods.config.Ephemerals = stub
	_ = w.pods.CreatePod(t.Context(), pod)
	w.awaitTask("u1")
	return w, stub
}

func runs(s *kubetest.Task) {
	s.Object.Status.Phase = corev1.PodRunning
	s.Containers = []api.Container{{Name: "app", RuntimeID: "a1", Status: "RUNNING"}}
}

func (w *world) addEphemeral(name, target string) {
	w.Helper()
	w.update("web", func(p *corev1.Pod) {
		p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, corev1.EphemeralContainer{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: name, Image: "tools:1"}, TargetContainerName: target,
		})
	})
}

// ephemeralState is the state of an ephemeral container at the API server.
func (w *world) ephemeralState(name string) corev1.ContainerState {
	for _, s := range w.has("web").Status.EphemeralContainerStatuses {
		if s.Name == name {
			return s.State
		}
	}
	return corev1.ContainerState{}
}

func TestAnEphemeralContainerRunsOnceBesideThePod(t *testing.T) {
	t.Parallel()
	w, stub := debugged(t)
	w.addEphemeral("look", "app")
	w.set("u1", func(s *kubetest.Task) {
		s.Object.Status.Phase = corev1.PodPending
		s.Containers = []api.Container{{Name: "app", RuntimeID: "a1"}}
	})
	w.await("that it waits for its target", func() bool {
		s := w.ephemeralState("look").Waiting
		return s != nil && s.Reason == podstatus.Creating
	})
	if got := stub.requests(); len(got) != 0 {
		t.Errorf("it is started before its target runs: %+v", got)
	}
	w.set("u1", runs)
	w.await("Running", func() bool { return w.ephemeralState("look").Running != nil })
	w.addEphemeral("more", "")
	w.await("the second one", func() bool { return w.ephemeralState("more").Running != nil })
	stub.set("look", endedWith(3))
	w.await("its end", func() bool {
		s := w.ephemeralState("look").Terminated
		return s != nil && s.ExitCode == 3 && s.Reason == "Error" && s.ContainerID == "podman://c1"
	})
	requests := stub.requests()
	if len(requests) != 2 || requests[0].Index != 0 || requests[0].Target != "app" || requests[0].Task != "task-of-u1" || requests[1].Index != 1 || requests[1].Target != "" {
		t.Errorf("started %+v", requests)
	}
	var list struct{ Items []corev1.Pod }
	if err := json.Unmarshal(requests[0].Definition, &list); err != nil {
		t.Fatal(err)
	}
	if s := list.Items[0].Spec; len(s.Containers) != 1 || s.Containers[0].Image != "tools:1" || s.RestartPolicy != corev1.RestartPolicyNever || len(s.EphemeralContainers) != 0 {
		t.Errorf("the definition is %+v", s)
	}
}

// Another process neither starts again what ran, nor forgets what has ended.
func TestEphemeralContainersOfAnEarlierProcess(t *testing.T) {
	t.Parallel()
	w, stub := debugged(t)
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	done := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 7}}
	stub.set("runs", ephemeral.State{Running: true, Exists: true})
	w.update("web", func(p *corev1.Pod) {
		for name, s := range map[string]corev1.ContainerState{"runs": running, "done": done, "lost": running} {
			p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: name}})
			p.Status.EphemeralContainerStatuses = append(p.Status.EphemeralContainerStatuses, corev1.ContainerStatus{Name: name, State: s})
		}
	})
	w.set("u1", runs)
	w.await("the end of what is gone", func() bool {
		s := w.ephemeralState("lost").Terminated
		return s != nil && s.Reason == "ContainerStatusUnknown"
	})
	stub.set("runs", endedWith(0))
	w.await("the end of what runs", func() bool {
		s := w.ephemeralState("runs").Terminated
		return s != nil && s.Reason == "Completed"
	})
	if s := w.ephemeralState("done").Terminated; s == nil || s.ExitCode != 7 {
		t.Errorf("what had ended is %+v", s)
	}
	if got := stub.requests(); len(got) != 0 {
		t.Errorf("started %+v", got)
	}
}

func TestAnEphemeralContainerThatCannotRunSaysWhy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err    error
		tried  int
		reason func(corev1.ContainerState) string
		want   string
	}{
		"invalid": {fmt.Errorf("%w: no such volume", ephemeral.ErrInvalid), 1, func(s corev1.ContainerState) string { return s.Waiting.Reason }, podstatus.ConfigError},
		"command": {fmt.Errorf("%w: no such file", ephemeral.ErrCommand), 1, func(s corev1.ContainerState) string { return s.Terminated.Reason }, "StartError"},
		"image":   {fmt.Errorf("%w: not found", ephemeral.ErrImage), 3, func(s corev1.ContainerState) string { return s.Waiting.Reason }, podstatus.ErrImagePull},
		"other":   {errors.New("Podman is away"), 3, func(s corev1.ContainerState) string { return s.Waiting.Reason }, podstatus.CreateError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, stub := debugged(t)
			events := record.NewFakeRecorder(9)
			w.pods.config.Events = events
			stub.refuse(c.err)
			w.set("u1", runs)
			w.addEphemeral("look", "")
			w.await("the reason", func() bool {
				s := w.ephemeralState("look")
				return (s.Terminated != nil || s.Waiting != nil && s.Waiting.Message != "") && c.reason(s) == c.want
			})
			w.await("the attempts", func() bool { return len(stub.requests()) >= c.tried })
			if got, want := <-events.Events, "Warning Failed Error: "+c.err.Error(); got != want {
				t.Errorf("the event is %q, want %q", got, want)
			}
		})
	}
}

// What a newer API server says about its protection must not be lost.
func TestAnEphemeralContainerWithUnknownProtectionIsNotRun(t *testing.T) {
	t.Parallel()
	w, stub := debugged(t)
	w.pods.members.note("u1", []string{"spec.ephemeralContainers[0].securityContext.shield"})
	w.set("u1", runs)
	w.addEphemeral("look", "")
	w.addEphemeral("more", "")
	w.await("the refusal", func() bool {
		s := w.ephemeralState("look").Waiting
		return s != nil && s.Reason == podstatus.ConfigError
	})
	w.await("the other one", func() bool { return w.ephemeralState("more").Running != nil })
	if got := stub.requests(); len(got) != 1 {
		t.Errorf("started %+v", got)
	}
}

func TestAnEphemeralContainerEndsWithItsPod(t *testing.T) {
	t.Parallel()
	w, stub := debugged(t)
	w.set("u1", runs)
	w.addEphemeral("look", "")
	w.await("Running", func() bool { return w.ephemeralState("look").Running != nil })
	_ = w.pods.DeletePod(t.Context(), w.has("web"))
	w.await("the stop", func() bool {
		stub.mu.Lock()
		defer stub.mu.Unlock()
		return !stub.states["look"].Running
	})
}
