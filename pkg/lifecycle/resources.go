package lifecycle

import (
	"encoding/json"
	"slices"

	"github.com/podtask/podtask/pkg/taskdef"
)

// Resources are the limits and requests of a task and its containers: the part of a definition that can change while the
// task runs.
type Resources struct {
	// CPU is in vCPU, Memory in bytes; 0 means not limited.
	CPU    float64
	Memory int64
	// Requests is taskdef.Extensions.Requests.
	Requests *taskdef.Requests
	// Pod is taskdef.Extensions.Pod.
	Pod json.RawMessage
	// Containers are parallel to those of the task.
	Containers []ContainerResources
	// Restart are the indices of the containers that are restarted to have them, as far as they run. Those
	// without a restart policy are not. ResourcesOf and Equal know of none.
	Restart []int
}

// ContainerResources are the limits and requests of one container, named as in taskdef.Container and its extensions.
type ContainerResources struct {
	CPU               int64
	CPULimit          float64
	Memory            int64
	MemoryReservation int64
	OOMScoreAdj       int
}

// ResourcesOf returns those of a definition.
func ResourcesOf(t taskdef.Task) Resources {
	r := Resources{CPU: t.CPU, Memory: t.Memory, Requests: t.Extensions.Requests, Pod: t.Extensions.Pod}
	for _, c := range t.Containers {
		r.Containers = append(r.Containers, ContainerResources{c.CPU, c.Extensions.CPULimit, c.Memory, c.MemoryReservation, c.Extensions.Kube.OOMScoreAdj})
	}
	return r
}

// Fits reports whether the resources are for a task with these containers.
func (r Resources) Fits(t taskdef.Task) bool {
	return len(r.Containers) == len(t.Containers) && !slices.ContainsFunc(r.Restart, func(i int) bool { return i < 0 || i >= len(t.Containers) })
}

// Equal reports whether the definition has these resources.
func (r Resources) Equal(t taskdef.Task) bool {
	of := ResourcesOf(t)
	same := r.Requests == of.Requests || r.Requests != nil && of.Requests != nil && *r.Requests == *of.Requests
	return same && r.CPU == of.CPU && r.Memory == of.Memory && string(r.Pod) == string(of.Pod) && slices.Equal(r.Containers, of.Containers)
}

// Apply returns the definition with these resources, which must fit it. The one that was given
// stays as it is.
func (r Resources) Apply(t taskdef.Task) taskdef.Task {
	t.CPU, t.Memory, t.Extensions.Requests, t.Extensions.Pod = r.CPU, r.Memory, r.Requests, r.Pod
	t.Containers = slices.Clone(t.Containers)
	for i, c := range r.Containers {
		to := &t.Containers[i]
		to.CPU, to.Extensions.CPULimit, to.Memory, to.MemoryReservation = c.CPU, c.CPULimit, c.Memory, c.MemoryReservation
		to.Extensions.Kube.OOMScoreAdj = c.OOMScoreAdj
	}
	return t
}

// Resizing reports whether a container is yet to be restarted for other resources.
func (s State) Resizing() bool { return some(&s, func(c *Container) bool { return c.Resizing }) }
