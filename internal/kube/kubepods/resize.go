package kubepods

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/podtask/podtask/internal/kube/podadmission"
	"github.com/podtask/podtask/internal/kube/podevents"
	"github.com/podtask/podtask/internal/kube/podstatus"
	"github.com/podtask/podtask/pkg/api"
)

// Reasons of events about a change of resources, as the kubelet gives them.
const (
	eventResizeInfeasible = "ResizeInfeasible"
	eventResizeDeferred   = "ResizeDeferred"
	eventResizeStarted    = "ResizeStarted"
	eventResizeError      = "ResizeError"
	eventResizeCompleted  = "ResizeCompleted"
)

// runResizes gives the containers of a Pod that runs the resources that users have asked for by the
// subresource resize. What the node cannot do at all is tried again when other resources are asked for; what it
// cannot do now, also when another Pod has left, and after a pause that doubles.
func (w *podWorker) runResizes(ctx context.Context) {
	first := w.pods.config.Pace.First
	var again <-chan time.Time // never, if there is nothing to do
	for pause, tried, announced := first, "", ""; ctx.Err() == nil; {
		changed, freed := w.change(), w.pods.freed()
		wish := w.resizeWish()
		r := w.resize(ctx, wish, wish.id != tried)
		if ctx.Err() != nil {
			return
		}
		w.report.SetResize(r.condition)
		if wish.id != tried {
			pause, announced = first, ""
		}
		if r.event != announced {
			r.announce(w)
		}
		tried, announced, again = wish.id, r.event, nil
		if r.event == eventResizeCompleted {
			tried = ""
		}
		if r.retry {
			again, pause = time.After(pause), min(2*pause, w.pods.config.Pace.Most)
		} else {
			freed = nil
		}
		if !w.awaitResize(ctx, tried, changed, freed, again) {
			return
		}
	}
}

// awaitResize waits until other resources are asked for than those, or until one of the other channels has
// something. It returns false if ctx has ended. A Pod changes for other reasons, too: each status
// that is written is one.
func (w *podWorker) awaitResize(ctx context.Context, tried string, changed, freed <-chan struct{}, again <-chan time.Time) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-freed:
			return true
		case <-again:
			return true
		case <-changed:
		}
		changed = w.change()
		if w.resizeWish().id != tried {
			return true
		}
	}
}

// resizeWish is a change of resources that a user has asked for.
type resizeWish struct {
	id         string // differs for other changes; empty if nothing is to be changed
	change     api.PodResources
	has, wants *corev1.Pod
}

func (w *podWorker) resizeWish() resizeWish {
	wish := resizeWish{wants: w.latest(), has: w.allocated()}
	if wish.has == nil || wish.has.Status.Phase != corev1.PodRunning || w.failure() != nil {
		return wish
	}
	if wish.change = resourceChanges(wish.has, wish.wants); len(wish.change.Containers) == 0 && wish.change.Pod == nil {
		return wish
	}
	if text, err := json.Marshal(wish.change); err == nil { // quantities and names can be marshaled
		wish.id = w.taskID() + string(text)
	}
	return wish
}

// resizeResult is the outcome of an attempt to resize a Pod.
type resizeResult struct {
	condition      *corev1.PodCondition // nil for none
	event, message string               // of the event; empty for none
	retry          bool
}

func (r resizeResult) announce(w *podWorker) {
	switch r.event {
	case "":
	case eventResizeCompleted, eventResizeStarted:
		w.pods.config.Events.Event(w.latest(), corev1.EventTypeNormal, r.event, r.message)
	default:
		w.pods.config.Events.Event(w.latest(), corev1.EventTypeWarning, r.event, r.message)
	}
}

func unresized(kind corev1.PodConditionType, reason, event, message string, retry bool) resizeResult {
	c := &corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message}
	return resizeResult{c, event, message, retry}
}

func infeasible(message string) resizeResult {
	return unresized(corev1.PodResizePending, corev1.PodReasonInfeasible, eventResizeInfeasible, message, false)
}

// resize has the agent give the task the resources of the Pod. The first attempt has an event.
func (w *podWorker) resize(ctx context.Context, wish resizeWish, first bool) resizeResult {
	if wish.id == "" {
		return resizeResult{}
	}
	pod := wish.wants
	room := w.pods.config.Room()
	if name, message := (podadmission.Load{Room: room}).Short(pod); name != "" {
		return infeasible(message)
	}
	if name, message := (podadmission.Load{Room: room, Others: w.others()}).Short(pod); name != "" {
		return unresized(corev1.PodResizePending, corev1.PodReasonDeferred, eventResizeDeferred, message, true)
	}
	if first {
		w.report.SetResize(&corev1.PodCondition{Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue})
		resizeResult{event: eventResizeStarted, message: resizeText("started", pod)}.announce(w)
	}
	err := w.pods.config.Agent.Resize(ctx, w.taskID(), wish.change)
	switch {
	case api.Is(err, api.BadRequest), api.Is(err, api.Unsupported):
		return infeasible(problemsOf(err).Error())
	case err != nil:
		return unresized(corev1.PodResizeInProgress, corev1.PodReasonError, eventResizeError, err.Error(), true)
	}
	for _, name := range restartedToResize(wish.has, pod) {
		w.pods.config.Events.Eventf(pod, corev1.EventTypeNormal, podevents.Killing, "Container %s resize requires restart", name)
	}
	w.setResources(pod)
	w.report.SetResources(pod.Spec)
	w.pods.free()
	return resizeResult{event: eventResizeCompleted, message: resizeText("completed", pod)}
}

// resizeText is the message of an event about a resize, as the kubelet gives it: with the resources of all
// containers.
func resizeText(what string, pod *corev1.Pod) string {
	type container struct {
		Name      string                      `json:"name"`
		Resources corev1.ResourceRequirements `json:"resources"`
	}
	var summary struct {
		InitContainers []container `json:"initContainers,omitempty"`
		Containers     []container `json:"containers,omitempty"`
		Generation     int64       `json:"generation"`
	}
	for _, c := range pod.Spec.InitContainers {
		summary.InitContainers = append(summary.InitContainers, container{c.Name, c.Resources})
	}
	for _, c := range pod.Spec.Containers {
		summary.Containers = append(summary.Containers, container{c.Name, c.Resources})
	}
	summary.Generation = pod.Generation
	text, err := json.Marshal(summary)
	if err != nil {
		return "Pod resize " + what
	}
	return "Pod resize " + what + ": " + string(text)
}

func allContainers(pod *corev1.Pod) []corev1.Container {
	return slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
}

// resourceChanges returns the resources of a Pod that differ from those that it was given.
func resourceChanges(has, wants *corev1.Pod) (change api.PodResources) {
	given := make(map[string]corev1.ResourceRequirements)
	for _, c := range allContainers(has) {
		given[c.Name] = c.Resources
	}
	change.Containers = make(map[string]json.RawMessage)
	for _, c := range allContainers(wants) {
		old, known := given[c.Name]
		if !known || equality.Semantic.DeepEqual(old, c.Resources) {
			continue
		}
		text, err := json.Marshal(c.Resources)
		if err != nil {
			continue // quantities and names can be marshaled
		}
		change.Containers[c.Name] = text
	}
	if to := wants.Spec.Resources; to != nil && (has.Spec.Resources == nil || !equality.Semantic.DeepEqual(*has.Spec.Resources, *to)) {
		if text, err := json.Marshal(to); err == nil {
			change.Pod = text
		}
	}
	return change
}

// restartedToResize returns the names of the containers that the agent restarts for their new resources, because
// their resizePolicy says so.
func restartedToResize(has, wants *corev1.Pod) (names []string) {
	given := make(map[string]corev1.ResourceRequirements)
	for _, c := range allContainers(has) {
		given[c.Name] = c.Resources
	}
	for _, c := range allContainers(wants) {
		old := given[c.Name]
		if podstatus.Named(has.Status, c.Name).State.Running != nil && slices.ContainsFunc(c.ResizePolicy, func(p corev1.ContainerResizePolicy) bool {
			same := equal(old.Limits, c.Resources.Limits, p.ResourceName) && equal(old.Requests, c.Resources.Requests, p.ResourceName)
			return p.RestartPolicy == corev1.RestartContainer && !same
		}) {
			names = append(names, c.Name)
		}
	}
	return names
}

func equal(a, b corev1.ResourceList, name corev1.ResourceName) bool {
	x, y := a[name], b[name]
	return x.Cmp(y) == 0
}

// setAllocated notes the Pod as the agent runs it. Resizes is what resizeCount was before the agent was
// asked: if the Pod was resized since, the answer may have the resources from before.
func (w *podWorker) setAllocated(pod *corev1.Pod, resizes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.resizes != resizes && w.given != nil {
		pod = withResourcesOf(pod, w.given)
	}
	changed := w.given == nil || w.given.Status.Phase != pod.Status.Phase
	if !changed {
		change := resourceChanges(w.given, pod)
		changed = len(change.Containers) > 0 || change.Pod != nil
	}
	w.given = pod.DeepCopy()
	if changed {
		w.notify()
	}
}

// allocated returns a copy of the Pod with the resources with which the agent runs it; nil if they are not known.
func (w *podWorker) allocated() *corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.given.DeepCopy()
}

// resizeCount returns the number of resizes of the Pod.
func (w *podWorker) resizeCount() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.resizes
}

// setResources notes that the agent runs the Pod with the resources of this one.
func (w *podWorker) setResources(from *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.resizes++
	if w.given != nil {
		w.given = withResourcesOf(w.given, from)
	}
}

// counted returns the Pod with the resources that count against the room of the node: those that it was given, not those
// that it waits for.
func (w *podWorker) counted() *corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.given == nil {
		return w.pod.DeepCopy()
	}
	return withResourcesOf(w.pod, w.given)
}

// withResourcesOf returns a copy of a Pod that has the resources of another one.
func withResourcesOf(pod, from *corev1.Pod) *corev1.Pod {
	out := pod.DeepCopy()
	of := make(map[string]corev1.ResourceRequirements)
	for _, c := range allContainers(from) {
		of[c.Name] = *c.Resources.DeepCopy()
	}
	for _, list := range [][]corev1.Container{out.Spec.InitContainers, out.Spec.Containers} {
		for i, c := range list {
			if r, known := of[c.Name]; known {
				list[i].Resources = r
			}
		}
	}
	out.Spec.Resources = from.Spec.Resources.DeepCopy()
	return out
}

// others returns the Pods beside this one that have not ended, with the resources that they were given.
func (w *podWorker) others() (out []*corev1.Pod) {
	w.pods.mu.Lock()
	defer w.pods.mu.Unlock()
	for _, o := range w.pods.all {
		if o != w && !o.report.Ended() {
			out = append(out, o.counted())
		}
	}
	return out
}

// freed returns a channel that is closed when a Pod leaves room for others.
func (p *Pods) freed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.room == nil {
		p.room = make(chan struct{})
	}
	return p.room
}

// free wakes the Pods that wait for room.
func (p *Pods) free() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.freeLocked()
}

func (p *Pods) freeLocked() {
	if p.room != nil {
		close(p.room)
		p.room = nil
	}
}
