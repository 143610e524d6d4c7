package libpod

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/containers/podman/v5/libpod/define"
	"github.com/containers/podman/v5/pkg/bindings"
	"github.com/containers/podman/v5/pkg/bindings/containers"
	entities "github.com/containers/podman/v5/pkg/domain/entities/types"
	"github.com/containers/podman/v5/pkg/specgen"
)

// infraGrace is more than a pause process ever needs to end.
const infraGrace = 5 * time.Second

// strayGrace is for a container that should not run any more (Podman's default).
const strayGrace = 10 * time.Second

// waitInterval is how often a 4.x server looks whether the container ended; its
// default is 250 ms.
const waitInterval = "100ms"

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

// labels rebuilds as much of the labels as ownedBy looks at.
func (o Observed) labels() map[string]string {
	if o.Foreign {
		return nil
	}
	return map[string]string{TaskLabel: o.TaskID}
}

// CreateContainer creates the container, or adopts one with the same name, task
// and specification, and returns its id.
//
// Classes to expect: Conflict, NoImage (500 on 4.3.1, 404 later), InvalidSpec,
// NotFound (the pod).
func (c *Client) CreateContainer(ctx context.Context, s ContainerSpec) (string, error) {
	root, err := c.runsAsRoot(ctx, s)
	if err != nil {
		return "", err
	}
	spec, err := containerSpec(s, root)
	if err != nil {
		return "", fail(ctx, "create container", s.Name, err)
	}
	if s.Bridge != nil {
		if err := c.place(ctx, spec, *s.Bridge); err != nil {
			return "", err
		}
	}
	var id string
	err = c.create(ctx, "create container", s.Name, func(ctx context.Context) (err error) {
		id, err = c.sendContainer(ctx, spec)
		return err
	})
	if errors.Is(err, Conflict) {
		return c.adoptContainer(ctx, s, spec.Labels[specLabel], err)
	}
	return id, err
}

// runsAsRoot reports whether the container's user, which may be the image's, is
// root.
func (c *Client) runsAsRoot(ctx context.Context, s ContainerSpec) (bool, error) {
	if s.User != "" || s.Image == "" { // the latter is refused later
		return isRoot(s.User), nil
	}
	if user, known := c.users.Load(s.Image); known {
		return isRoot(user.(string)), nil
	}
	image, err := c.Image(ctx, s.Image)
	if err != nil {
		var e *Error
		if errors.As(err, &e) && e.Class == NotFound {
			e.Op, e.Object, e.Class = "create container", s.Name, NoImage
		}
		return false, err
	}
	if s.Image == image.ID { // a name may be another image's tomorrow
		c.users.Store(image.ID, image.User)
	}
	return isRoot(image.User), nil
}

// sendContainer makes the request. One with the host's IPC namespace is made by
// hand: Podman (4.3.1) puts its default size of /dev/shm into every request that does
// not say null, and then refuses that size together with the namespace.
func (c *Client) sendContainer(ctx context.Context, spec *specgen.SpecGenerator) (string, error) {
	if spec.IpcNS.NSMode != specgen.Host {
		made, err := containers.CreateWithSpec(ctx, spec, nil)
		return made.ID, err
	}
	body, err := withNull(spec, "shm_size")
	if err != nil {
		return "", err
	}
	conn, err := bindings.GetClient(ctx)
	if err != nil {
		return "", err
	}
	response, err := conn.DoRequest(ctx, bytes.NewReader(body), http.MethodPost, "/containers/create", nil, nil)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var made entities.ContainerCreateResponse
	return made.ID, response.Process(&made)
}

// withNull encodes v with a member set to null.
func withNull(v any, member string) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &members); err != nil {
		return nil, err
	}
	members[member] = json.RawMessage("null")
	return json.Marshal(members)
}

// adoptContainer decides whether the container that stands in the way is the one
// asked for. conflict is what Podman said to its creation.
func (c *Client) adoptContainer(ctx context.Context, s ContainerSpec, spec string, conflict error) (string, error) {
	found, err := c.inspect(ctx, s.Name)
	switch {
	case errors.Is(err, NotFound) && heldByStorage(conflict):
		return "", c.freeName(ctx, s.Name)
	case errors.Is(err, NotFound):
		return "", conflict // the name is a pod's, or the container went away just now
	case err != nil:
		return "", err
	}
	if err := adoptable(labelsOf(found), s.TaskID, spec); err != nil {
		return "", fail(ctx, "adopt container", s.Name, err)
	}
	return found.ID, nil
}

// heldByStorage reports whether a name is taken in Podman's storage and not, or
// not only, among its containers: what a service leaves that was killed in the
// middle of a create. (4.3.1 to 5.x, the words of libpod.)
func heldByStorage(conflict error) bool {
	var e *Error
	return errors.As(conflict, &e) && strings.Contains(e.Cause, "creating container storage")
}

// freeName removes what holds a name in Podman's storage though there is no
// container; Podman's removal looks there first. The create may succeed after
// that, which class Temporary says.
func (c *Client) freeName(ctx context.Context, name string) error {
	if err := c.remove(ctx, name); err != nil {
		return err
	}
	return &Error{Op: "create container", Object: name, Class: Temporary, Cause: "Podman was interrupted in an earlier create and its storage held the name; the remains are removed now"}
}

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

func labelsOf(data *define.InspectContainerData) map[string]string {
	if data.Config == nil {
		return nil
	}
	return data.Config.Labels
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
