package libpod

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/containers/podman/v5/pkg/bindings/containers"
)

// InitContainer makes the container's namespaces and its process, but does not let
// that run the program yet, and returns its process id on the host. A container that
// is set up already or runs is success. What keeps it from being set up is what keeps
// it from being started, so the classes are those of StartContainer. StopContainer
// undoes it.
func (c *Client) InitContainer(ctx context.Context, name string) (pid int, err error) {
	initErr := c.mutate(ctx, "set up container", name, func(ctx context.Context) error {
		return containers.ContainerInit(ctx, name, nil)
	})
	seen, err := c.InspectContainer(ctx, name)
	switch {
	case err != nil:
		return 0, err
	case seen.PID == 0 && initErr == nil:
		return 0, &Error{Op: "set up container", Object: name, Class: Temporary, Cause: "it has no process"}
	case seen.PID == 0:
		return 0, initErr
	}
	return seen.PID, nil
}

// StartContainer starts the container and returns when its process runs; one that
// runs already is success. A start that fails because of the command has class
// CommandNotFound or CommandNotExecutable, and leaves the container Created. With
// ContainerSpec.Init such a start succeeds, and the init process exits with 1.
func (c *Client) StartContainer(ctx context.Context, name string) error {
	return c.mutate(ctx, "start container", name, func(ctx context.Context) error {
		return containers.Start(ctx, name, nil)
	})
}

// StopContainer sends the container's stop signal and, after grace, SIGKILL; it
// returns when the container stopped. grace is rounded up to whole seconds; 0
// means SIGKILL at once. A container that is absent or does not run is success;
// a paused one, which Podman refuses to stop, is resumed first. When ctx ends
// early, Podman still carries the stop through.
func (c *Client) StopContainer(ctx context.Context, name string, grace time.Duration) error {
	err := c.stop(ctx, name, grace)
	if !errors.Is(err, Other) {
		return err
	}
	seen, inspectErr := c.InspectContainer(ctx, name)
	if inspectErr != nil || !seen.Paused {
		return err
	}
	err = c.ask(ctx, "resume container", name, func(ctx context.Context) error {
		return containers.Unpause(ctx, name, nil)
	})
	if err != nil {
		return err
	}
	return c.stop(ctx, name, grace)
}

func (c *Client) stop(ctx context.Context, name string, grace time.Duration) error {
	err := c.ask(ctx, "stop container", name, func(ctx context.Context) error {
		return containers.Stop(ctx, name, new(containers.StopOptions).WithTimeout(seconds(grace)))
	})
	if errors.Is(err, NotFound) {
		return nil
	}
	return err
}

// seconds rounds up to what Podman takes.
func seconds(d time.Duration) uint {
	if d <= 0 {
		return 0
	}
	return uint(math.Ceil(d.Seconds()))
}

// RemoveContainer removes the task's container with its anonymous volumes, killing
// it if it runs. Absent is success; a container of somebody else is a Conflict.
func (c *Client) RemoveContainer(ctx context.Context, name, taskID string) error {
	seen, err := c.InspectContainer(ctx, name)
	if err != nil || seen.Status == Absent {
		return err
	}
	if err := ownedBy(seen.labels(), taskID); err != nil {
		return fail(ctx, "remove container", name, err)
	}
	// By id: the name may be somebody else's by now.
	return c.remove(ctx, seen.ID)
}

// remove removes a container whatever its state. Without volumes=true Podman
// would leave the anonymous volumes that the image's VOLUME lines made; named
// ones stay either way.
func (c *Client) remove(ctx context.Context, id string) error {
	err := c.mutate(ctx, "remove container", id, func(ctx context.Context) error {
		reports, err := containers.Remove(ctx, id, new(containers.RemoveOptions).WithForce(true).WithVolumes(true).WithTimeout(0))
		if err != nil {
			return err
		}
		for _, r := range reports {
			if r != nil && r.Err != nil {
				return r.Err
			}
		}
		return nil
	})
	if errors.Is(err, NotFound) {
		return nil
	}
	return err
}

// waitInterval is how often a 4.x server looks whether the container ended; its
// default is 250 ms.
const waitInterval = "100ms"

// WaitContainer returns when the container stopped or vanished. It is a hint:
// follow it with InspectContainer. Call it only after StartContainer succeeded,
// because for a container that was never started it returns at once. It sends no
// condition: for "healthy" the reply looks inverted on 5.x and 4.3.1 refuses it.
func (c *Client) WaitContainer(ctx context.Context, name string) error {
	err := c.ask(ctx, "wait for container", name, func(ctx context.Context) error {
		_, err := containers.Wait(ctx, name, new(containers.WaitOptions).WithInterval(waitInterval))
		return err
	})
	if errors.Is(err, NotFound) {
		return nil
	}
	return err
}
