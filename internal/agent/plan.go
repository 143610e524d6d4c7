package agent

import (
	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// SliceLimits are the limits that the task's slice gets where the host can apply
// all of them. The weight is that of today's runtimes.
func SliceLimits(t taskdef.Task) cgroups.Limits {
	return taskLimits(t, lifecycle.Quota{}, cgroups.Curve{})
}
