package libpod

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/containers/podman/v5/libpod/define"
	"github.com/containers/podman/v5/pkg/bindings/containers"
)

// Status is what Podman says about a container.
type Status int

// The statuses. Absent is the zero value.
const (
	// Absent: there is no such container.
	Absent Status = iota
	// Created: never started, or its start failed (Podman then keeps this state).
	Created
	// Running includes paused and stopping containers.
	Running
	// Exited: ran and ended.
	Exited
	// Removing: Podman is about to delete it, or gave up doing so.
	Removing

	numStatus
)

var statusNames = [numStatus]string{Absent: "absent", Created: "created", Running: "running", Exited: "exited", Removing: "removing"}

// String returns the status in lower case.
func (s Status) String() string {
	if s < 0 || s >= numStatus {
		return fmt.Sprintf("status(%d)", int(s))
	}
	return statusNames[s]
}

// Observed is a container as Podman sees it at one moment.
type Observed struct {
	Status Status
	// Paused: Running, but frozen.
	Paused bool
	// Foreign: the container exists and lacks TaskLabel. Leave it alone.
	Foreign bool
	// TaskID is the value of TaskLabel.
	TaskID string
	ID     string
	// ImageID is the id of the image's configuration, without "sha256:".
	ImageID string
	// ImageDigest is the digest of the image's manifest.
	ImageDigest string
	// PID is the main process on the host; 0 unless Running, or Created and set up by
	// InitContainer.
	PID int
	// StartedAt and FinishedAt are of the last run. FinishedAt is zero unless Exited,
	// and then not before StartedAt.
	StartedAt, FinishedAt time.Time
	// ExitCode is of the last run, 128+n after signal n; 0 unless Exited.
	ExitCode int
	// OOMKilled: the kernel killed a process of the container for memory. That need
	// not have been the main one.
	OOMKilled bool
	// Ports are those that the container publishes itself, none of them 0, sorted by
	// container port.
	Ports []Port
	// Addresses are the container's own on networks; none unless it is set up.
	Addresses []netip.Addr
	// Error is Podman's own word on a failed start; always empty on 4.3.1.
	Error string
}

// InspectContainer returns what Podman knows; a container that does not exist is
// not an error but Absent.
func (c *Client) InspectContainer(ctx context.Context, name string) (Observed, error) {
	data, err := c.inspect(ctx, name)
	switch {
	case errors.Is(err, NotFound):
		return Observed{}, nil
	case err != nil:
		return Observed{}, err
	}
	return observe(data), nil
}

func (c *Client) inspect(ctx context.Context, name string) (data *define.InspectContainerData, err error) {
	err = c.ask(ctx, "inspect container", name, func(ctx context.Context) (err error) {
		data, err = containers.Inspect(ctx, name, nil)
		return err
	})
	// Podman also finds a container by a prefix of its id.
	if err == nil && data.Name != name && data.ID != name {
		return nil, &Error{Op: "inspect container", Object: name, Class: NotFound, Cause: "no such container"}
	}
	return data, err
}

// observe translates Podman's report. What belongs to an exit is left out until
// there was one: Podman reports code 0 for a container that never ran, and the
// times and code of the run before for one that runs again.
func observe(data *define.InspectContainerData) Observed {
	task, ours := labelsOf(data)[TaskLabel]
	o := Observed{Foreign: !ours, TaskID: task, ID: data.ID, ImageID: data.Image, ImageDigest: data.ImageDigest, Addresses: addressesOf(data)}
	o.Ports, _ = portsOf(data) // those of an unknown form are none of ours
	st := data.State
	if st == nil {
		o.Status = Created
		return o
	}
	o.Status = statusFrom(st.Status)
	o.Paused = st.Status == define.ContainerStatePaused.String()
	o.PID = st.Pid
	o.StartedAt = zeroEpoch(st.StartedAt)
	o.OOMKilled, o.Error = st.OOMKilled, oneLine(st.Error)
	// After the power failed Podman says exited with code 0, and no time of it:
	// nobody has seen the end.
	if o.Status == Exited && !o.StartedAt.IsZero() && zeroEpoch(st.FinishedAt).IsZero() {
		o.Status = Created
	}
	if o.Status == Exited {
		o.ExitCode, o.FinishedAt = int(st.ExitCode), zeroEpoch(st.FinishedAt)
		// Two clocks: Podman notes the start after conmon may have noted the end.
		if o.FinishedAt.Before(o.StartedAt) {
			o.FinishedAt = o.StartedAt
		}
	}
	if o.Status != Running && st.Status != setUp {
		o.PID = 0
	}
	return o
}

// addressesOf returns the addresses of a container on its networks, sorted.
func addressesOf(data *define.InspectContainerData) (found []netip.Addr) {
	if data.NetworkSettings == nil {
		return nil
	}
	for _, n := range data.NetworkSettings.Networks {
		for _, text := range []string{n.IPAddress, n.GlobalIPv6Address} {
			if a, err := netip.ParseAddr(text); err == nil {
				found = append(found, a)
			}
		}
	}
	slices.SortFunc(found, netip.Addr.Compare)
	return found
}

// setUp is Podman's word for a container that has namespaces and a process, which does
// not run the program yet.
const setUp = "initialized"

// statusFrom maps Podman's state. Configured and initialized are before the first
// process; stopped is an exit that is not cleaned up yet.
func statusFrom(state string) Status {
	switch state {
	case "running", "paused", "stopping":
		return Running
	case "exited", "stopped":
		return Exited
	case "removing":
		return Removing
	}
	return Created
}

// zeroEpoch makes Go's zero time of the other zero that Podman uses.
func zeroEpoch(t time.Time) time.Time {
	if t.Unix() <= 0 {
		return time.Time{}
	}
	return t
}
