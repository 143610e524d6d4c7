// Package admission decides which tasks may use the host, and in which order.
//
// Tasks that say how much cpu and memory they take, which host ports, or how many GPUs, share a
// Budget. A Queue is who is in and who waits, in the order in which they asked. A
// task is let in with all it asks for or waits; one that asks for more than the
// whole budget is refused at once (Budget.Refuse).
//
// The order is first come, first served, for each resource: a task waits behind an earlier
// one, even when there is room for it, if it takes something that the earlier one lacks or
// would lack then. What it takes beside that delays no earlier task, so a large task waits
// only for those that came before it and is not delayed forever. With Budget.Overtake above 0
// small tasks may pass all the same, but each waiting task is passed so at most that many times.
//
// All of it is pure: a Queue is a value, the caller keeps it and knows which tasks
// are still there.
//
// # Decisions
//
//   - A reservation belongs to a task, not to a process. It is granted before a pull or a pod, and released when the
//     task is STOPPED. If the owner dies, the task keeps it while any of its containers run.
//   - A later task takes nothing that an earlier one lacks. A task for which there is room is admitted if each
//     earlier task that waits still has enough of everything that the new one takes. Hence what a task lacks is
//     never with one that came later: it waits for those before it only, and they end. Tasks that need nothing
//     scarce do not wait for it.
//   - A GPU belongs to a task for the task's life. The queue chooses the devices with the reservation, and the
//     record names them, so that a container that is created again has the same ones.
//   - A quota of the host is a budget. What others use of it is the use that the kernel reports, less what the
//     admitted tasks take; while tasks start, the estimate does not fall.
//   - In bridge mode each container has its own network namespace, on a network that belongs to the task. Addresses
//     follow from the order in the definition, so every hosts file is complete before the first start.
package admission

import (
	"slices"

	"github.com/podtask/podtask/pkg/ports"
	"github.com/podtask/podtask/pkg/taskdef"
)

// UnitsPerCPU is the number of cpu units in a vCPU, as in the ECS model.
const UnitsPerCPU = 1024

// Need is the share of the host that a task has for as long as it is in. The zero value is
// nothing at all.
type Need struct {
	// CPU is in units of which a vCPU has UnitsPerCPU.
	CPU int64 `json:"cpu,omitempty"`
	// Memory is in bytes.
	Memory int64            `json:"memory,omitempty"`
	Ports  []ports.HostPort `json:"ports,omitempty"`
	// Containers is the number of containers that the task may have at once, without the infra
	// container; 0 if they are not counted.
	Containers int64 `json:"containers,omitempty"`
	// NoInfra: there is no infra container besides.
	NoInfra bool `json:"noInfra,omitempty"`
	// GPUs is the number of GPUs that the task has for itself.
	GPUs int `json:"gpus,omitempty"`
}

// NeedOf is the need that a task declares, counted as the ECS agent does
// (host_resource_manager.go): cpu is the task's, else the sum of its containers';
// memory is the task's, else the sum of its containers' reservations, or limits
// where a container has no reservation; ports are the fixed host ports. A task in
// the host's network takes its containers' ports; GPUs are the sum of its containers'.
// A Kubernetes Pod counts with its requests. Without limits (limited is false) cpu and memory are not counted.
func NeedOf(t taskdef.Task, limited bool) Need {
	var n Need
	if limited {
		n.CPU, n.Memory = cpuOf(t), memoryOf(t)
	}
	n.Ports = ports.Fixed(t)
	for _, c := range t.Containers {
		n.GPUs += c.Linux.GPUs
	}
	return n
}

func cpuOf(t taskdef.Task) (units int64) {
	if r := t.Extensions.Requests; r != nil {
		return r.CPU
	}
	if t.CPU > 0 {
		return int64(t.CPU * UnitsPerCPU)
	}
	for _, c := range t.Containers {
		units += c.CPU
	}
	return units
}

func memoryOf(t taskdef.Task) (bytes int64) {
	if r := t.Extensions.Requests; r != nil {
		return r.Memory
	}
	if t.Memory > 0 {
		return t.Memory
	}
	for _, c := range t.Containers {
		if c.MemoryReservation > 0 {
			bytes += c.MemoryReservation
		} else {
			bytes += c.Memory
		}
	}
	return bytes
}

// IsZero reports whether nothing is needed, so that there is nothing to reserve.
func (n Need) IsZero() bool {
	return n.CPU == 0 && n.Memory == 0 && len(n.Ports) == 0 && n.Containers == 0 && n.GPUs == 0
}

// Equal reports whether two needs are the same.
func (n Need) Equal(o Need) bool {
	return n.CPU == o.CPU && n.Memory == o.Memory && n.Containers == o.Containers && n.NoInfra == o.NoInfra && n.GPUs == o.GPUs && slices.Equal(n.Ports, o.Ports)
}

// meets returns the ports of n that o has as well.
func (n Need) meets(o Need) []ports.HostPort {
	var both []ports.HostPort
	for _, p := range n.Ports {
		if slices.ContainsFunc(o.Ports, p.Conflicts) {
			both = append(both, p)
		}
	}
	return both
}

// Collides reports whether a port of n is one of o as well.
func (n Need) Collides(o Need) bool { return len(n.meets(o)) > 0 }
