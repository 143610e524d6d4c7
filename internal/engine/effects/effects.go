package effects

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/engine/endpoint"
	"github.com/podtask/podtask/internal/engine/failpoint"
	"github.com/podtask/podtask/internal/engine/imagestore"
	"github.com/podtask/podtask/internal/engine/limits"
	"github.com/podtask/podtask/internal/engine/messages"
	"github.com/podtask/podtask/internal/engine/prober"
	"github.com/podtask/podtask/internal/engine/queue"
	"github.com/podtask/podtask/internal/engine/tasksecrets"
	"github.com/podtask/podtask/internal/engine/taskspec"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/logs/logfiles"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/netns"
	"github.com/podtask/podtask/pkg/ports"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/transient"
)

// Interpreter applies the effects that a task's state machine asks for.
type Interpreter struct {
	Log      *slog.Logger
	StateDir string
	Settings *config.Settings
	Fail     *failpoint.Point
	Podman   func(context.Context) (Podman, error)
	Images   *imagestore.Resolver
	Puller   *imagestore.Puller
	Queue    *queue.Queue
	Ports    *queue.PortHolders
	Slices   *limits.Slices
	Secrets  *tasksecrets.Store
	Metadata *endpoint.Factory
	Prober   *prober.Prober
}

// deadline is how long an operation may take before it counts as failed. The
// numbers are the ECS agent's; stop has its grace on top. Digest and pull share theirs
// with the attempts before; that of a pull is configured.
func deadline(pull time.Duration, s lifecycle.State, e lifecycle.Effect) time.Duration {
	left := func(i int, limit time.Duration) time.Duration {
		if s.Options.Persistent {
			return limit
		}
		return s.Containers[i].Retry.Left(limit, time.Now())
	}
	switch e := e.(type) {
	case lifecycle.ResolveImage:
		return left(e.Index, lifecycle.ResolveLimit)
	case lifecycle.PullImage:
		return left(e.Index, pull)
	case lifecycle.AdmitTask, lifecycle.ReleaseTask:
		return time.Minute
	case lifecycle.CreateContainer, lifecycle.CreateSandbox, lifecycle.RunSandbox:
		return 4 * time.Minute
	case lifecycle.StartContainer:
		return endpoint.StartLimit
	case lifecycle.StopContainer:
		return e.Grace + 2*time.Minute
	case lifecycle.InspectContainer, lifecycle.InspectSandbox:
		return 30 * time.Second
	case lifecycle.StopSandbox:
		return 2 * time.Minute
	case lifecycle.RunHook:
		return e.Limit + 30*time.Second
	case lifecycle.CheckHealth:
		// Its own time-out is Step's business; this only bounds a hung Podman.
		return time.Hour
	default:
		return 5 * time.Minute
	}
}

// Apply does what an effect asks for, in the state it came with, and answers. It is
// synchronous and safe for concurrent use; CancelOp is the driver's own business.
// Every effect may be repeated. It decides nothing that Step could decide.
func (r *Interpreter) Apply(ctx context.Context, s lifecycle.State, e lifecycle.Effect) lifecycle.OpFinished {
	ctx, cancel := context.WithTimeout(ctx, deadline(r.Settings.Images.PullLimit, s, e))
	defer cancel()
	result, err := r.apply(ctx, s, e)
	return lifecycle.OpFinished{ID: e.Op(), Failure: Failure(err), Result: result}
}

// ApplyWith applies an effect and, before or after it, the steps of the task's metadata endpoint
// that go with it. Result.Tolerated says what a container runs without. A container whose network
// cannot be set up is not started.
func (r *Interpreter) ApplyWith(ctx context.Context, to *endpoint.Endpoint, s lifecycle.State, e lifecycle.Effect) lifecycle.OpFinished {
	var missing lifecycle.Failure
	if e, ok := e.(lifecycle.StartContainer); ok {
		var err error
		if missing, err = r.enter(ctx, to, s, e); err != nil {
			return lifecycle.OpFinished{ID: e.Op(), Failure: Failure(err)}
		}
		to.Describe(ctx, s, e.Index)
		r.Fail.AtEffect(failpoint.MidEffect, e)
	}
	answer := r.Apply(ctx, s, e)
	if answer.Failure.Class != lifecycle.OK {
		return answer
	}
	switch e.(type) {
	case lifecycle.CreateSandbox:
		answer.Result.Metadata, missing = to.Plan(ctx, s)
	case lifecycle.RunSandbox:
		missing = to.Provide(ctx, s)
	}
	if missing.Class != lifecycle.OK {
		answer.Result.Tolerated = missing
	}
	return answer
}

func (r *Interpreter) apply(ctx context.Context, s lifecycle.State, e lifecycle.Effect) (lifecycle.Result, error) {
	switch e := e.(type) {
	case lifecycle.ResolveImage:
		return r.Images.Resolve(ctx, s, e)
	case lifecycle.PullImage:
		return r.Puller.Pull(ctx, s, e)
	case lifecycle.AdmitTask:
		return r.Queue.Admit(ctx, s, e)
	case lifecycle.ReleaseTask:
		return lifecycle.Result{}, r.Queue.Release(ctx, s.ID)
	}
	podman, err := r.Podman(ctx)
	if err != nil {
		return lifecycle.Result{}, err
	}
	switch e := e.(type) {
	case lifecycle.CreateSandbox:
		return r.createSandbox(ctx, podman, s)
	case lifecycle.RunSandbox:
		return r.runSandbox(ctx, podman, s)
	case lifecycle.InspectSandbox:
		return inspectInfra(ctx, podman, s)
	case lifecycle.StopSandbox:
		return lifecycle.Result{}, r.stopSandbox(ctx, podman, s)
	case lifecycle.RemoveSandbox:
		return lifecycle.Result{}, r.removeSandbox(ctx, podman, s)
	case lifecycle.CreateContainer:
		return r.create(ctx, podman, s, e)
	case lifecycle.StartContainer:
		return r.start(ctx, podman, s, e)
	case lifecycle.StopContainer:
		if err := podman.StopContainer(ctx, taskspec.ContainerName(s, e.Index), e.Grace); err != nil {
			return lifecycle.Result{}, err
		}
		return r.inspect(ctx, podman, s, e.Index)
	case lifecycle.InspectContainer:
		return r.inspect(ctx, podman, s, e.Index)
	case lifecycle.CheckHealth:
		result, err := r.check(ctx, podman, s, e)
		return lifecycle.Result{Probe: result}, err
	case lifecycle.FlushLogs:
		return lifecycle.Result{}, nil // the owner does it: it has the log files
	case lifecycle.RunHook:
		result, err := r.hook(ctx, podman, s, e)
		return lifecycle.Result{Probe: result}, err
	default:
		panic(fmt.Sprintf("agent: effect %T is not for the interpreter", e))
	}
}

// createSandbox makes what the task's containers mount and are given, the slice with its
// limits, and the pod in it. The host ports that it chooses are not chosen for another task
// until the infra container has opened them or has failed to.
func (r *Interpreter) createSandbox(ctx context.Context, podman Podman, s lifecycle.State) (lifecycle.Result, error) {
	if err := errors.Join(ensureVolumes(ctx, podman, s), r.Secrets.Ensure(ctx, s)); err != nil {
		return lifecycle.Result{}, err
	}
	spec := taskspec.Pod(s)
	spec.Labels[StateDirLabel] = r.StateDir
	var wanted []ports.Mapping
	if len(spec.Ports) > 0 {
		wanted = ports.Keep(ports.OfTask(s.Task), s.Sandbox.Ports)
	}
	spec.Choose = r.Ports.Choose(s.ID, wanted)
	var err error
	if spec.CgroupParent, err = r.Slices.Ensure(ctx, s); err != nil {
		return lifecycle.Result{}, err
	}
	if taskspec.OwnsNetwork(s) {
		network := taskspec.Network(s)
		network.Labels[StateDirLabel] = r.StateDir
		network.IPv6 = r.Settings.Network.BridgeIPv6 && netns.HasIPv6()
		if err := podman.EnsureNetwork(ctx, network); err != nil {
			return lifecycle.Result{}, err
		}
	}
	r.Fail.AtEffect(failpoint.MidEffect, lifecycle.CreateSandbox{})
	id, err := podman.CreatePod(ctx, spec)
	if err != nil {
		r.Ports.Release(s.ID)
	}
	switch {
	case errors.Is(err, libpod.Interrupted):
		return lifecycle.Result{}, discardPod(ctx, podman, s, err)
	case err != nil:
		return lifecycle.Result{}, r.Ports.Explain(err, s.ID, spec.Ports)
	}
	return lifecycle.Result{PodID: id, Slice: spec.CgroupParent}, nil
}

// runSandbox starts the infra container.
func (r *Interpreter) runSandbox(ctx context.Context, podman Podman, s lifecycle.State) (lifecycle.Result, error) {
	defer r.Ports.Release(s.ID)
	pod, err := podman.StartPod(ctx, taskspec.PodName(s), s.ID)
	switch {
	case err == nil:
	case errors.Is(err, libpod.Interrupted), errors.Is(err, libpod.PortInUse) && ports.Open(ports.OfTask(s.Task)):
		return lifecycle.Result{}, discardPod(ctx, podman, s, err) // the next one has other ports
	default:
		return lifecycle.Result{}, r.Ports.Explain(err, s.ID, taskspec.Pod(s).Ports)
	}
	infra := lifecycle.Observed{Presence: lifecycle.Running, ID: pod.InfraID, StartedAt: pod.StartedAt}
	if len(s.Task.Extensions.Pod) > 0 {
		if infra.Addresses, err = netns.Addresses(os.DirFS("/"), pod.InfraPID); err != nil {
			r.Log.Warn("the addresses of the Pod are not known", "task", s.ID, "error", err)
		}
	}
	return lifecycle.Result{Ports: taskspec.BoundPorts(pod.Ports), Seen: infra}, nil
}

// create creates a container.
func (r *Interpreter) create(ctx context.Context, podman Podman, s lifecycle.State, e lifecycle.CreateContainer) (lifecycle.Result, error) {
	spec := taskspec.Container(r.Slices.Here(s), e.Index, e.Image)
	wanted := taskspec.OwnPorts(s, e.Index)
	if spec.Own != nil {
		name := taskspec.ContainerName(s, e.Index)
		defer r.Ports.Release(name)
		spec.Own.Choose = r.Ports.Choose(name, ports.Keep(wanted, s.Containers[e.Index].Ports))
		if s.Containers[e.Index].Retry.Attempts > 0 { // Podman may keep the address of the container before
			spec.Own.Spare = uint64(e.ID)
		}
	}
	if err := r.Metadata.AddFile(&spec, s, e.Index); err != nil {
		return lifecycle.Result{}, err
	}
	if err := messages.In(r.StateDir).Mount(&spec, s, e.Index); err != nil {
		return lifecycle.Result{}, err
	}
	if s.Task.Containers[e.Index].Log.Remote() {
		files := logfiles.In(r.StateDir).Of(s.ID, e.Index)
		if err := files.Place(); err != nil {
			return lifecycle.Result{}, err
		}
		spec.Log.Path = files.Path()
	}
	if err := mountRouter(&spec, logfiles.In(r.StateDir), s, e.Index); err != nil {
		return lifecycle.Result{}, err
	}
	if err := imageIDs(ctx, r.Puller, s, e.Index, &spec); err != nil {
		return lifecycle.Result{}, err
	}
	o, err := podman.CreateContainer(ctx, spec)
	switch {
	case errors.Is(err, libpod.NotFound):
		return lifecycle.Result{}, transient.Mark(err) // the pod was discarded, and is created again
	case err != nil:
		return lifecycle.Result{}, err
	case len(wanted) > 0: // Podman may have chosen its ports
		return r.inspect(ctx, podman, s, e.Index)
	}
	return resultOf(s, o, r.Slices)
}

// imageIDs pulls the images whose file systems the container mounts, where they are not
// there, and names them by their IDs.
func imageIDs(ctx context.Context, from *imagestore.Puller, s lifecycle.State, index int, spec *libpod.ContainerSpec) error {
	for i, m := range s.Task.Containers[index].Extensions.Kube.Images {
		id, err := from.Mounted(ctx, s, m)
		if err != nil {
			return fmt.Errorf("the image at %s: %w", m.Path, err)
		}
		spec.Images[i].Image = id
	}
	return nil
}

// start starts a container.
func (r *Interpreter) start(ctx context.Context, podman Podman, s lifecycle.State, e lifecycle.StartContainer) (lifecycle.Result, error) {
	if e.Restart > 0 || s.Containers[e.Index].Retry.Attempts > 0 { // else nothing of that id has run
		r.Slices.ResetScope(ctx, s, e.Index)
	}
	if err := messages.In(r.StateDir).Begin(s, e.Index, e.Restart); err != nil {
		return lifecycle.Result{}, err
	}
	if files := logfiles.In(r.StateDir).Of(s.ID, e.Index); e.Restart > 0 && files.Placed() {
		if err := files.Seal(time.Now()); err != nil {
			r.Log.Warn("the output of the next run continues an unfinished line", "task", s.ID, "error", err)
		}
	}
	if err := ensureBound(s, e.Index); err != nil {
		return lifecycle.Result{}, err
	}
	err := podman.StartContainer(ctx, taskspec.ContainerName(s, e.Index))
	switch {
	case errors.Is(err, libpod.Interrupted):
		return lifecycle.Result{}, startAgain(ctx, podman, s, e, err)
	case errors.Is(err, libpod.NotFound) && e.Restart == 0:
		return lifecycle.Result{}, transient.Mark(err) // it is inspected, and created again
	case err != nil:
		return lifecycle.Result{}, r.onPortConflict(ctx, podman, s, e, err)
	}
	started, err := r.inspect(ctx, podman, s, e.Index)
	if err == nil && started.Seen.Presence == lifecycle.Running {
		r.Slices.CorrectSwap(ctx, s, e.Index, started.Seen.ID)
		started.Tolerated = r.Slices.NotApplied(s, e.Index, started.Seen.ID)
	}
	return started, err
}

// onPortConflict handles the error of a start that did not get its host ports; it returns
// other errors unchanged. Another program may have taken a port that was chosen when the
// container was created: then the container is created again, with another port. At a
// restart the previous run may still hold the port.
func (r *Interpreter) onPortConflict(ctx context.Context, podman Podman, s lifecycle.State, e lifecycle.StartContainer, err error) error {
	if !errors.Is(err, libpod.PortInUse) {
		return err
	}
	wanted := taskspec.OwnPorts(s, e.Index)
	if e.Restart > 0 {
		return transient.Mark(err)
	}
	if slices.ContainsFunc(wanted, func(p ports.Mapping) bool { return p.HostPort == 0 }) {
		if err := podman.RemoveContainer(ctx, taskspec.ContainerName(s, e.Index), s.ID); err != nil {
			return err
		}
		return transient.Mark(err)
	}
	return r.Ports.Explain(err, s.ID, taskspec.Publish(wanted))
}

// stopSandbox stops what is left of the pod and removes the task's secrets: nothing starts any
// more.
func (r *Interpreter) stopSandbox(ctx context.Context, podman Podman, s lifecycle.State) error {
	r.Prober.Forget(s.ID)
	r.Ports.Release(s.ID)
	if err := podman.StopPod(ctx, taskspec.PodName(s), s.ID); err != nil {
		return err
	}
	awaitRelease(ctx, s.Ports())
	return r.Secrets.Remove(ctx, s)
}

// portRelease limits the wait for host ports, which another program may hold by then.
const portRelease = 3 * time.Second

// awaitRelease waits until the host ports of a stopped task are free: Podman 5 reports the
// stop a moment before pasta releases them, and the next run of the task needs them.
func awaitRelease(ctx context.Context, ports []taskdef.Port) {
	ctx, cancel := context.WithTimeout(ctx, portRelease)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for slices.ContainsFunc(ports, func(p taskdef.Port) bool { return netns.InUse(p.Protocol, p.HostIP, p.HostPort) }) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// removeSandbox removes the pod, the slice, and what was made for the task's containers.
func (r *Interpreter) removeSandbox(ctx context.Context, podman Podman, s lifecycle.State) error {
	r.Prober.Forget(s.ID)
	r.Ports.Release(s.ID)
	if s.Sandbox.PodID == "" {
		r.reservePodName(ctx, podman, s)
	}
	if err := r.RemovePod(ctx, taskspec.PodName(s), s.ID); err != nil {
		return err
	}
	if taskspec.OwnsNetwork(s) {
		if err := podman.RemoveNetwork(ctx, taskspec.NetworkName(s), s.ID); err != nil {
			return Persistent(err)
		}
	}
	return Persistent(errors.Join(removeVolumes(ctx, podman, s), r.Secrets.Remove(ctx, s), os.RemoveAll(r.Metadata.FileDir(s.ID)), messages.In(r.StateDir).Remove(s.ID), logfiles.In(r.StateDir).Remove(s.ID)))
}

// reservePodName takes the name of a pod that an owner has asked for who died before the
// answer: Podman may be about to make it, and fails to where another has its name. So
// there is a pod to remove, and none comes after. What goes wrong the removal says.
func (r *Interpreter) reservePodName(ctx context.Context, podman Podman, s lifecycle.State) {
	_, err := podman.CreatePod(ctx, libpod.PodSpec{Name: taskspec.PodName(s), TaskID: s.ID, Network: "none", Labels: map[string]string{StateDirLabel: r.StateDir}})
	if err != nil && !errors.Is(err, libpod.Conflict) {
		r.Log.Debug("the name of a pod that may be in the making is not taken", "task", s.ID, "error", err)
	}
}

// Persistent makes a removal that Podman refused for an unknown reason, such as a busy
// mount, a temporary failure, so that it is tried again. A Conflict stays one.
func Persistent(err error) error {
	var e *libpod.Error
	if !errors.As(err, &e) || e.Class != libpod.Other {
		return err
	}
	again := *e
	again.Class = libpod.Temporary
	return &again
}

// inspectInfra reports whether the pod's infra container runs. A foreign container of that
// name does not count.
func inspectInfra(ctx context.Context, podman Podman, s lifecycle.State) (lifecycle.Result, error) {
	o, err := podman.InspectContainer(ctx, libpod.InfraName(taskspec.PodName(s)))
	if err != nil || o.Status != libpod.Running || o.TaskID != s.ID {
		return lifecycle.Result{}, err
	}
	return lifecycle.Result{Seen: lifecycle.Observed{Presence: lifecycle.Running, ID: o.ID, StartedAt: o.StartedAt, Unmonitored: o.Unmonitored, ProcessGone: o.ProcessGone}}, nil
}

func (r *Interpreter) inspect(ctx context.Context, podman Podman, s lifecycle.State, i int) (lifecycle.Result, error) {
	o, err := podman.InspectContainer(ctx, taskspec.ContainerName(s, i))
	if err != nil {
		return lifecycle.Result{}, err
	}
	return resultOf(s, o, r.Slices)
}

// resultOf is what Podman says of a container, as the state machine takes it.
func resultOf(s lifecycle.State, o libpod.Observed, slices *limits.Slices) (lifecycle.Result, error) {
	seen := lifecycle.Observed{
		ID: o.ID, StartedAt: o.StartedAt, FinishedAt: o.FinishedAt, ExitCode: o.ExitCode, OOMKilled: o.OOMKilled,
		Paused: o.Paused, Unmonitored: o.Unmonitored, ProcessGone: o.ProcessGone, Ports: taskspec.BoundPorts(o.Ports), Addresses: o.Addresses,
	}
	switch {
	case o.Foreign || o.TaskID != s.ID: // a foreign container has the name: the task's is gone
		seen = lifecycle.Observed{}
	case o.Status == libpod.Created:
		seen.Presence = lifecycle.Created
	case o.Status == libpod.Running:
		seen.Presence = lifecycle.Running
	case o.Status == libpod.Exited:
		seen.Presence = lifecycle.Exited
		seen.Memory = slices.MemoryUse(s)
	case o.Status == libpod.Removing:
		return lifecycle.Result{}, errRemoving
	}
	return lifecycle.Result{Seen: seen}, nil
}

// errRemoving passes: Podman is about to remove the container.
var errRemoving = &libpod.Error{Op: "inspect container", Class: libpod.Temporary, Cause: "it is being removed"}

// WaitEnd returns when the container has ended, or when the wait failed.
func (r *Interpreter) WaitEnd(ctx context.Context, name string) {
	podman, err := r.Podman(ctx)
	if err == nil {
		err = podman.WaitContainer(ctx, name)
	}
	if err != nil && ctx.Err() == nil {
		r.Log.Warn("the wait for a container was interrupted", "container", name, "error", err)
		// The inspection that follows has a back-off of its own. This pause is for a Podman
		// that answers inspections and refuses waits.
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

// StateDirLabel tells whose pods are: those of the tasks recorded in this
// directory. It is on the pod and its infra container.
const StateDirLabel = "podtask.state-dir"

// RemovePod removes a pod and its task's slice.
func (r *Interpreter) RemovePod(ctx context.Context, name, id string) error {
	podman, err := r.Podman(ctx)
	if err != nil {
		return err
	}
	if err := podman.RemovePod(ctx, name, id); err != nil {
		return Persistent(err)
	}
	r.Fail.AtEffect(failpoint.MidEffect, lifecycle.RemoveSandbox{})
	return r.Slices.Remove(ctx, id)
}

// Podman is what effects need of Podman. Calls adopt what exists, errors are
// *libpod.Error, and no call has a time limit but its context.
type Podman interface {
	Pods
	Networks
	Containers
	Watcher
	Volumes
}

// Pods makes, stops and removes a task's pod.
type Pods interface {
	CreatePod(ctx context.Context, p libpod.PodSpec) (id string, err error)
	StartPod(ctx context.Context, name, taskID string) (libpod.Pod, error)
	StopPod(ctx context.Context, name, taskID string) error
	RemovePod(ctx context.Context, name, taskID string) error
}

// Networks are those of tasks whose containers each join a network of their own.
type Networks interface {
	EnsureNetwork(ctx context.Context, n libpod.NetworkSpec) error
	RemoveNetwork(ctx context.Context, name, taskID string) error
}

// Containers makes, starts, stops and removes single containers.
type Containers interface {
	CreateContainer(ctx context.Context, s libpod.ContainerSpec) (libpod.Observed, error)
	StartContainer(ctx context.Context, name string) error
	StopContainer(ctx context.Context, name string, grace time.Duration) error
	RemoveContainer(ctx context.Context, name, taskID string) error
}

// Watcher observes single containers.
type Watcher interface {
	InspectContainer(ctx context.Context, name string) (libpod.Observed, error)
	WaitContainer(ctx context.Context, name string) error
	Probe(ctx context.Context, name string) (libpod.ProbeResult, error)
	RunExec(ctx context.Context, name string, command []string, limit time.Duration) (libpod.ExecResult, error)
}
