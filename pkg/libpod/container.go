package libpod

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/containers/podman/v5/pkg/bindings"
	"github.com/containers/podman/v5/pkg/bindings/containers"
	entities "github.com/containers/podman/v5/pkg/domain/entities/types"
	"github.com/containers/podman/v5/pkg/specgen"
)

// InitContainer makes the container's namespaces and its process, but does not let
// that run the program yet, and returns its process id on the host. A container that
// is set up already or runs is success. What keeps it from being set up is what keeps
// it from being started, so the classes are those of StartContainer. StopContainer
// undoes it.
func (c *containerAPI) InitContainer(ctx context.Context, name string) (pid int, err error) {
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
func (c *containerAPI) StartContainer(ctx context.Context, name string) error {
	return c.mutate(ctx, "start container", name, func(ctx context.Context) error {
		return containers.Start(ctx, name, nil)
	})
}

// StopContainer sends the container's stop signal and, after grace, SIGKILL; it
// returns when the container stopped. grace is rounded up to whole seconds; 0
// means SIGKILL at once. A container that is absent or does not run is success;
// a paused one, which Podman refuses to stop, is resumed first. When ctx ends
// early, Podman still carries the stop through.
func (c *containerAPI) StopContainer(ctx context.Context, name string, grace time.Duration) error {
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

func (c *containerAPI) stop(ctx context.Context, name string, grace time.Duration) error {
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
func (c *containerAPI) RemoveContainer(ctx context.Context, name, taskID string) error {
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
func (c *containerAPI) remove(ctx context.Context, id string) error {
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
func (c *inspectAPI) WaitContainer(ctx context.Context, name string) error {
	err := c.ask(ctx, "wait for container", name, func(ctx context.Context) error {
		_, err := containers.Wait(ctx, name, new(containers.WaitOptions).WithInterval(waitInterval))
		return err
	})
	if errors.Is(err, NotFound) {
		return nil
	}
	return err
}

// CreateContainer creates the container, or adopts one with the same name, task
// and specification, and returns its id.
//
// Classes to expect: Conflict, NoImage (500 on 4.3.1, 404 later), InvalidSpec,
// NotFound (the pod).
func (c *containerAPI) CreateContainer(ctx context.Context, s ContainerSpec) (string, error) {
	root, err := c.runsAsRoot(ctx, s)
	if err != nil {
		return "", err
	}
	spec, err := containerSpec(s, root)
	if err != nil {
		return "", fail(ctx, "create container", s.Name, err)
	}
	if s.Bridge != nil {
		if err := c.networks.place(ctx, spec, *s.Bridge); err != nil {
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
func (c *containerAPI) runsAsRoot(ctx context.Context, s ContainerSpec) (bool, error) {
	if s.User != "" || s.Image == "" { // the latter is refused later
		return isRoot(s.User), nil
	}
	if user, known := c.users.Load(s.Image); known {
		return isRoot(user.(string)), nil
	}
	image, err := c.images.Image(ctx, s.Image)
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
func (c *containerAPI) sendContainer(ctx context.Context, spec *specgen.SpecGenerator) (string, error) {
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
func (c *containerAPI) adoptContainer(ctx context.Context, s ContainerSpec, spec string, conflict error) (string, error) {
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
func (c *containerAPI) freeName(ctx context.Context, name string) error {
	if err := c.remove(ctx, name); err != nil {
		return err
	}
	return &Error{Op: "create container", Object: name, Class: Temporary, Cause: "Podman was interrupted in an earlier create and its storage held the name; the remains are removed now"}
}

// PauseContainer freezes all that runs in the container. One that is paused is
// success; one that does not run is NotRunning.
func (c *containerAPI) PauseContainer(ctx context.Context, name string) error {
	return c.freeze(ctx, "pause container", name, true, func(ctx context.Context) error {
		return containers.Pause(ctx, name, nil)
	})
}

// UnpauseContainer lets a paused container go on. One that is not paused is success.
func (c *containerAPI) UnpauseContainer(ctx context.Context, name string) error {
	return c.freeze(ctx, "resume container", name, false, func(ctx context.Context) error {
		return containers.Unpause(ctx, name, nil)
	})
}

// freeze makes a call and takes its failure for success where the container is as
// wanted: Podman refuses to do it twice.
func (c *containerAPI) freeze(ctx context.Context, op, name string, paused bool, fn func(context.Context) error) error {
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
