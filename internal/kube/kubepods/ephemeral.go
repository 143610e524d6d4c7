package kubepods

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
	"github.com/podtask/podtask/internal/kube/podevents"
	"github.com/podtask/podtask/internal/kube/podstatus"
	"github.com/podtask/podtask/internal/sleep"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
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
	if w.pods.config.Ephemerals == nil {
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

// ephemeralRun runs an ephemeral container once.
type ephemeralRun struct {
	*podWorker
	index     int
	container corev1.EphemeralContainer
}

func (r ephemeralRun) run(ctx context.Context) {
	before, _ := podstatus.Written(r.latest(), r.container.Name)
	if before.State.Terminated != nil {
		return
	}
	task, s, ok := r.start(ctx, before.State.Running != nil)
	if !ok {
		return
	}
	r.reportState(s)
	for s.Running && ctx.Err() == nil {
		now, err := r.pods.config.Ephemerals.Await(ctx, task, r.container.Name)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			sleep.For(ctx, r.pods.config.Pace.Steady)
		default:
			s = now
		}
	}
	if r.pods.running.Err() != nil {
		return // the next process finds it
	}
	if s.Running {
		_, grace := r.terminationRequest()
		if err := r.pods.config.Ephemerals.Stop(r.pods.running, task, r.container.Name, grace); err != nil {
			return // it ends with the pod of the task
		}
		s, _ = r.pods.config.Ephemerals.Await(r.pods.running, task, r.container.Name)
	}
	r.reportState(s)
}

// start starts the container as soon as the Pod runs; false if it is not to run any more. Errors that a retry does not
// change end the attempts. Ran: an earlier process has started it, and start only finds it.
func (r ephemeralRun) start(ctx context.Context, ran bool) (task string, s ephemeral.State, ok bool) {
	if refusal := r.refusal(); refusal != "" {
		r.explain(podstatus.ConfigError, refusal)
		return "", s, false
	}
	for pause, reported := r.pods.config.Pace.First, ""; ; pause = min(2*pause, r.pods.config.Pace.Most) {
		task, ok := r.awaitPod(ctx, !ran)
		if !ok {
			return "", s, false
		}
		if ran {
			s, err := r.pods.config.Ephemerals.Await(ctx, task, r.container.Name)
			if err == nil || ctx.Err() != nil {
				return task, s, ctx.Err() == nil
			}
			if !sleep.For(ctx, r.pods.config.Pace.Steady) {
				return "", s, false
			}
			continue
		}
		s, err := r.tryStart(ctx, task)
		switch {
		case err == nil:
			r.announce(corev1.EventTypeNormal, podevents.Created, "Created container: "+r.container.Name)
			r.announce(corev1.EventTypeNormal, podevents.Started, "Started container "+r.container.Name)
			return task, s, true
		case ctx.Err() != nil:
			return "", s, false
		case errors.Is(err, ephemeral.ErrCommand):
			r.announce(corev1.EventTypeWarning, podevents.Failed, "Error: "+err.Error())
			r.report.SetEphemeral(r.status(s, podstatus.StartError(err.Error(), containerID(s), metav1.Now())))
			return "", s, false
		case errors.Is(err, ephemeral.ErrInvalid):
			r.explain(podstatus.ConfigError, err.Error())
			return "", s, false
		}
		reason := podstatus.CreateError
		if errors.Is(err, ephemeral.ErrImage) {
			reason = podstatus.ErrImagePull
		}
		if text := err.Error(); text != reported {
			reported = text
			r.explain(reason, text)
		}
		if !sleep.For(ctx, pause) {
			return "", s, false
		}
	}
}

// refusal returns the reason why the container is not run; empty if it is.
func (r ephemeralRun) refusal() string {
	prefix := fmt.Sprintf("spec.ephemeralContainers[%d].", r.index)
	refusal, _ := unknownMembers(slices.DeleteFunc(slices.Clone(r.pods.members.of(r.uid)), func(p string) bool { return !strings.HasPrefix(p, prefix) }))
	return refusal
}

// awaitPod waits until there is a pod for the container to join, and until the container that it targets
// runs. It returns false if neither will happen any more. Report: set the status of a container that waits.
func (r ephemeralRun) awaitPod(ctx context.Context, report bool) (task string, ok bool) {
	waits := func() {
		if report {
			report = false
			r.report.SetEphemeral(r.status(ephemeral.State{}, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: podstatus.Creating}}))
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
		err := r.pods.config.Agent.Watch(ctx, task, func(t api.Task) bool {
			ready, over = joinable(t, r.container.TargetContainerName), t.Status == lifecycle.StatusStopped.String()
			if !ready && !over {
				waits()
			}
			return !ready && !over
		})
		switch {
		case ready:
			return task, true
		case over && r.report.Ended():
			return "", false
		case over || isNotFound(err):
			sleep.For(ctx, r.pods.config.Pace.First) // another task may take its place
		case err != nil:
			sleep.For(ctx, r.pods.config.Pace.Steady)
		}
	}
	return "", false
}

// joinable reports whether a container can be started beside those of a task.
func joinable(t api.Task, target string) bool {
	return t.Goal == lifecycle.Up.String() && slices.ContainsFunc(t.Containers, func(c api.Container) bool {
		if target != "" {
			return c.Name == target && c.Status == lifecycle.StatusRunning.String()
		}
		return c.RuntimeID != ""
	})
}

func (r ephemeralRun) tryStart(ctx context.Context, task string) (s ephemeral.State, err error) {
	definition, err := r.pods.manifests.OfEphemeral(ctx, r.latest(), r.volumes, r.container)
	if err != nil {
		return s, err
	}
	return r.pods.config.Ephemerals.Start(ctx, ephemeral.Request{
		Task: task, Name: r.container.Name, Index: r.index, Target: r.container.TargetContainerName, Definition: definition,
	})
}

// explain reports why the container does not run.
func (r ephemeralRun) explain(reason, message string) {
	r.announce(corev1.EventTypeWarning, podevents.Failed, "Error: "+message)
	r.report.SetEphemeral(r.status(ephemeral.State{}, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}))
}

func (r ephemeralRun) announce(kind, reason, message string) {
	ref := podevents.Ref(r.latest(), r.container.Name)
	ref.FieldPath = fmt.Sprintf("spec.ephemeralContainers{%s}", r.container.Name)
	r.pods.config.Events.Event(ref, kind, reason, message)
}

// reportState reports the state of a container that was started.
func (r ephemeralRun) reportState(s ephemeral.State) {
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
	r.report.SetEphemeral(r.status(s, state))
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
