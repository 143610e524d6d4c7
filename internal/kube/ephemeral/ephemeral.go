package ephemeral

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/podtask/podtask/internal/define"
	"github.com/podtask/podtask/internal/engine"
	"github.com/podtask/podtask/internal/engine/facts/conn"
	"github.com/podtask/podtask/internal/engine/facts/messages"
	"github.com/podtask/podtask/internal/engine/facts/taskspec"
	"github.com/podtask/podtask/internal/engine/network/hostsfile"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/sleep"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// label is the label of a container that is not one of its task's definition.
const label = "podtask.ephemeral"

// Request is an ephemeral container that is to run.
type Request struct {
	// Task is the ID of the task of the Pod.
	Task string
	Name string
	// Index is its place among the ephemeral containers of the Pod, which never changes.
	Index int
	// Target is the container of the Pod whose processes it sees; empty for none.
	Target string
	// Definition is a Pod whose only container it is, with the objects that the Pod refers to.
	Definition []byte
}

// State is the state of an ephemeral container.
type State struct {
	// Exists: it was created. The other members are zero before.
	Exists, Running bool
	ID, ImageID     string
	// StartedAt is zero if it was never started, FinishedAt unless it has ended.
	StartedAt, FinishedAt time.Time
	ExitCode              int
	OOMKilled             bool
	// Message is its termination message.
	Message string
}

// Errors of Start that more attempts do not change.
var (
	// ErrInvalid is the error for a container that this host cannot run.
	ErrInvalid = errors.New("it cannot run on this node")
	// ErrCommand is the error for a command that the container does not have or cannot run.
	ErrCommand = errors.New("its command cannot be started")
)

// ErrImage is the error if the image is not there yet.
var ErrImage = errors.New("its image cannot be had")

// Podman lists the calls of Podman that this package makes.
type Podman interface {
	InspectContainer(ctx context.Context, name string) (libpod.Observed, error)
	CreateContainer(ctx context.Context, s libpod.ContainerSpec) (libpod.Observed, error)
	StartContainer(ctx context.Context, name string) error
	StopContainer(ctx context.Context, name string, grace time.Duration) error
	WaitContainer(ctx context.Context, name string) error
}

// Containers are the ephemeral containers of the tasks of this user. It may be used concurrently.
type Containers struct {
	engine   *engine.Engine
	stateDir string
	read     func(define.Document, define.Changes) (define.Definition, error)
	podman   func(context.Context) (Podman, error)
}

// New returns the ephemeral containers of the tasks of an engine, whose state directory is stateDir.
func New(e *engine.Engine, stateDir string, r define.Reader) *Containers {
	return &Containers{engine: e, stateDir: stateDir, read: r.Read, podman: conn.As[Podman](e.Podman)}
}

// ContainerName is Podman's name of an ephemeral container of a task.
func ContainerName(s lifecycle.State, name string) string {
	return taskspec.PodName(s) + "-" + name
}

// Start starts a container that was never started, and returns its state. It is created first if it does
// not exist. The images that it needs are pulled.
func (c *Containers) Start(ctx context.Context, r Request) (State, error) {
	s, err := c.engine.Tasks.Get(r.Task)
	if err != nil {
		return State{}, err
	}
	podman, err := c.podman(ctx)
	if err != nil {
		return State{}, err
	}
	name := ContainerName(s, r.Name)
	seen, err := podman.InspectContainer(ctx, name)
	if err != nil {
		return State{}, err
	}
	if seen.Status != libpod.Absent && seen.TaskID != s.ID {
		return State{}, fmt.Errorf("%w: Podman has a container %s that is not of this Pod", ErrInvalid, name)
	}
	if seen.Status == libpod.Absent {
		spec, err := c.prepare(ctx, podman, s, r)
		if err != nil {
			return State{}, err
		}
		if seen, err = podman.CreateContainer(ctx, spec); err != nil {
			return State{}, invalid(err)
		}
	}
	if seen.Status == libpod.Created {
		if err := podman.StartContainer(ctx, name); err != nil {
			return c.stateOf(s, r.Name, seen), invalid(err)
		}
	}
	return c.look(ctx, podman, s, r.Name)
}

// invalid marks errors that another attempt would only repeat.
func invalid(err error) error {
	switch {
	case errors.Is(err, libpod.CommandNotFound), errors.Is(err, libpod.CommandNotExecutable):
		return fmt.Errorf("%w: %w", ErrCommand, err)
	case errors.Is(err, libpod.InvalidSpec), errors.Is(err, libpod.RootUser), errors.Is(err, libpod.Conflict):
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return err
}

// prepare makes what the container needs before it can be created, and returns its specification.
func (c *Containers) prepare(ctx context.Context, podman Podman, s lifecycle.State, r Request) (spec libpod.ContainerSpec, err error) {
	d, err := c.read(define.Document{Name: "ephemeral container", Source: r.Definition}, define.Changes{Lenient: true})
	if err == nil {
		err = d.Err()
	}
	if err == nil && len(d.Task.Containers) != 1 {
		err = errors.New("its definition is not one of a single container")
	}
	if err != nil {
		return spec, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	task, err := d.Prepare(ctx, c.engine.Secrets)
	if err != nil {
		return spec, err
	}
	image, err := c.bring(ctx, s, task)
	if err != nil {
		return spec, fmt.Errorf("%w: %w", ErrImage, err)
	}
	s, i, err := beside(s, task, r.Index)
	if err != nil {
		return spec, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err := c.engine.Secrets.Ensure(ctx, only(s, i)); err != nil {
		return spec, err
	}
	spec = taskspec.Container(s, i, image)
	spec.Labels[label] = "true"
	for k, m := range s.Task.Containers[i].Extensions.Kube.Images {
		if spec.Images[k].Image, err = c.engine.Puller.Mounted(ctx, s, m); err != nil {
			return spec, fmt.Errorf("%w: image mounted at %s: %w", ErrImage, m.Path, err)
		}
	}
	err = errors.Join(hostsfile.In(c.stateDir).Mount(&spec, s, i), messages.In(c.stateDir).Mount(&spec, s, i))
	if err == nil && r.Target != "" && s.Task.PIDMode == taskdef.PIDPrivate {
		spec.PIDPath, err = processesOf(ctx, podman, s, r.Target)
	}
	return spec, err
}

// bring makes sure that the image is in local storage, with the credentials of the container's Pod.
func (c *Containers) bring(ctx context.Context, s lifecycle.State, task taskdef.Task) (id string, err error) {
	alone := lifecycle.New(s.ID, s.Name, task, s.Options, s.CreatedAt)
	brought, err := c.engine.Puller.Bring(ctx, alone, task.Containers[0].Image)
	return brought.ID, err
}

// beside returns the state of a task with the container of another one added at the end, and its index.
// The volumes that it mounts are those of the task.
func beside(s lifecycle.State, from taskdef.Task, place int) (lifecycle.State, int, error) {
	one := from.Containers[0]
	one.Restart, one.DependsOn, one.Essential = nil, nil, false
	var errs []error
	volumes := slices.Clone(s.Task.Volumes)
	for _, m := range from.Mounts(0) {
		named := func(v taskdef.Volume) bool { return v.Name == m.Volume }
		if slices.ContainsFunc(volumes, named) {
			continue
		}
		k := slices.IndexFunc(from.Volumes, named)
		if k < 0 || from.Volumes[k].Kind != taskdef.VolumeBind {
			errs = append(errs, fmt.Errorf("the volume mounted at %s is mounted by no container of the Pod", m.Path))
			continue
		}
		volumes = append(volumes, from.Volumes[k])
	}
	s, i := With(s, one, place)
	s.Task.Volumes = volumes
	return s, i, errors.Join(errs...)
}

// With returns a state as if the definition of its task had another container after its own ones, at a
// place among those that were added. Podman's names of all follow from it.
func With(s lifecycle.State, c taskdef.Container, place int) (_ lifecycle.State, index int) {
	index = len(s.Task.Containers) + place
	all := make([]taskdef.Container, index+1)
	copy(all, s.Task.Containers)
	all[index] = c
	states := make([]lifecycle.Container, index+1)
	copy(states, s.Containers)
	s.Task.Containers, s.Containers = all, states
	return s, index
}

// only returns a state in which no other container than one has secrets.
func only(s lifecycle.State, index int) lifecycle.State {
	all := make([]taskdef.Container, len(s.Task.Containers))
	all[index] = s.Task.Containers[index]
	s.Task.Containers = all
	return s
}

// processesOf is the PID namespace of a container that runs.
func processesOf(ctx context.Context, podman Podman, s lifecycle.State, target string) (path string, err error) {
	i, ok := s.Task.Index(target)
	if !ok {
		return "", fmt.Errorf("%w: the Pod has no container %q", ErrInvalid, target)
	}
	seen, err := podman.InspectContainer(ctx, taskspec.ContainerName(s, i))
	switch {
	case err != nil:
		return "", err
	case seen.Status != libpod.Running || seen.PID == 0:
		return "", fmt.Errorf("container %s, whose processes it is to see, does not run", target)
	}
	return fmt.Sprintf("/proc/%d/ns/pid", seen.PID), nil
}

// Await waits until a container has ended or was removed, and returns its state.
func (c *Containers) Await(ctx context.Context, task, name string) (State, error) {
	s, err := c.engine.Tasks.Get(task)
	if err != nil {
		return State{}, err
	}
	podman, err := c.podman(ctx)
	if err != nil {
		return State{}, err
	}
	for {
		waited := podman.WaitContainer(ctx, ContainerName(s, name)) // a hint
		now, err := c.look(ctx, podman, s, name)
		if err != nil || !now.Running {
			return now, err
		}
		if waited != nil {
			return now, waited
		}
		if !sleep.For(ctx, time.Second) { // for a Podman that answers waits too early
			return now, context.Cause(ctx)
		}
	}
}

// Stop stops a container, which is killed after the grace period. It succeeds if the container does not run.
func (c *Containers) Stop(ctx context.Context, task, name string, grace time.Duration) error {
	s, err := c.engine.Tasks.Get(task)
	if err != nil {
		return err
	}
	podman, err := c.podman(ctx)
	if err != nil {
		return err
	}
	seen, err := podman.InspectContainer(ctx, ContainerName(s, name))
	if err != nil || seen.Status != libpod.Running || seen.TaskID != s.ID {
		return err
	}
	return podman.StopContainer(ctx, seen.ID, grace)
}

func (c *Containers) look(ctx context.Context, podman Podman, s lifecycle.State, name string) (State, error) {
	seen, err := podman.InspectContainer(ctx, ContainerName(s, name))
	return c.stateOf(s, name, seen), err
}

func (c *Containers) stateOf(s lifecycle.State, name string, seen libpod.Observed) State {
	out := State{
		Exists: seen.Status != libpod.Absent && seen.TaskID == s.ID, Running: seen.Status == libpod.Running, ID: seen.ID, ImageID: seen.ImageID,
		StartedAt: seen.StartedAt, FinishedAt: seen.FinishedAt, ExitCode: seen.ExitCode, OOMKilled: seen.OOMKilled,
	}
	if !out.Exists {
		return State{}
	}
	if seen.Status == libpod.Exited {
		one := taskdef.Container{Name: name}
		one.Extensions.Kube.MessagePath = "/dev/termination-log" // any: the file outside is what is read
		with, i := With(s, one, 0)
		out.Message, _ = messages.In(c.stateDir).Read(with, i)
	}
	return out
}
