package main

import (
	"context"
	"strings"

	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// owner is what this program asks of an agent.Owner.
type owner interface {
	State() lifecycle.State
	Send(lifecycle.Event)
	Watch(context.Context, func(lifecycle.State) bool) error
}

// ownedTask serves the one task of an owner: an api.Backend.
type ownedTask struct{ owner }

// Tasks implements api.Backend.
func (b ownedTask) Tasks(context.Context) ([]lifecycle.State, error) {
	return []lifecycle.State{b.State()}, nil
}

// Task implements api.Backend.
func (b ownedTask) Task(_ context.Context, ref string) (lifecycle.State, error) {
	s := b.State()
	if ref == "" || !strings.HasPrefix(s.ID, ref) && s.Name != ref {
		return s, api.Failed(api.NotFound, "no task %q here: this process owns %s only", ref, s.ID)
	}
	return s, nil
}

// Stop implements api.Backend.
func (b ownedTask) Stop(_ context.Context, _, by string, force bool) error {
	b.Send(lifecycle.StopRequested{By: by, Force: force})
	return nil
}

// Remove implements api.Backend.
func (b ownedTask) Remove(_ context.Context, _, by string, force bool) error {
	if err := removable(b.State(), force); err != nil {
		return err
	}
	b.Send(lifecycle.RemoveRequested{By: by, Force: force})
	return nil
}

// Watch implements api.Backend.
func (b ownedTask) Watch(ctx context.Context, _ string, fn func(lifecycle.State) bool) error {
	return b.owner.Watch(ctx, fn)
}

// removable says why a task cannot be removed without force.
func removable(s lifecycle.State, force bool) error {
	if force || s.Goal == lifecycle.Gone || s.Status() == lifecycle.StatusStopped {
		return nil
	}
	return api.Failed(api.Conflict, "task %s has not stopped: stop it first, or remove it with `podtask rm -f %s`", shortID(s.ID), nameOf(s))
}

// nameOf is what a user types for the task.
func nameOf(s lifecycle.State) string { return firstOf(s.Name, shortID(s.ID)) }
