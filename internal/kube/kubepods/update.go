package kubepods

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podtask/podtask/internal/kube/podstatus"
	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/pkg/api"
)

// updates finds changes of a Pod that cannot reach the containers of its task. Kubernetes lets
// users change little of a Pod: activeDeadlineSeconds, which enforceDeadline honors; ephemeral containers, which
// runEphemerals starts; resources, which runResizes changes; images, which users are told about here; and tolerations.
type updates struct {
	images map[string]string // of the task's containers, by their names
	// reported has the images and the ephemeral containers that users were told about.
	reported map[string]string
}

// ignoredUpdate is an event about a change without effect.
type ignoredUpdate struct{ reason, message string }

// Reasons of events about changes without effect.
const (
	reasonImageNotChanged = "ImageNotChanged"
	reasonNoEphemeral     = "EphemeralContainersNotSupported"
)

// created notes the Pod that a task was made of.
func (u *updates) created(pod *corev1.Pod) {
	u.images, u.reported = imagesOf(pod), make(map[string]string)
}

func imagesOf(pod *corev1.Pod) map[string]string {
	out := make(map[string]string)
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		out[c.Name] = c.Image
	}
	return out
}

// ignored returns the changes that users were not told about yet. Ephemeral containers are among them if
// there is nothing that runs them.
func (u *updates) ignored(pod *corev1.Pod, ephemerals bool) (out []ignoredUpdate) {
	now := imagesOf(pod)
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if u.images[name] != now[name] && u.reported[name] != now[name] {
			out = append(out, ignoredUpdate{reasonImageNotChanged, fmt.Sprintf("Container %s continues to run the image it was created with: "+
				"this node cannot change a running container to %s. Delete the Pod so that its controller creates another one", name, now[name])})
		}
	}
	maps.Copy(u.reported, now)
	if ephemerals {
		return out
	}
	for _, c := range pod.Spec.EphemeralContainers {
		if _, known := u.reported[c.Name]; !known {
			u.reported[c.Name] = c.Image
			out = append(out, ignoredUpdate{reasonNoEphemeral, fmt.Sprintf("Ephemeral container %s is not started: "+
				"this node has no ephemeral containers. Use kubectl exec, or kubectl debug --copy-to", c.Name)})
		}
	}
	return out
}

// Words of a Pod that was active for too long, as the kubelet has them.
const (
	reasonDeadline  = "DeadlineExceeded"
	messageDeadline = "Pod was active on the node longer than the specified deadline"
)

// enforceDeadline ends the Pod once it has been active for activeDeadlineSeconds, which users may
// set or shorten while it runs: the agent only knows what it was when the task was made.
func (w *podWorker) enforceDeadline(ctx context.Context) {
	for ctx.Err() == nil {
		changed := w.change()
		var exceeded <-chan time.Time // never, without a deadline
		if left, has := untilDeadline(w.latest()); has && w.failure() == nil {
			exceeded = time.After(left)
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-exceeded:
			w.exceedDeadline(ctx)
			return
		}
	}
}

// untilDeadline returns how long the Pod may still run; false if it may run for ever or has ended.
func untilDeadline(pod *corev1.Pod) (time.Duration, bool) {
	seconds, start := pod.Spec.ActiveDeadlineSeconds, pod.Status.StartTime
	if seconds == nil || start == nil || podstatus.Ended(pod.Status.Phase) {
		return 0, false
	}
	return max(time.Until(start.Add(time.Duration(*seconds)*time.Second)), 0), true
}

// exceedDeadline ends the containers within the grace period of the Pod. Then it has failed.
func (w *podWorker) exceedDeadline(ctx context.Context) {
	w.fail(failure{reason: reasonDeadline, message: messageDeadline})
	w.pods.config.Events.Event(w.latest(), corev1.EventTypeNormal, reasonDeadline, messageDeadline)
	for ctx.Err() == nil && w.taskID() != "" {
		if w.stop(ctx) {
			return
		}
		w.sleep(w.pods.config.Pace.Steady)
	}
}

// configErrors matches what a kubelet finds wrong only when it makes the container: the subPathExpr of a mount, which
// follows the labels and the annotations of its Pod, and runAsNonRoot with the user 0.
var configErrors = lazy.MustCompile(`/volumeMounts/[0-9]+/subPathExpr$|/securityContext/runAsNonRoot$`)

// isConfigError reports whether all that is wrong with a Pod is of that kind: the Pod waits, and does not fail.
func isConfigError(err error) bool {
	var f *api.Failure
	if !errors.As(err, &f) || f.Code != api.BadRequest || len(f.Problems) == 0 {
		return false
	}
	for _, p := range f.Problems {
		if !configErrors.MatchString(p.Pointer) {
			return false
		}
	}
	return true
}

// problemsOf returns what is wrong with a Pod in the places of the Pod: the agent has them in the
// document that it was given, which users do not see.
func problemsOf(err error) error {
	var f *api.Failure
	if !errors.As(err, &f) || len(f.Problems) == 0 {
		return err
	}
	var lines []string
	for _, p := range f.Problems {
		p.File, p.Line, p.Column = "", 0, 0
		p.Pointer = strings.TrimPrefix(p.Pointer, "/items/0")
		lines = append(lines, p.String())
	}
	return errors.New(strings.Join(lines, "\n"))
}
