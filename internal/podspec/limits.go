package podspec

import (
	"slices"

	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// SliceLimits are the limits that the task's slice gets where the host can apply
// all of them. The weight is that of today's runtimes.
func SliceLimits(t taskdef.Task) cgroups.Limits {
	return TaskLimits(t, lifecycle.Quota{}, cgroups.Curve{})
}

// TaskLimits are the limits of the task's slice. Without a hard cpu limit its
// weight is the sum of its containers' shares (ECS agent, task_linux.go), by the curve
// that the containers' own weights follow. A task with a memory limit may swap as much
// again, as Podman's containers may.
//
// What the containers reserve is protected (memory.low), and throttling begins
// nine tenths of the way from there to the limit (memory.high), so that a task
// that grows is slowed before it is killed.
func TaskLimits(t taskdef.Task, q lifecycle.Quota, curve cgroups.Curve) cgroups.Limits {
	q = q.Over(t)
	l := cgroups.Limits{
		CPU: q.CPU, CPUPeriod: q.CPUPeriod, Memory: q.Memory, SwapMax: q.Memory,
		TasksMax: q.TasksMax, IOWeight: q.IOWeight,
	}
	var shares uint64
	for _, c := range t.Containers {
		shares += cpuShares(c.CPU)
		l.MemoryLow += c.MemoryReservation
	}
	if q.CPU == 0 {
		l.CPUWeight = curve.Weight(shares)
	}
	if q.Memory > 0 && l.MemoryLow > 0 {
		l.MemoryLow = min(l.MemoryLow, q.Memory)
		l.MemoryHigh = l.MemoryLow + (q.Memory-l.MemoryLow)/10*9
	}
	return l
}

// cpuShares are a container's cpu units as shares, which go from 2 to 262144; 0
// means none given (ECS agent: 1 becomes 2).
func cpuShares(units int64) uint64 {
	if units <= 0 {
		return 0
	}
	return min(max(uint64(units), minShares), maxShares)
}

const (
	minShares = 2
	maxShares = 262144
)

// Applicable leaves out what the user chose to do without.
func Applicable(l cgroups.Limits, o lifecycle.Options) cgroups.Limits {
	if o.Limits == lifecycle.LimitsOff {
		return cgroups.Limits{}
	}
	if slices.Contains(o.Unapplied, "cpu") {
		l.CPU, l.CPUWeight = 0, 0
	}
	if slices.Contains(o.Unapplied, "memory") {
		l.Memory, l.MemoryHigh, l.MemoryLow, l.SwapMax = 0, 0, 0, 0
	}
	if slices.Contains(o.Unapplied, "pids") {
		l.TasksMax = 0
	}
	if slices.Contains(o.Unapplied, "io") {
		l.IOWeight = 0
	}
	return l
}
