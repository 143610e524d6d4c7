package libpod

import (
	"context"

	"github.com/containers/podman/v5/pkg/bindings/containers"
)

// PauseContainer freezes all that runs in the container. One that is paused is
// success; one that does not run is NotRunning.
func (c *Client) PauseContainer(ctx context.Context, name string) error {
	return c.freeze(ctx, "pause container", name, true, func(ctx context.Context) error {
		return containers.Pause(ctx, name, nil)
	})
}

// UnpauseContainer lets a paused container go on. One that is not paused is success.
func (c *Client) UnpauseContainer(ctx context.Context, name string) error {
	return c.freeze(ctx, "resume container", name, false, func(ctx context.Context) error {
		return containers.Unpause(ctx, name, nil)
	})
}

// freeze makes a call and takes its failure for success where the container is as
// wanted: Podman refuses to do it twice.
func (c *Client) freeze(ctx context.Context, op, name string, paused bool, fn func(context.Context) error) error {
	err := c.ask(ctx, op, name, fn)
	if err == nil {
		return nil
	}
	switch seen, inspectErr := c.InspectContainer(ctx, name); {
	case inspectErr != nil:
		return err
	case seen.Status != Running:
		return &Error{Op: op, Object: name, Class: NotRunning, Cause: "the container does not run"}
	case seen.Paused == paused:
		return nil
	}
	return err
}
