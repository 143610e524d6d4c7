package kubenode

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/podtask/podtask/pkg/api"
)

// Reasons of events about a change of resources, as the kubelet gives them.
const (
	eventResizeInfeasible = "ResizeInfeasible"
	eventResizeDeferred   = "ResizeDeferred"
	eventResizeError      = "ResizeError"
	eventResizeCompleted  = "ResizeCompleted"
)

// runResizes gives the containers of a Pod that runs the resources that users have asked for by the
// subresource resize. What the node cannot do at all is tried again when the Pod changes; what it cannot do
// now, also when another Pod has left, and after a pause.
func (w *podWorker) runResizes(ctx context.Context) {
	first := w.pods.Pace.First
	for pause, told := first, ""; ctx.Err() == nil; {
		changed, freed := w.change(), w.pods.freed()
		r := w.resize(ctx)
		if ctx.Err() != nil {
			return
		}
		w.report.setResize(r.condition)
		if event := r.event + r.message; event != told {
			r.tell(w)
			told, pause = event, first
		}
		var again <-chan time.Time // never, if there is nothing to do
		if r.retry {
			again, pause = time.After(pause), min(2*pause, w.pods.Pace.Most)
		} else {
			freed = nil
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-freed:
		case <-again:
		}
	}
}

// resizeResult is what became of an attempt to resize a Pod.
type resizeResult struct {
	condition      *corev1.PodCondition // nil for none
	event, message string               // of the event; empty for none
	retry          bool
}

func (r resizeResult) tell(w *podWorker) {
	switch r.event {
	case "":
	case eventResizeCompleted:
		w.pods.Events.Event(w.latest(), corev1.EventTypeNormal, r.event, r.message)
	default:
		w.pods.Events.Event(w.latest(), corev1.EventTypeWarning, r.event, r.message)
	}
}

func unresized(kind corev1.PodConditionType, reason, event, message string, retry bool) resizeResult {
	c := &corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message}
	return resizeResult{c, event, message, retry}
}

func infeasible(message string) resizeResult {
	return unresized(corev1.PodResizePending, corev1.PodReasonInfeasible, eventResizeInfeasible, message, false)
}

// resize makes the resources of the task those of the Pod.
func (w *podWorker) resize(ctx context.Context) resizeResult {
	pod, has := w.latest(), w.allocated()
	if has == nil || has.Status.Phase != corev1.PodRunning || w.failure() != nil {
		return resizeResult{}
	}
	change, names := resourceChanges(has, pod)
	if len(names) == 0 {
		return resizeResult{}
	}
	if message := restartsToResize(has, pod); message != "" {
		return infeasible(message)
	}
	room := w.pods.Room()
	if name, message := (load{room: room}).short(pod); name != "" {
		return infeasible(message)
	}
	if name, message := (load{room: room, others: others(w.pods, w)}).short(pod); name != "" {
		return unresized(corev1.PodResizePending, corev1.PodReasonDeferred, eventResizeDeferred, message, true)
	}
	w.report.setResize(&corev1.PodCondition{Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue})
	err := w.pods.Agent.Resize(ctx, w.taskID(), change)
	switch {
	case failedWith(err, api.BadRequest), failedWith(err, api.Unsupported):
		return infeasible(problemsOf(err).Error())
	case err != nil:
		return unresized(corev1.PodResizeInProgress, corev1.PodReasonError, eventResizeError, err.Error(), true)
	}
	w.setResources(pod)
	w.report.setResources(pod.Spec)
	w.pods.free()
	return resizeResult{event: eventResizeCompleted, message: "Pod resize completed: " + strings.Join(names, ", ") + resourcesText(pod)}
}

// resourcesText has the resources of all containers, so that the event of each resize is another one.
func resourcesText(pod *corev1.Pod) string {
	of := make(map[string]corev1.ResourceRequirements)
	for _, c := range allContainers(pod) {
		of[c.Name] = c.Resources
	}
	text, err := json.Marshal(of)
	if err != nil {
		return ""
	}
	return ": " + string(text)
}

func allContainers(pod *corev1.Pod) []corev1.Container {
	return slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
}

// resourceChanges are the resources of a Pod that differ from those that it was given, and the names of its
// containers that have them.
func resourceChanges(has, wants *corev1.Pod) (change api.PodResources, names []string) {
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
		names = append(names, c.Name)
	}
	if to := wants.Spec.Resources; to != nil && (has.Spec.Resources == nil || !equality.Semantic.DeepEqual(*has.Spec.Resources, *to)) {
		if text, err := json.Marshal(to); err == nil {
			change.Pod, names = text, append(names, "the Pod")
		}
	}
	return change, names
}

// restartsToResize says which container would have to be restarted for its new resources, which this node
// does not do; empty if there is none.
func restartsToResize(has, wants *corev1.Pod) string {
	given := make(map[string]corev1.ResourceRequirements)
	for _, c := range allContainers(has) {
		given[c.Name] = c.Resources
	}
	for _, c := range allContainers(wants) {
		old := given[c.Name]
		for _, p := range c.ResizePolicy {
			same := equal(old.Limits, c.Resources.Limits, p.ResourceName) && equal(old.Requests, c.Resources.Requests, p.ResourceName)
			if p.RestartPolicy == corev1.RestartContainer && !same {
				return fmt.Sprintf("container %s has the resizePolicy RestartContainer for %s, and this node does not restart containers to resize them: "+
					"give it NotRequired, or delete the Pod so that its controller creates another one", c.Name, p.ResourceName)
			}
		}
	}
	return ""
}

func equal(a, b corev1.ResourceList, name corev1.ResourceName) bool {
	x, y := a[name], b[name]
	return x.Cmp(y) == 0
}

// setAllocated notes the Pod as the agent runs it.
func (w *podWorker) setAllocated(pod *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	changed := w.given == nil || w.given.Status.Phase != pod.Status.Phase
	if !changed {
		_, names := resourceChanges(w.given, pod)
		changed = len(names) > 0
	}
	w.given = pod.DeepCopy()
	if changed {
		w.notify()
	}
}

// allocated is the Pod as the agent runs it, a copy; nil if that is not known.
func (w *podWorker) allocated() *corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.given.DeepCopy()
}

// setResources notes that the agent runs the Pod with the resources of this one.
func (w *podWorker) setResources(from *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.given != nil {
		w.given = withResourcesOf(w.given, from)
	}
}

// counted is the Pod as others have to make room for it: with the resources that it was given, not with those
// that it waits for.
func (w *podWorker) counted() *corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.given == nil {
		return w.pod.DeepCopy()
	}
	return withResourcesOf(w.pod, w.given)
}

// withResourcesOf is a copy of a Pod that has the resources of another one.
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

// others are the Pods beside one that have not ended, with the resources that they were given.
func others(p *Pods, k *podWorker) (out []*corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.all {
		if o != k && !o.report.ended() {
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

// addResources adds the resources of containers to their statuses. By them the API server knows that the node
// can change the resources of a Pod that runs.
func addResources(s *corev1.PodStatus, spec corev1.PodSpec) {
	of := make(map[string]corev1.ResourceRequirements)
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		of[c.Name] = c.Resources
	}
	for _, list := range statusLists(*s) {
		for i, c := range list {
			if r, known := of[c.Name]; known {
				list[i].AllocatedResources = maps.Clone(r.Requests)
				list[i].Resources = &corev1.ResourceRequirements{Limits: maps.Clone(r.Limits), Requests: maps.Clone(r.Requests)}
			}
		}
	}
}

// unlike reports whether a container that runs has other resources than its specification.
func unlike(spec corev1.PodSpec, s corev1.PodStatus) bool {
	wanted := s.DeepCopy()
	addResources(wanted, spec)
	for k, list := range statusLists(s) {
		for i, c := range list {
			if c.State.Running != nil && c.Resources != nil && !equality.Semantic.DeepEqual(c.Resources, statusLists(*wanted)[k][i].Resources) {
				return true
			}
		}
	}
	return false
}

// setResize says what the condition about a resize is; nil for none.
func (r *reporter) setResize(c *corev1.PodCondition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.resize == c || r.resize != nil && c != nil && *r.resize == *c {
		return
	}
	r.resize = c
	r.rewrite()
}

// setResources says what resources the containers have.
func (r *reporter) setResources(spec corev1.PodSpec) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.want == nil {
		return
	}
	r.want = r.want.DeepCopy()
	addResources(r.want, spec)
	r.rewrite()
}

// rewrite has the status written again. The lock is held.
func (r *reporter) rewrite() {
	if r.want == nil {
		return // it is written with the first status of the Pod
	}
	again := *r.want // another pointer: it is to be written
	r.want = &again
	r.wake()
}

// setResizeCondition replaces the conditions about a resize.
func setResizeCondition(s *corev1.PodStatus, generation int64, c *corev1.PodCondition) {
	s.Conditions = slices.DeleteFunc(s.Conditions, func(o corev1.PodCondition) bool {
		return (o.Type == corev1.PodResizePending || o.Type == corev1.PodResizeInProgress) && (c == nil || o.Type != c.Type)
	})
	if c != nil {
		setCondition(s, generation, *c)
	}
}
