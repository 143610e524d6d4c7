package libpod

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/containers/podman/v5/pkg/bindings"
	"github.com/containers/podman/v5/pkg/bindings/containers"
	entities "github.com/containers/podman/v5/pkg/domain/entities/types"
	"github.com/containers/podman/v5/pkg/specgen"
)

// InitContainer creates the container's namespaces and its process, which does not run the
// program yet, and returns the new state of the container. It succeeds if the container is
// initialized or running already. It fails for the same reasons and with the same classes as
// StartContainer. StopContainer reverts it. on is the container's ContainerSpec.Own: a
// container that has run, and whose address is still assigned, gets another address on that
// network (see Observed.Missing).
func (c *Client) InitContainer(ctx context.Context, name string, on OwnNetwork) (Observed, error) {
	initialize := func() error {
		return c.mutate(ctx, "initialize container", name, func(ctx context.Context) error {
			return containers.ContainerInit(ctx, name, nil)
		})
	}
	initErr := initialize()
	if heldAddress(initErr) && c.moveAddress(ctx, name, on) == nil {
		initErr = initialize()
	}
	seen, err := c.InspectContainer(ctx, name)
	if err == nil && seen.Disconnected && len(on.Members) > 0 {
		if err := c.StopContainer(ctx, name, 0); err != nil {
			return Observed{}, err
		}
		if err := c.connect(ctx, name, on); err != nil {
			return Observed{}, err
		}
		initErr = initialize()
		seen, err = c.InspectContainer(ctx, name)
	}
	if err == nil && seen.PID == 0 && initErr == nil {
		// Podman 4 cleans up after an ended process in a separate process. If that is late, it
		// ends the new process.
		initErr = initialize()
		seen, err = c.InspectContainer(ctx, name)
	}
	switch {
	case err != nil:
		return Observed{}, err
	case seen.PID == 0 && initErr == nil:
		return Observed{}, &Error{Op: "initialize container", Object: name, Class: Temporary, Cause: "it has no process"}
	case seen.PID == 0:
		return Observed{}, initErr
	}
	return seen, nil
}

// StartContainer starts the container and returns when its process runs. It succeeds if
// the container is running already. If the command cannot be run, the class is
// CommandNotFound or CommandNotExecutable and the container stays Created. With
// ContainerSpec.Init the start succeeds in that case, and the init process exits with 1. With
// class Interrupted the program has not run, because an earlier call was interrupted: remove
// the container.
func (c *Client) StartContainer(ctx context.Context, name string) error {
	err := c.mutate(ctx, "start container", name, func(ctx context.Context) error {
		return containers.Start(ctx, name, nil)
	})
	refused, crash := refusedByRuntime(err), crashed(err)
	if !refused && !crash {
		return err
	}
	seen, inspectErr := c.InspectContainer(ctx, name)
	switch {
	case inspectErr != nil || seen.Status != Created:
		return err
	case crash && (seen.PID == 0 || beforeProgram(seen.PID)):
		return interrupted(err)
	case refused && seen.PID != 0 && exists(seen.PID):
		return &Error{Op: "start container", Object: name, Class: Other, Cause: UnrecordedStart}
	}
	return err
}

// beforeProgram reports whether a container's process is still the runtime's init process, which
// waits for the start, and not the program.
func beforeProgram(pid int) bool {
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	return err == nil && ofRuntime(strings.Split(string(line), "\x00"))
}

// ofRuntime reports whether a command line is that of the init process of crun or runc.
func ofRuntime(args []string) bool {
	switch filepath.Base(args[0]) {
	case "crun":
		return slices.Contains(args, "create") && slices.Contains(args, "--bundle")
	case "runc":
		return len(args) > 1 && args[1] == "init"
	}
	return false
}

// UnrecordedStart is the cause of the error of a start that the OCI runtime refuses because
// the container runs already: Podman's service ended after it had started the container and
// before it recorded that (docs/upstream#a-kill-during-a-start-leaves-a-container-that-does-not-start).
const UnrecordedStart = "Podman's service ended while it started this container, and does not know that it runs; " +
	"its program may have begun, so it is stopped and not started a second time: run the task again"

// RemoveContainer removes the task's container and its anonymous volumes, and kills it if
// it is running. It succeeds if the container does not exist, and returns Conflict if the
// container does not belong to the task.
func (c *Client) RemoveContainer(ctx context.Context, name, taskID string) error {
	seen, err := c.InspectContainer(ctx, name)
	if withoutStorage(err) {
		return c.removeListed(ctx, name, taskID)
	}
	if err != nil || seen.Status == Absent {
		return err
	}
	if err := ownedBy(seen.labels(), taskID); err != nil {
		return fail(ctx, "remove container", name, err)
	}
	// By ID: the name may belong to another container by now.
	return c.remove(ctx, seen.ID)
}

// withoutStorage reports whether a call for a container or a pod failed because the removal of a container was cut off
// between its storage, or the layer of that, and its entry in Podman's database. Podman cannot inspect it, but lists and removes it.
func withoutStorage(err error) bool {
	var e *Error
	return errors.As(err, &e) && (e.Class == Interrupted && e.Cause == storageGone || strings.Contains(e.Cause, removedLayer))
}

// removeListed removes the task's container of that name, which cannot be inspected.
func (c *Client) removeListed(ctx context.Context, name, taskID string) error {
	found, err := c.list(ctx, map[string][]string{"name": {"^" + name + "$"}, "label": {TaskLabel + "=" + taskID}})
	for _, m := range found {
		err = errors.Join(err, c.remove(ctx, m.ID))
	}
	return err
}

// list lists containers in any state.
func (c *Client) list(ctx context.Context, filters map[string][]string) (found []entities.ListContainer, err error) {
	err = c.ask(ctx, "list containers", "", func(ctx context.Context) (err error) {
		found, err = containers.List(ctx, new(containers.ListOptions).WithAll(true).WithFilters(filters))
		return err
	})
	return found, err
}

// remove removes a container in any state. Without volumes=true Podman would keep the
// anonymous volumes created for the image's VOLUME instructions; named volumes are always
// kept.
func (c *Client) remove(ctx context.Context, id string) error {
	c.made.Delete(id)
	err := c.clearing(ctx, func() error { return c.removeOnce(ctx, id) })
	if errors.Is(err, NotFound) {
		return nil
	}
	return err
}

func (c *Client) removeOnce(ctx context.Context, id string) error {
	return c.erase(ctx, c.removals, "remove container", id, func(ctx context.Context) error {
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
}

// waitInterval is the polling interval of a 4.x server; its default is 250 ms.
const waitInterval = "100ms"

// WaitContainer returns when the container has stopped or was removed, or when conmon has
// ended. Its return is a hint: call SeenExit or InspectContainer next. Call it only after
// StartContainer succeeded, because it returns immediately for a container that was never
// started.
func (c *Client) WaitContainer(ctx context.Context, name string) error {
	defer c.need.wait()()
	// The conmon of the latest inspection is good enough: the conmon of an earlier run no
	// longer exists.
	if m, ok := c.monitored.LoadAndDelete(name); ok && c.awaitMonitor(ctx, name, m.(monitored)) {
		return fail(ctx, "wait for container", name, ctx.Err())
	}
	data, err := c.inspect(ctx, name)
	switch {
	case errors.Is(err, NotFound):
		return nil
	case err != nil:
		return err
	case data.State == nil || statusFrom(data.State.Status) != Running:
		return nil
	}
	if m, ok := monitoredBy(data); ok && c.awaitMonitor(ctx, name, m) {
		return fail(ctx, "wait for container", name, ctx.Err())
	}
	return c.askWait(ctx, name)
}

// awaitMonitor waits for the exit of a container with conmon, until ctx ends. It returns
// false at once if it cannot.
func (c *Client) awaitMonitor(ctx context.Context, name string, m monitored) (waited bool) {
	monitor := m.find()
	if monitor == nil {
		return false
	}
	final := func() bool { return c.exitedByItself(ctx, name, m.id) }
	return monitor.awaitExit(ctx, &c.exits, final) == nil || ctx.Err() != nil
}

// exitedByItself reports whether a container has exited without being stopped with Podman, as
// a restart by a user does. Podman 4.6 and older do not report that.
func (c *Client) exitedByItself(ctx context.Context, name, id string) bool {
	data, err := c.inspect(ctx, id)
	if err != nil || data.State == nil || statusFrom(data.State.Status) != Exited || data.State.StoppedByUser {
		return false
	}
	c.exited.Store(name, exit{observe(data), time.Now()})
	return true
}

// exit is an inspection of a container that has exited.
type exit struct {
	seen Observed
	at   time.Time
}

// freshExit is the age up to which an exit stands for an inspection.
const freshExit = time.Second

// SeenExit returns the inspection with which WaitContainer found, within the last second, that the run of a container that
// began at started has exited, and forgets it. The caller need not inspect the container then.
func (c *Client) SeenExit(name string, started time.Time) (o Observed, ok bool) {
	found, ok := c.exited.LoadAndDelete(name)
	if !ok {
		return Observed{}, false
	}
	e := found.(exit)
	return e.seen, e.seen.StartedAt.Equal(started) && time.Since(e.at) < freshExit
}

// askWait waits with Podman's own call. It sends no condition: with "healthy" the reply looks
// inverted on 5.x, and 4.3.1 rejects it.
func (c *Client) askWait(ctx context.Context, name string) error {
	err := c.await(ctx, "wait for container", name, func(ctx context.Context) error {
		_, err := containers.Wait(ctx, name, new(containers.WaitOptions).WithInterval(waitInterval))
		return err
	})
	if errors.Is(err, NotFound) {
		return nil
	}
	return err
}

// CreateContainer creates the container, or adopts an existing one with the same name,
// task and specification. For a new container it returns only the ID, the task and the status
// Created; InspectContainer returns its ports.
//
// Classes to expect: Conflict, NoImage (500 on 4.3.1, 404 later), InvalidSpec,
// NotFound (the pod).
func (c *Client) CreateContainer(ctx context.Context, s ContainerSpec) (Observed, error) {
	image, err := c.imageConfig(ctx, s)
	user := cmp.Or(s.User, image.user)
	if err == nil {
		err = allowed(s, user)
	}
	if err != nil {
		return Observed{}, err
	}
	made := s
	if s.Group != "" && s.User == "" {
		name, _, _ := strings.Cut(user, ":")
		made.User = cmp.Or(name, "0") + ":" + s.Group
	}
	if s.EmptyCommand && len(s.EntryPoint) == 0 && len(s.Command) == 0 {
		// Podman drops the command of an image only with an entry point that is given.
		if made.EntryPoint = image.entryPoint; len(made.EntryPoint) == 0 {
			return Observed{}, &Error{Op: "create container", Object: s.Name, Class: InvalidSpec, Cause: "emptyCommand is set, and the image has no entry point to run; give a command"}
		}
	}
	spec, err := containerSpec(made, isRoot(user), c.version)
	if err != nil {
		return Observed{}, fail(ctx, "create container", s.Name, err)
	}
	spec.OOMScoreAdj = c.oomScoreAdj(ctx, s)
	shield(spec.Labels, image.reserved)
	if s.Own != nil && spec.NetNS.NSMode == specgen.Bridge {
		if err := c.place(ctx, spec, *s.Own); err != nil {
			return Observed{}, err
		}
	}
	var id string
	err = c.mutate(ctx, "create container", s.Name, func(ctx context.Context) (err error) {
		id, err = c.sendContainer(ctx, spec)
		return err
	})
	if errors.Is(err, Conflict) {
		return c.adoptContainer(ctx, s, spec.Labels[specLabel], err)
	}
	if err != nil {
		return Observed{}, err
	}
	c.made.Store(id, s.TaskID)
	return Observed{Status: Created, TaskID: s.TaskID, ID: id}, nil
}

// allowed returns an error if the container must not run as root and the image's user is root
// or may be.
func allowed(s ContainerSpec, user string) error {
	if !s.NonRoot || s.User != "" {
		return nil
	}
	name, _, _ := strings.Cut(user, ":")
	uid, err := strconv.ParseUint(name, 10, 32)
	e := &Error{Op: "create container", Object: s.Name, Class: RootUser}
	switch {
	case isRoot(user) || err == nil && uid == 0:
		e.Cause = "runAsNonRoot is set, and the image runs as root; give runAsUser"
	case err != nil:
		e.Cause = fmt.Sprintf("runAsNonRoot is set, and the user of the image is the name %q, which may be root; give runAsUser", name)
	default:
		return nil
	}
	return e
}

// sendContainer sends the create request. If the container uses the host's IPC namespace,
// the body is edited: Podman 4.3.1 adds its default size of /dev/shm unless the member is
// null, and then rejects the combination of that size and the namespace.
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

// withNull encodes v as JSON with one member set to null.
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

// adoptContainer decides whether the existing container of this name is the one
// requested. conflict is the error of the create.
func (c *Client) adoptContainer(ctx context.Context, s ContainerSpec, spec string, conflict error) (Observed, error) {
	found, err := c.inspect(ctx, s.Name)
	switch {
	case errors.Is(err, NotFound) && heldByStorage(conflict):
		return Observed{}, c.freeName(ctx, s.Name)
	case errors.Is(err, NotFound):
		return Observed{}, conflict // the name belongs to a pod, or the container has just been removed
	case err != nil:
		return Observed{}, err
	}
	if err := adoptable(labelsOf(found), s.TaskID, spec); err != nil {
		return Observed{}, fail(ctx, "adopt container", s.Name, err)
	}
	return seen(found), nil
}

// heldByStorage reports whether the name is taken in Podman's storage rather than by one
// of its containers. A service that is killed during a create leaves such an entry
// (libpod's message in 4.3.1 to 5.x; docs/upstream#a-kill-during-run-keeps-the-name-in-use).
func heldByStorage(conflict error) bool {
	var e *Error
	return errors.As(conflict, &e) && strings.Contains(e.Cause, "creating container storage")
}

// freeName removes an entry of Podman's storage that has the name but no container. Podman's
// removal looks in the storage first. After a success it returns an error with class
// Temporary, because the create may succeed now.
func (c *Client) freeName(ctx context.Context, name string) error {
	if err := c.remove(ctx, name); err != nil {
		return err
	}
	return &Error{Op: "create container", Object: name, Class: Temporary, Cause: "an interrupted create left the name in Podman's storage; the leftover has been removed"}
}

// PauseContainer freezes all processes of the container. It succeeds if the container is
// paused already, and returns NotRunning if it is not running.
func (c *Client) PauseContainer(ctx context.Context, name string) error {
	return c.freeze(ctx, "pause container", name, true, func(ctx context.Context) error {
		return containers.Pause(ctx, name, nil)
	})
}

// UnpauseContainer resumes a paused container. It succeeds if the container is not
// paused.
func (c *Client) UnpauseContainer(ctx context.Context, name string) error {
	return c.freeze(ctx, "resume container", name, false, func(ctx context.Context) error {
		return containers.Unpause(ctx, name, nil)
	})
}

// freeze makes a call and treats its failure as success if the container is in the
// requested state: Podman refuses to pause or resume twice.
func (c *Client) freeze(ctx context.Context, op, name string, paused bool, fn func(context.Context) error) error {
	err := c.ask(ctx, op, name, fn)
	if err == nil {
		return nil
	}
	switch seen, inspectErr := c.InspectContainer(ctx, name); {
	case inspectErr != nil:
		return err
	case seen.Status != Running:
		return &Error{Op: op, Object: name, Class: NotRunning, Cause: "the container is not running"}
	case seen.Paused == paused:
		return nil
	}
	return err
}
