package podstatus

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// AddResources adds the resources of containers to their statuses. By them the API server knows that the node
// can change the resources of a Pod that runs.
func AddResources(s *corev1.PodStatus, spec corev1.PodSpec) {
	of := make(map[string]corev1.ResourceRequirements)
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		of[c.Name] = c.Resources
	}
	for _, list := range lists(*s) {
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
	AddResources(wanted, spec)
	for k, list := range lists(s) {
		for i, c := range list {
			if c.State.Running != nil && c.Resources != nil && !equality.Semantic.DeepEqual(c.Resources, lists(*wanted)[k][i].Resources) {
				return true
			}
		}
	}
	return false
}

// SetResize sets the condition about a resize; nil removes it.
func (r *Reporter) SetResize(c *corev1.PodCondition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.resize == c || r.resize != nil && c != nil && *r.resize == *c {
		return
	}
	r.resize = c
	r.rewrite()
}

// SetResources sets the resources of the containers in the status.
func (r *Reporter) SetResources(spec corev1.PodSpec) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.want == nil {
		return
	}
	r.want = r.want.DeepCopy()
	AddResources(r.want, spec)
	r.rewrite()
}

// rewrite makes Run write the status again. The lock is held.
func (r *Reporter) rewrite() {
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
