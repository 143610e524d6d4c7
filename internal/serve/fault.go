package serve

import (
	"context"
	"errors"
	"time"

	"github.com/podtask/podtask/internal/engine/run/owner"
	"github.com/podtask/podtask/internal/serve/ownerapi"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/fault"
)

// StartFault implements api.FaultBackend.
func (b AgentBackend) StartFault(ctx context.Context, id string, f fault.Fault, duration time.Duration) error {
	return b.withOwner(ctx, id, func(o *owner.Owner) error { return o.Faults().Start(ctx, f, duration) },
		func(c *api.Client) error { return c.StartFault(ctx, id, f, duration) })
}

// StopFaults implements api.FaultBackend.
func (b AgentBackend) StopFaults(ctx context.Context, id string, like fault.Fault) error {
	return b.withOwner(ctx, id, func(o *owner.Owner) error { return o.Faults().Stop(ctx, like) },
		func(c *api.Client) error { return c.StopFaults(ctx, id, like) })
}

// withOwner calls here with the owner of a task, which becomes this process if there is none, and pass if
// another process owns the task.
func (b AgentBackend) withOwner(ctx context.Context, id string, here func(*owner.Owner) error, pass func(*api.Client) error) error {
	s, err := b.Engine.Tasks.Find(id)
	if err != nil {
		return ownerapi.Failure(err)
	}
	if s.Settled() {
		return api.Failed(api.Conflict, "task %s has stopped", s.DisplayName())
	}
	wait, cancel := context.WithTimeout(ctx, b.Patience)
	defer cancel()
	retry := time.NewTicker(50 * time.Millisecond)
	defer retry.Stop()
	for {
		if o := b.Owned(id); o != nil {
			return here(o)
		}
		switch err = b.fleet.Adopt(wait, id); {
		case err != nil && !errors.Is(err, state.ErrLocked):
			return ownerapi.Failure(err)
		case err != nil:
			if c, dialErr := api.Dial(wait, b.Socket(id)); dialErr == nil {
				defer c.Close()
				return pass(c)
			}
		}
		select {
		case <-retry.C: // an owner takes the lock first and releases it last
		case <-wait.Done():
			return ownerapi.Failure(ownerapi.Unreachable(id, err))
		}
	}
}
