package kubenode

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/podtask/podtask/internal/kube/pressure"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"
)

// MemoryUse is the memory in bytes that the containers of a Pod use, by their names.
type MemoryUse map[string]int64

func (u MemoryUse) sum() (total int64) {
	for _, n := range u {
		total += n
	}
	return total
}

// candidate is a Pod that may be evicted. Use is nil where it is not known.
type candidate struct {
	pod *corev1.Pod
	use MemoryUse
}

// firstToGo is the Pod that goes first where something is short; false where none may go.
// It is the order of the kubelet: Pods that use more memory than they request, which those
// without requests do; those of the least priority; those that are the most above. What
// Pods use of a disk is not known, so there priorities decide. Among equals the latest goes.
func firstToGo(short pressure.Signal, all []candidate) (candidate, bool) {
	all = slices.DeleteFunc(slices.Clone(all), func(c candidate) bool { return critical(c.pod) })
	if len(all) == 0 {
		return candidate{}, false
	}
	return slices.MinFunc(all, func(a, b candidate) int {
		above := func(c candidate) int64 { return 0 }
		if short == pressure.MemoryAvailable {
			above = candidate.above
		}
		return cmp.Or(
			-cmp.Compare(min(max(above(a), 0), 1), min(max(above(b), 0), 1)),
			cmp.Compare(priority(a.pod), priority(b.pod)),
			-cmp.Compare(above(a), above(b)),
			b.pod.CreationTimestamp.Compare(a.pod.CreationTimestamp.Time),
			cmp.Compare(a.pod.UID, b.pod.UID),
		)
	}), true
}

// unknown is above everything: a Pod about which nothing is known goes first.
const unknown = int64(1) << 62

// above returns the memory that a Pod uses beyond its request.
func (c candidate) above() int64 {
	if c.use == nil {
		return unknown
	}
	need := resourcehelper.PodRequests(c.pod, resourcehelper.PodResourcesOptions{})[corev1.ResourceMemory]
	return c.use.sum() - need.Value()
}

// reasons are the containers of a Pod that use more memory than they request, as the
// kubelet says it.
func (c candidate) reasons(short pressure.Signal) (text string) {
	if short != pressure.MemoryAvailable {
		return ""
	}
	for _, one := range c.pod.Spec.Containers {
		used, known := c.use[one.Name]
		need := one.Resources.Requests[corev1.ResourceMemory]
		if known && used > need.Value() {
			text += fmt.Sprintf("Container %s was using %s, request is %s, has larger consumption of memory. ", one.Name, resource.NewQuantity(used, resource.BinarySI), &need)
		}
	}
	return text
}

// evictor evicts one Pod after the other while the host is short of something.
type evictor struct {
	short func() []pressure.Shortage
	use   func(context.Context) (map[types.UID]MemoryUse, error)
	pods  *Pods
	last  *podWorker // the Pod that was evicted last
}

// step evicts a Pod if one must go, and none while the one before has not ended.
func (e *evictor) step(ctx context.Context) {
	if short := e.short(); len(short) > 0 && (e.last == nil || e.last.taskID() == "") {
		e.evict(ctx, short[0])
	}
}

func (e *evictor) evict(ctx context.Context, short pressure.Shortage) {
	use, err := e.use(ctx)
	if err != nil {
		e.pods.Log.Warn("what Pods use is not known", "error", err)
	}
	workers := make(map[types.UID]*podWorker)
	var all []candidate
	for _, k := range running(e.pods) {
		pod := k.latest()
		workers[pod.UID] = k
		all = append(all, candidate{pod, use[pod.UID]})
	}
	first, ok := firstToGo(short.Signal, all)
	if !ok {
		e.pods.Log.Warn("the host is short of something and no Pod can be evicted", "signal", short.Signal, "left", short.Left, "threshold", short.Least)
		return
	}
	e.last = workers[first.pod.UID]
	e.last.evict(short.Message() + first.reasons(short.Signal))
}

// running are the workers of Pods that use the host and are not about to end.
func running(p *Pods) (out []*podWorker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.all {
		if k.ctx.Err() == nil && k.taskID() != "" && !k.report.ended() {
			out = append(out, k)
		}
	}
	return out
}

// evict ends the containers of the Pod at once. When they have ended, the Pod has failed.
func (w *podWorker) evict(message string) {
	w.fail(failure{reason: reasonEvicted, message: message, evicted: true})
	task := w.taskID()
	w.pods.Log.Warn("a Pod is evicted", "pod", w.name(), "message", message)
	w.pods.Events.Event(w.latest(), corev1.EventTypeWarning, reasonEvicted, message)
	w.pods.wg.Go(func() {
		for w.ctx.Err() == nil && w.taskID() == task {
			if err := w.pods.Agent.Ask(w.ctx, task, Kill); err == nil || isNotFound(err) {
				return
			}
			w.sleep(w.pods.Pace.Steady)
		}
	})
}

// disrupted makes a status that of a Pod that its node ended.
func disrupted(s *corev1.PodStatus, reason, message string) {
	s.Phase, s.Reason, s.Message = corev1.PodFailed, reason, message
	s.Conditions = append(s.Conditions, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonTerminationByKubelet, Message: message,
	})
}
