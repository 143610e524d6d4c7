package kubenode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podtask/podtask/internal/kube/ephemeral"
	"github.com/podtask/podtask/pkg/api"
)

// EphemeralContainers runs the ephemeral containers of Pods; *ephemeral.Containers is one.
type EphemeralContainers interface {
	Start(ctx context.Context, r ephemeral.Request) (ephemeral.State, error)
	Await(ctx context.Context, task, name string) (ephemeral.State, error)
	Stop(ctx context.Context, task, name string, grace time.Duration) error
}

// runEphemerals runs the ephemeral containers of the Pod, each from when it is added until it has ended. None
// is restarted.
func (w *podWorker) runEphemerals(ctx context.Context) {
	if w.pods.Ephemerals == nil {
		return
	}
	for begun := 0; ctx.Err() == nil; {
		changed := w.change()
		all := w.latest().Spec.EphemeralContainers // they are only ever added
		for ; begun < len(all); begun++ {
			run := ephemeralRun{w, begun, all[begun]}
			w.pods.wg.Go(func() { run.run(ctx) })
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// ephemeralRun is the only run of an ephemeral container.
type ephemeralRun struct {
	*podWorker
	index     int
	container corev1.EphemeralContainer
}

func (r ephemeralRun) run(ctx context.Context) {
	before, _ := writtenStatus(r.latest(), r.container.Name)
	if before.State.Terminated != nil {
		return
	}
	task, s, ok := r.start(ctx, before.State.Running != nil)
	if !ok {
		return
	}
	r.tell(s)
	for s.Running && ctx.Err() == nil {
		now, err := r.pods.Ephemerals.Await(ctx, task, r.container.Name)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			sleep(ctx, r.pods.Pace.Steady)
		default:
			s = now
		}
	}
	if r.pods.running.Err() != nil {
		return // the next process finds it
	}
	if s.Running {
		_, grace := r.terminationRequest()
		if err := r.pods.Ephemerals.Stop(r.pods.running, task, r.container.Name, grace); err != nil {
			return // it ends with the pod of the task
		}
		s, _ = r.pods.Ephemerals.Await(r.pods.running, task, r.container.Name)
	}
	r.tell(s)
}

// start starts the container as soon as the Pod runs; false if it is not to run any more. What more attempts
// do not change is tried once. Ran: an earlier process has started it, and it is only looked up.
func (r ephemeralRun) start(ctx context.Context, ran bool) (task string, s ephemeral.State, ok bool) {
	if refusal := r.refusal(); refusal != "" {
		r.explain(waitConfigError, refusal)
		return "", s, false
	}
	for pause, said := r.pods.Pace.First, ""; ; pause = min(2*pause, r.pods.Pace.Most) {
		task, ok := r.awaitPod(ctx, !ran)
		if !ok {
			return "", s, false
		}
		if ran {
			s, err := r.pods.Ephemerals.Await(ctx, task, r.container.Name)
			if err == nil || ctx.Err() != nil {
				return task, s, ctx.Err() == nil
			}
			if !sleep(ctx, r.pods.Pace.Steady) {
				return "", s, false
			}
			continue
		}
		s, err := r.tryStart(ctx, task)
		switch {
		case err == nil:
			r.announce(normal(eventCreated, "Created container: %s", r.container.Name))
			r.announce(normal(eventStarted, "Started container %s", r.container.Name))
			return task, s, true
		case ctx.Err() != nil:
			return "", s, false
		case errors.Is(err, ephemeral.ErrCommand):
			r.announce(warning(eventFailed, "Error: %s", err))
			r.report.setEphemeral(r.status(s, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: startErrorCode, Reason: startError, Message: err.Error(), ContainerID: containerID(s), FinishedAt: metav1.Now(),
			}}))
			return "", s, false
		case errors.Is(err, ephemeral.ErrInvalid):
			r.explain(waitConfigError, err.Error())
			return "", s, false
		}
		reason := waitCreateError
		if errors.Is(err, ephemeral.ErrImage) {
			reason = waitErrImagePull
		}
		if text := err.Error(); text != said {
			said = text
			r.explain(reason, text)
		}
		if !sleep(ctx, pause) {
			return "", s, false
		}
	}
}

// refusal returns the reason why the container is not run; empty if it is.
func (r ephemeralRun) refusal() string {
	prefix := fmt.Sprintf("spec.ephemeralContainers[%d].", r.index)
	refusal, _ := unknownMembers(slices.DeleteFunc(slices.Clone(r.pods.Members.of(r.report.uid)), func(p string) bool { return !strings.HasPrefix(p, prefix) }))
	return refusal
}

// awaitPod waits until there is a pod for the container to join, and until the container that it targets
// runs. False: that will not be. Tell: the status says that the container waits.
func (r ephemeralRun) awaitPod(ctx context.Context, tell bool) (task string, ok bool) {
	waits := func() {
		if tell {
			tell = false
			r.report.setEphemeral(r.status(ephemeral.State{}, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: waitCreating}}))
		}
	}
	for ctx.Err() == nil {
		changed := r.change()
		task := r.taskID()
		if task == "" {
			waits()
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		ready, over := false, false
		err := r.pods.Agent.Watch(ctx, task, func(t api.Task) bool {
			ready, over = joinable(t, r.container.TargetContainerName), t.Status == statusStopped
			if !ready && !over {
				waits()
			}
			return !ready && !over
		})
		switch {
		case ready:
			return task, true
		case over && r.report.ended():
			return "", false
		case over || isNotFound(err):
			sleep(ctx, r.pods.Pace.First) // another task may take its place
		case err != nil:
			sleep(ctx, r.pods.Pace.Steady)
		}
	}
	return "", false
}

// joinable reports whether a container can be started beside those of a task.
func joinable(t api.Task, target string) bool {
	return t.Goal == goalUp && slices.ContainsFunc(t.Containers, func(c api.Container) bool {
		if target != "" {
			return c.Name == target && c.Status == containerRunning
		}
		return c.RuntimeID != ""
	})
}

func (r ephemeralRun) tryStart(ctx context.Context, task string) (s ephemeral.State, err error) {
	definition, err := r.pods.manifests.OfEphemeral(ctx, r.latest(), r.volumes, r.container)
	if err != nil {
		return s, err
	}
	return r.pods.Ephemerals.Start(ctx, ephemeral.Request{
		Task: task, Name: r.container.Name, Index: r.index, Target: r.container.TargetContainerName, Definition: definition,
	})
}

// explain reports why the container does not run.
func (r ephemeralRun) explain(reason, message string) {
	r.announce(warning(eventFailed, "Error: %s", message))
	r.report.setEphemeral(r.status(ephemeral.State{}, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}))
}

func (r ephemeralRun) announce(e event) {
	ref := containerRef(r.latest(), r.container.Name)
	ref.FieldPath = fmt.Sprintf("spec.ephemeralContainers{%s}", r.container.Name)
	r.pods.Events.Event(ref, e.kind, e.reason, e.message)
}

// tell reports the state of a container that was started.
func (r ephemeralRun) tell(s ephemeral.State) {
	var state corev1.ContainerState
	switch {
	case s.Running:
		state.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(s.StartedAt)}
	case s.FinishedAt.IsZero(): // it was removed, or its end was not noticed
		state.Terminated = &corev1.ContainerStateTerminated{Reason: "ContainerStatusUnknown", ExitCode: 137, Message: "The container could not be located when the Pod was looked at", ContainerID: containerID(s)}
	default:
		t := &corev1.ContainerStateTerminated{
			ExitCode: int32(s.ExitCode), Reason: "Completed", Message: s.Message, ContainerID: containerID(s),
			StartedAt: metav1.NewTime(s.StartedAt), FinishedAt: metav1.NewTime(s.FinishedAt),
		}
		if s.ExitCode != 0 {
			t.Reason = "Error"
		}
		if s.OOMKilled {
			t.Reason = "OOMKilled"
		}
		state.Terminated = t
	}
	r.report.setEphemeral(r.status(s, state))
}

func (r ephemeralRun) status(s ephemeral.State, state corev1.ContainerState) corev1.ContainerStatus {
	out := corev1.ContainerStatus{Name: r.container.Name, Image: r.container.Image, State: state, ContainerID: containerID(s)}
	if s.ImageID != "" {
		out.ImageID = "sha256:" + s.ImageID
	}
	return out
}

func containerID(s ephemeral.State) string {
	if s.ID == "" {
		return ""
	}
	return "podman://" + s.ID
}
