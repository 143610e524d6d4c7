// Package podevents reports what happens to the containers of a Pod as events of the Pod, as the kubelet does.
package podevents

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/podtask/podtask/internal/kube/podstatus"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// Reasons of events, as the kubelet has them.
const (
	Created            = "Created"
	Started            = "Started"
	Killing            = "Killing"
	Failed             = "Failed"
	reasonPulling      = "Pulling"
	reasonPulled       = "Pulled"
	reasonBackOff      = "BackOff"
	reasonUnhealthy    = "Unhealthy"
	reasonProbeWarning = "ProbeWarning"
)

// Codes of the API of the agent.
const (
	operationInFlight = "operation"
	imageFromRegistry = "registry"
)

// redirected begins the output of a probe whose answer leads to another host, which is a success.
const redirected = "Probe terminated redirects"

// event is an event of a Pod, as kubectl describe shows it.
type event struct{ kind, reason, message string }

func normal(reason, format string, args ...any) event {
	return event{corev1.EventTypeNormal, reason, fmt.Sprintf(format, args...)}
}

func warning(reason, format string, args ...any) event {
	return event{corev1.EventTypeWarning, reason, fmt.Sprintf(format, args...)}
}

// Recorder sends events; a record.EventRecorder of client-go is one.
type Recorder interface {
	Event(object runtime.Object, kind, reason, message string)
}

// Observer reports what happens to the containers of one Pod. It compares each state of the task with the one before, so
// steps that no state showed have no event. It is safe for concurrent use.
type Observer struct {
	Recorder Recorder
	// Adopted is a task whose events an earlier process has reported so far.
	Adopted string

	mu       sync.Mutex
	task     string
	progress map[string]progress // of the containers of the task, by their names
}

// Observe reports what has changed since the state before.
func (e *Observer) Observe(pod *corev1.Pod, t api.Task, s corev1.PodStatus) {
	e.mu.Lock()
	defer e.mu.Unlock()
	quiet := false
	if e.task != t.ID {
		quiet = t.ID == e.Adopted
		e.task, e.progress = t.ID, make(map[string]progress)
	}
	for _, c := range t.Containers {
		now := progressOf(pod, t, c, s)
		before := e.progress[c.Name]
		e.progress[c.Name] = now
		if quiet {
			continue
		}
		for _, ev := range before.until(now) {
			e.Recorder.Event(Ref(pod, c.Name), ev.kind, ev.reason, ev.message)
		}
	}
}

// Ref refers to a container of a Pod, as the events of a kubelet do.
func Ref(pod *corev1.Pod, name string) *corev1.ObjectReference {
	field := "containers"
	if slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == name }) {
		field = "initContainers"
	}
	return &corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		FieldPath: fmt.Sprintf("spec.%s{%s}", field, name),
	}
}

// progress records which events of a container were sent.
type progress struct {
	container, image, pod string
	busy                  bool   // the image is being pulled
	pulledFrom            string // empty until the image is there
	created               bool
	startedAt             time.Time // of the latest run
	waiting, why          string    // the reason and the message of a container that waits
	attempts              int       // how often the present operation has failed
	probe, output         string    // the probe that fails, and its output
	failures              int       // of the probe, in a row
	stopping              string    // why the container is being stopped; empty if it is not
	hooks                 []api.Error
}

func progressOf(pod *corev1.Pod, t api.Task, c api.Container, s corev1.PodStatus) progress {
	busy := slices.ContainsFunc(t.Why, func(r api.Reason) bool {
		return r.Code == operationInFlight && r.Container == c.Name && !r.Since.IsZero()
	})
	out := progress{
		container: c.Name, image: c.Image, pod: fmt.Sprintf("%s_%s(%s)", pod.Name, pod.Namespace, pod.UID),
		// The digest is known if the registry is asked for the image.
		busy:    busy && c.Status == lifecycle.StatusManifestPulled.String() && c.ImageDigest != "" && c.ImageID == "",
		created: c.RuntimeID != "", startedAt: c.StartedAt,
	}
	if c.ImageID != "" {
		out.pulledFrom = c.ImageSource
	}
	if c.Retry != nil {
		out.attempts = c.Retry.Attempts
	}
	status := podstatus.Named(s, c.Name)
	if w := status.State.Waiting; w != nil {
		out.waiting, out.why = w.Reason, w.Message
	}
	if c.Status == lifecycle.StatusRunning.String() {
		out.setRunning(pod, t, c, busy, status.Started == nil || *status.Started)
	}
	for _, err := range c.Errors {
		if err.Name == lifecycle.ErrPostStartHook || err.Name == lifecycle.ErrPreStopHook {
			out.hooks = append(out.hooks, err)
		}
	}
	return out
}

// setRunning adds what there is about a container that runs: the probe that fails, and why the
// container is being stopped. Started: its startup probe has passed.
func (p *progress) setRunning(pod *corev1.Pod, t api.Task, c api.Container, busy, started bool) {
	unhealthy := c.Health != nil && c.Health.Status == lifecycle.HealthUnhealthy.String()
	restarting := busy && unhealthy && t.Goal == lifecycle.Up.String() // a failed readiness probe stops nothing
	if c.Health != nil {
		p.probe = failingProbe(pod, c.Name, started, restarting)
		p.failures, p.output = c.Health.FailingStreak, c.Health.Output
	}
	switch {
	case t.Goal != lifecycle.Up.String():
		p.stopping = "Stopping container " + c.Name
	case restarting:
		p.stopping = fmt.Sprintf("Container %s failed %s probe, will be restarted", c.Name, strings.ToLower(p.probe))
	}
}

// failingProbe returns the kind of the probe that the health of a container comes from.
func failingProbe(pod *corev1.Pod, name string, started, restarting bool) string {
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		switch {
		case c.Name != name:
		case c.StartupProbe != nil && !started:
			return "Startup"
		case c.ReadinessProbe != nil && !restarting:
			return "Readiness"
		}
	}
	return "Liveness"
}

// until returns the events between two states of a container, in the order in which they happened.
func (p progress) until(now progress) (out []event) {
	add := func(e event) { out = append(out, e) }
	pulled := p.pulledFrom == "" && now.pulledFrom != ""
	registry := now.busy || pulled && now.pulledFrom == imageFromRegistry
	if registry && !p.busy {
		add(normal(reasonPulling, "Pulling image %q", now.image))
	}
	if pulled && registry {
		add(normal(reasonPulled, "Successfully pulled image %q", now.image))
	} else if pulled {
		add(normal(reasonPulled, "Container image %q already present on machine", now.image))
	}
	if !p.created && now.created {
		add(normal(Created, "Created container: %s", now.container))
	}
	if now.startedAt.After(p.startedAt) {
		add(normal(Started, "Started container %s", now.container))
	}
	if now.waiting != p.waiting || now.waiting != "" && now.attempts > p.attempts {
		out = append(out, now.waits()...)
	}
	if now.failures == 0 && now.output != p.output && strings.HasPrefix(now.output, redirected) {
		add(warning(reasonProbeWarning, "%s probe warning: %s", now.probe, now.output))
	}
	if now.failures > p.failures && now.probe != "" {
		add(warning(reasonUnhealthy, "%s probe failed: %s", now.probe, now.output))
	}
	for _, h := range now.hooks[min(len(p.hooks), len(now.hooks)):] {
		add(warning(h.Name, "%s", h.Message))
	}
	if now.stopping != "" && now.stopping != p.stopping {
		add(normal(Killing, "%s", now.stopping))
	}
	return out
}

// waits returns the events about a container that waits, none if it only waits for its turn.
func (p progress) waits() []event {
	switch p.waiting {
	case podstatus.ErrImagePull:
		return []event{warning(Failed, "Failed to pull image %q: %s", p.image, p.why), warning(Failed, "Error: %s", podstatus.ErrImagePull)}
	case podstatus.PullBackOff:
		return []event{normal(reasonBackOff, "Back-off pulling image %q", p.image), warning(Failed, "Error: %s", podstatus.PullBackOff)}
	case podstatus.NeverPull:
		return []event{warning(podstatus.NeverPull, "Container image %q is not present with pull policy of Never", p.image), warning(Failed, "Error: %s", podstatus.NeverPull)}
	case podstatus.CrashBackOff:
		return []event{warning(reasonBackOff, "Back-off restarting failed container %s in pod %s", p.container, p.pod)}
	case podstatus.ConfigError, podstatus.CreateError, podstatus.RunError:
		return []event{warning(Failed, "Error: %s", p.why)}
	}
	return nil
}
