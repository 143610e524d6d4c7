package observe

import (
	"context"
	"errors"
	"fmt"

	"github.com/podtask/podtask/internal/engine/facts/taskspec"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// Pauser pauses the containers of tasks.
type Pauser struct {
	Podman func(context.Context) (Freezer, error)
}

// Pause freezes the containers of a task that run, or resumes them. It is what a
// user of Podman may do as well, so it is no goal of the task: the hints are for the
// task's owner, who then looks for itself. When one container cannot be paused
// the others continue.
func (p *Pauser) Pause(ctx context.Context, s lifecycle.State, pause bool) (hints []lifecycle.Hinted, err error) {
	f, err := p.Podman(ctx)
	if err != nil {
		return nil, err
	}
	for _, i := range s.MayRun() {
		name := taskspec.ContainerName(s, i)
		if pause {
			err = f.PauseContainer(ctx, name)
		} else {
			err = f.UnpauseContainer(ctx, name)
		}
		if errors.Is(err, libpod.NotRunning) {
			err = nil // its owner will hear of it
		}
		if err != nil {
			err = fmt.Errorf("container %s of task %s: %w", s.Task.Containers[i].Name, taskspec.TaskRef(s), err)
			break
		}
		hints = append(hints, lifecycle.Hinted{Index: i})
	}
	if err == nil || !pause {
		return hints, err
	}
	for _, done := range hints {
		err = errors.Join(err, f.UnpauseContainer(ctx, taskspec.ContainerName(s, done.Index)))
	}
	return nil, err
}

// Freezer pauses containers.
type Freezer interface {
	PauseContainer(ctx context.Context, name string) error
	UnpauseContainer(ctx context.Context, name string) error
}
