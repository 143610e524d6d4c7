package libpod

import (
	"cmp"
	"context"
	"errors"
	"math"
	"time"

	"github.com/containers/podman/v5/libpod/define"
	"github.com/containers/podman/v5/pkg/bindings/containers"
)

// StopContainer sends the container's stop signal and, after grace, SIGKILL. It returns
// when the container has stopped. 0 means SIGKILL immediately. It succeeds if the container
// does not exist or is not running. A paused container is resumed first.
//
// Podman runs few stops at once, and each takes until its container has ended. So the grace
// passes here, and Podman gets two short calls. It has the whole stop, with grace rounded up to
// whole seconds, if there is no conmon to watch, and if the container has no PID namespace:
// then Podman sends the signal to all of its processes.
//
// If ctx ends early, the container may have its signal, and nothing kills it.
func (c *Client) StopContainer(ctx context.Context, name string, grace time.Duration) error {
	if grace > 0 {
		passed, err := c.terminate(ctx, name, grace)
		if err != nil {
			return err
		}
		if passed {
			grace = 0
		}
	}
	return c.stopByPodman(ctx, name, grace)
}

// terminate sends the stop signal to a container that runs and waits until it has ended, at most
// for grace. passed is false if the container got no signal: Podman can tell why.
func (c *Client) terminate(ctx context.Context, name string, grace time.Duration) (passed bool, err error) {
	data, err := c.inspect(ctx, name)
	if err != nil {
		return false, fail(ctx, "stop container", name, ctx.Err())
	}
	m, runs := monitoredBy(data)
	if !runs || data.HostConfig != nil && data.HostConfig.PidMode == "host" {
		return false, nil
	}
	monitor := m.find()
	if monitor == nil {
		return false, nil
	}
	if data.State.Paused && c.resume(ctx, name) != nil || c.signal(ctx, name, data) != nil {
		_ = monitor.process.Close()
		return false, fail(ctx, "stop container", name, ctx.Err())
	}
	within, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	// Podman's stop, which comes next, completes the clean-up.
	err = monitor.awaitExit(within, &c.exits, func() bool { return true })
	if within.Err() != nil {
		err = ctx.Err()
	}
	return true, fail(ctx, "stop container", name, err)
}

// signal sends the stop signal of a container. A hundred signals at once would take twice as long as a few at a time,
// because each container that ends makes Podman write to its database.
func (c *Client) signal(ctx context.Context, name string, data *define.InspectContainerData) error {
	wanted := "SIGTERM"
	if data.Config != nil {
		wanted = cmp.Or(data.Config.StopSignal, wanted)
	}
	return c.erase(ctx, c.stops, "signal container", name, func(ctx context.Context) error {
		return containers.Kill(ctx, name, new(containers.KillOptions).WithSignal(wanted))
	})
}

// stopByPodman has Podman stop the container. It refuses to stop a paused one, which is resumed
// first. If ctx ends early, Podman still completes the stop.
func (c *Client) stopByPodman(ctx context.Context, name string, grace time.Duration) error {
	err := c.stop(ctx, name, grace)
	if !errors.Is(err, Other) {
		return err
	}
	seen, inspectErr := c.InspectContainer(ctx, name)
	if inspectErr != nil || !seen.Paused {
		return err
	}
	if err := c.resume(ctx, name); err != nil {
		return err
	}
	return c.stop(ctx, name, grace)
}

func (c *Client) resume(ctx context.Context, name string) error {
	return c.ask(ctx, "resume container", name, func(ctx context.Context) error {
		return containers.Unpause(ctx, name, nil)
	})
}

// stop sends one stop request. It succeeds if the container does not exist.
func (c *Client) stop(ctx context.Context, name string, grace time.Duration) error {
	call := func(ctx context.Context) error {
		return containers.Stop(ctx, name, new(containers.StopOptions).WithTimeout(seconds(grace)))
	}
	var err error
	if grace > 0 { // it waits for the container, so it takes no slot
		err = c.write(ctx, "stop container", name, grace, call)
	} else {
		err = c.erase(ctx, c.stops, "stop container", name, call)
	}
	if errors.Is(err, NotFound) {
		return nil
	}
	return err
}

// seconds rounds up to whole seconds, the unit of Podman's API.
func seconds(d time.Duration) uint {
	if d <= 0 {
		return 0
	}
	return uint(math.Ceil(d.Seconds()))
}
