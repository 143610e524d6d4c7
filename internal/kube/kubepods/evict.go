package kubepods

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/podtask/podtask/internal/kube/podadmission"
	"github.com/podtask/podtask/internal/kube/podstatus"
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

// candidate is a Pod that may be evicted. Use is nil if it could not be read.
type candidate struct {
	pod *corev1.Pod
	use MemoryUse
}

// firstToGo returns the Pod to evict first; false if none may be evicted. The order is that of the kubelet: Pods that use more memory than they request, which those
// without requests do; those of the least priority; those that are the most above. What
// Pods use of a disk is not known, so there priorities decide. Among equals the latest goes.
func firstToGo(short pressure.Signal, all []candidate) (candidate, bool) {
	all = slices.DeleteFunc(slices.Clone(all), func(c candidate) bool { return podadmission.Critical(c.pod) })
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
			cmp.Compare(podadmission.Priority(a.pod), podadmission.Priority(b.pod)),
			-cmp.Compare(above(a), above(b)),
			b.pod.CreationTimestamp.Compare(a.pod.CreationTimestamp.Time),
			cmp.Compare(a.pod.UID, b.pod.UID),
		)
	}), true
}

// unknown is more than any amount of memory: a Pod whose use could not be read goes first.
const unknown = int64(1) << 62

// above returns the memory that a Pod uses beyond its request.
func (c candidate) above() int64 {
	if c.use == nil {
		return unknown
	}
	need := resourcehelper.PodRequests(c.pod, resourcehelper.PodResourcesOptions{})[corev1.ResourceMemory]
	return c.use.sum() - need.Value()
}

// reasons returns a sentence for each container of the Pod that uses more memory than it requests, as the kubelet has it.
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

// Evict evicts a Pod, because the host is short of something. It does nothing while the Pod that it evicted before has not
// ended. It must not be called concurrently.
func (p *Pods) Evict(ctx context.Context, short pressure.Shortage) {
	if p.evicted != nil && p.evicted.taskID() != "" {
		return
	}
	use, err := p.config.Use(ctx)
	if err != nil {
		p.config.Log.Warn("cannot read how much memory Pods use", "error", err)
	}
	workers := make(map[types.UID]*podWorker)
	var all []candidate
	for _, w := range p.evictable() {
		pod := w.latest()
		workers[pod.UID] = w
		all = append(all, candidate{pod, use[pod.UID]})
	}
	first, ok := firstToGo(short.Signal, all)
	if !ok {
		p.config.Log.Warn("the host is short of something and no Pod can be evicted", "signal", short.Signal, "left", short.Left, "threshold", short.Least)
		return
	}
	p.evicted = workers[first.pod.UID]
	p.evicted.evict(short.Message() + first.reasons(short.Signal))
}

// evictable returns the workers of Pods that have a task and are not about to end.
func (p *Pods) evictable() (out []*podWorker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.all {
		if w.ctx.Err() == nil && w.taskID() != "" && !w.report.Ended() {
			out = append(out, w)
		}
	}
	return out
}

// evict ends the containers of the Pod at once. When they have ended, the Pod has failed.
func (w *podWorker) evict(message string) {
	w.fail(failure{reason: podadmission.Evicted, message: message, evicted: true})
	task := w.taskID()
	w.pods.config.Log.Warn("a Pod is evicted", "pod", w.name(), "message", message)
	w.pods.config.Events.Event(w.latest(), corev1.EventTypeWarning, podadmission.Evicted, message)
	w.pods.wg.Go(func() {
		for w.ctx.Err() == nil && w.taskID() == task {
			if err := w.pods.config.Agent.Stop(w.ctx, task, podstatus.ByKubernetes, true); err == nil || isNotFound(err) {
				return
			}
			w.sleep(w.pods.config.Pace.Steady)
		}
	})
}
