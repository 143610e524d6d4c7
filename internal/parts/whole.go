//go:build !podtask_core

package parts

import (
	"github.com/podtask/podtask/internal/cli/aws"
	"github.com/podtask/podtask/internal/cli/part"
	"github.com/podtask/podtask/internal/cli/tasktest"
)

// linked returns the parts in the order of what they add to the help.
func linked() []part.Part {
	return []part.Part{
		tasktest.Part(),
		aws.Part(),
	}
}
