package cgroups

import "slices"

// Reserved is the share that one container of a task reserves.
type Reserved struct {
	Shares    uint64 // CPU shares; see Shares
	MemoryLow int64  // bytes
}

// ForSlice completes the limits of a task's slice by what its containers reserve. Without
// a hard CPU limit its weight is the sum of the containers' shares (ECS agent,
// task_linux.go), by the curve that the containers' own weights follow. A task with a
// memory limit may swap as much again, as Podman's containers may.
//
// What the containers reserve is protected (memory.low), and throttling begins nine tenths
// of the way from there to the limit (memory.high), so that a task that grows is slowed
// before it is killed.
func (l Limits) ForSlice(containers []Reserved, curve Curve) Limits {
	l.SwapMax = l.Memory
	var shares uint64
	for _, c := range containers {
		shares += c.Shares
		l.MemoryLow += c.MemoryLow
	}
	if l.CPU == 0 {
		l.CPUWeight = curve.Weight(shares)
	}
	if l.Memory > 0 && l.MemoryLow > 0 {
		l.MemoryLow = min(l.MemoryLow, l.Memory)
		l.MemoryHigh = l.MemoryLow + (l.Memory-l.MemoryLow)/10*9
	}
	return l
}

// Without returns the limits that need none of the controllers.
func (l Limits) Without(controllers ...string) Limits {
	if slices.Contains(controllers, "cpu") {
		l.CPU, l.CPUWeight = 0, 0
	}
	if slices.Contains(controllers, "memory") {
		l.Memory, l.MemoryHigh, l.MemoryLow, l.SwapMax = 0, 0, 0, 0
	}
	if slices.Contains(controllers, "pids") {
		l.TasksMax = 0
	}
	if slices.Contains(controllers, "io") {
		l.IOWeight = 0
	}
	return l
}

// Shares returns ECS CPU units as CPU shares, from 2 to 262144. As in the ECS agent, a
// container without units gets the smallest share and not the kernel's default, which would
// outweigh a container that declares less than 1024.
func Shares(units int64) uint64 {
	return uint64(min(max(units, minShares), maxShares))
}
