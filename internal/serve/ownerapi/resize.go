package ownerapi

import (
	"context"
	"errors"
	"time"

	"github.com/podtask/podtask/internal/define/pod"
	"github.com/podtask/podtask/internal/engine"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Resized returns the resources that a task gets by a request, or a Failure that says why it cannot
// get them: it checks the task and the host, and changes nothing.
func Resized(a *engine.Engine, s lifecycle.State, to api.PodResources) (lifecycle.Resources, error) {
	if err := Limitable(s); err != nil {
		return lifecycle.Resources{}, err
	}
	if s.Status() != lifecycle.StatusRunning {
		return lifecycle.Resources{}, api.Failed(api.Conflict, "the task is %s: its containers can have other resources as soon as all of them have started", s.Status())
	}
	r, err := pod.Resize(s.Task, to.Containers, to.Pod)
	var invalid *taskdef.InvalidError
	switch {
	case errors.As(err, &invalid):
		return r, &api.Failure{Code: api.BadRequest, Message: err.Error(), Problems: invalid.Problems}
	case err != nil:
		return r, err
	}
	if err := a.Preflight.CheckResources(s, r); err != nil {
		return r, api.Failed(api.Unsupported, "%v", err)
	}
	if err := a.Slices.CheckMemory(s, r); err != nil {
		return r, api.Failed(api.Conflict, "%v", err)
	}
	return r, nil
}

// PatienceFor limits the time that it may take until a task has other resources: the containers that are
// restarted for them have to stop first.
func PatienceFor(s lifecycle.State, r lifecycle.Resources, patience time.Duration) time.Duration {
	for _, i := range r.Restart {
		patience += s.Task.Containers[i].StopTimeout
	}
	return patience
}

// ApplyResources returns when the record of a task has the resources and the kernel applies them. Containers
// that are restarted for them have stopped then, and are started with them.
func ApplyResources(ctx context.Context, a *engine.Engine, id string, r lifecycle.Resources) error {
	var latest lifecycle.State
	err := a.Tasks.Watch(ctx, id, func(s lifecycle.State) bool {
		latest = s
		return s.Goal == lifecycle.Up && (!r.Equal(s.Task) || s.Resizing())
	})
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return Failure(err)
	}
	if err := Limitable(latest); err != nil {
		return err
	}
	if err := a.Slices.Change(ctx, latest); err != nil {
		return api.Failed(api.Conflict, "%v", err)
	}
	return nil
}

// Resize implements api.PodResizer.
func (b Backend) Resize(ctx context.Context, id string, to api.PodResources) error {
	s := b.State()
	r, err := Resized(b.from, s, to)
	if err != nil {
		return err
	}
	b.Send(lifecycle.ResourcesRequested{Resources: r})
	return ApplyResources(ctx, b.from, s.ID, r)
}

var _ api.PodResizer = Backend{}
