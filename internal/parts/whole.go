//go:build !podtask_core

package parts

import (
	"github.com/podtask/podtask/internal/cli/aws"
	"github.com/podtask/podtask/internal/cli/deploy"
	"github.com/podtask/podtask/internal/cli/ecs"
	"github.com/podtask/podtask/internal/cli/export"
	"github.com/podtask/podtask/internal/cli/importer"
	"github.com/podtask/podtask/internal/cli/inject"
	"github.com/podtask/podtask/internal/cli/kubelet"
	"github.com/podtask/podtask/internal/cli/notify"
	"github.com/podtask/podtask/internal/cli/part"
	"github.com/podtask/podtask/internal/cli/scaling"
	"github.com/podtask/podtask/internal/cli/schedule"
	"github.com/podtask/podtask/internal/cli/stack"
	"github.com/podtask/podtask/internal/cli/tasktest"
	"github.com/podtask/podtask/internal/cli/updates"
	"github.com/podtask/podtask/internal/cli/views"
)

// linked returns the parts in the order of what they add to the help.
func linked() []part.Part {
	return []part.Part{
		inject.Part(),
		views.Part(),
		tasktest.Part(),
		schedule.Part(),
		scaling.Part(),
		stack.Part(),
		notify.Part(),
		updates.Part(),
		deploy.Part(),
		importer.Part(),
		export.Part(),
		aws.Part(),
		kubelet.Part(),
		ecs.Part(),
	}
}
