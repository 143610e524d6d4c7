package taskspec

import (
	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// SliceLimits are the limits that the task's slice gets where the host can apply
// all of them. The weight is that of today's runtimes.
func SliceLimits(t taskdef.Task) cgroups.Limits {
	return TaskLimits(t, lifecycle.Quota{ImplicitShares: true}, cgroups.Curve{})
}

// TaskLimits are the limits of the task's slice under a quota; see cgroups.Limits.ForSlice.
func TaskLimits(t taskdef.Task, q lifecycle.Quota, curve cgroups.Curve) cgroups.Limits {
	q = q.Over(t)
	reserved := make([]cgroups.Reserved, len(t.Containers))
	for i, c := range t.Containers {
		reserved[i] = cgroups.Reserved{Shares: shares(c, q), MemoryLow: c.MemoryReservation}
	}
	l := cgroups.Limits{CPU: q.CPU, CPUPeriod: q.CPUPeriod, Memory: q.Memory, TasksMax: q.TasksMax, IOWeight: q.IOWeight}
	return l.ForSlice(reserved, curve)
}

// ContainerLimits are the limits that container i of the task is to have while it runs.
func ContainerLimits(s lifecycle.State, i int, curve cgroups.Curve) cgroups.Limits {
	c := s.Task.Containers[i]
	l := cgroups.Limits{CPU: c.Extensions.CPULimit, CPUWeight: curve.Weight(shares(c, s.Options.Quota)), Memory: c.Memory, MemoryLow: c.MemoryReservation, SwapMax: c.Memory}
	if swap := c.Linux.MaxSwap; swap != nil && c.Memory > 0 {
		l.SwapMax = *swap
		if *swap == 0 {
			l.SwapMax = cgroups.NoSwap
		}
	}
	return Applicable(l, s.Options)
}

// shares returns the CPU shares of a container; 0 means that none are set.
func shares(c taskdef.Container, q lifecycle.Quota) uint64 {
	if c.CPU == 0 && !q.ImplicitShares {
		return 0
	}
	return cgroups.Shares(c.CPU)
}

// Applicable leaves out what the user chose to do without.
func Applicable(l cgroups.Limits, o lifecycle.Options) cgroups.Limits {
	if o.Limits == lifecycle.LimitsOff {
		return cgroups.Limits{}
	}
	return l.Without(o.Unapplied...)
}
