package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/podtask/podtask/pkg/libpod"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/netns"
	"github.com/podtask/podtask/pkg/ports"
	"github.com/podtask/podtask/pkg/taskdef"
)

// deadline is how long an operation may take before it counts as failed. The
// numbers are the ECS agent's; stop has its grace on top. Digest and pull share theirs
// with the attempts before.
func (r *Runtime) deadline(s lifecycle.State, e lifecycle.Effect) time.Duration {
	switch e := e.(type) {
	case lifecycle.ResolveImage:
		return s.Containers[e.Index].Retry.Left(lifecycle.ResolveLimit, time.Now())
	case lifecycle.PullImage:
		return s.Containers[e.Index].Retry.Left(r.settings.Images.PullLimit, time.Now())
	case lifecycle.AdmitTask, lifecycle.ReleaseTask:
		return time.Minute
	case lifecycle.CreateContainer, lifecycle.RunSandbox:
		return 4 * time.Minute
	case lifecycle.StartContainer:
		return startLimit
	case lifecycle.StopContainer:
		return e.Grace + 2*time.Minute
	case lifecycle.InspectContainer, lifecycle.InspectSandbox:
		return 30 * time.Second
	case lifecycle.StopSandbox:
		return 2 * time.Minute
	case lifecycle.CheckHealth:
		// Its own time-out is Step's business; this only bounds a hung Podman.
		return time.Hour
	default:
		return 5 * time.Minute
	}
}

// startLimit bounds the start of a container, and before it that of its network.
const startLimit = 3 * time.Minute

// Apply does what an effect asks for, in the state it came with, and answers. It is
// synchronous and safe for concurrent use; CancelOp is the driver's own business.
// Every effect may be repeated. It decides nothing that Step could decide.
func (r *Runtime) Apply(ctx context.Context, s lifecycle.State, e lifecycle.Effect) lifecycle.OpFinished {
	ctx, cancel := context.WithTimeout(ctx, r.deadline(s, e))
	defer cancel()
	result, err := r.apply(ctx, s, e)
	return lifecycle.OpFinished{ID: e.Op(), Failure: failure(err), Result: result}
}

func (r *Runtime) apply(ctx context.Context, s lifecycle.State, e lifecycle.Effect) (lifecycle.Result, error) {
	switch e := e.(type) { // what needs no Podman
	case lifecycle.ResolveImage:
		return r.images.Resolve(ctx, s, e)
	case lifecycle.AdmitTask:
		return r.queue.Admit(ctx, s, e)
	case lifecycle.ReleaseTask:
		return lifecycle.Result{}, r.queue.Release(ctx, s.ID)
	}
	podman, err := r.podman(ctx)
	if err != nil {
		return lifecycle.Result{}, err
	}
	switch e := e.(type) {
	case lifecycle.RunSandbox:
		return r.runSandbox(ctx, podman, s)
	case lifecycle.InspectSandbox:
		return inspectInfra(ctx, podman, s)
	case lifecycle.StopSandbox:
		return lifecycle.Result{}, halt(ctx, podman, s)
	case lifecycle.RemoveSandbox:
		return lifecycle.Result{}, r.removeSandbox(ctx, podman, s)
	case lifecycle.PullImage:
		r, err := r.puller.Pull(ctx, podman, s, e)
		if def := s.Task.Containers[e.Index]; err == nil && def.Extensions.ImageHealthCheck && def.HealthCheck == nil {
			r.HealthCheck, err = imageCheck(ctx, podman, r.ImageID)
		}
		return r, err
	case lifecycle.CreateContainer:
		spec := containerSpec(s, e.Index, e.Image)
		if err := r.metadata.AddFile(&spec, s, e.Index); err != nil {
			return lifecycle.Result{}, err
		}
		if _, err := podman.CreateContainer(ctx, spec); err != nil {
			return lifecycle.Result{}, err
		}
		return r.inspect(ctx, podman, s, e.Index)
	case lifecycle.StartContainer:
		return r.start(ctx, podman, s, e)
	case lifecycle.StopContainer:
		if err := podman.StopContainer(ctx, containerName(s, e.Index), e.Grace); err != nil {
			return lifecycle.Result{}, err
		}
		return r.inspect(ctx, podman, s, e.Index)
	case lifecycle.InspectContainer:
		return r.inspect(ctx, podman, s, e.Index)
	case lifecycle.CheckHealth:
		p, err := podman.Probe(ctx, containerName(s, e.Index))
		return lifecycle.Result{Probe: lifecycle.ProbeResult{Healthy: p.Healthy, ExitCode: p.ExitCode, Output: p.Output}}, err
	default:
		panic(fmt.Sprintf("agent: effect %T is not for the interpreter", e))
	}
}

// runSandbox makes what the task's containers mount and are given, the slice with its
// limits, the pod in it, and starts the infra container.
func (r *Runtime) runSandbox(ctx context.Context, podman Podman, s lifecycle.State) (lifecycle.Result, error) {
	if err := errors.Join(ensureVolumes(ctx, podman, s), ensureSecrets(ctx, podman, r.getenv, s, everySecret)); err != nil {
		return lifecycle.Result{}, err
	}
	spec := podSpec(s)
	spec.Labels[stateDirLabel] = r.stateDir
	var err error
	if spec.CgroupParent, err = r.slices.ensure(ctx, podman, s); err != nil {
		return lifecycle.Result{}, err
	}
	if ownsNetwork(s) {
		network := networkSpec(s)
		network.Labels[stateDirLabel] = r.stateDir
		network.IPv6 = r.settings.Network.BridgeIPv6 && netns.HasIPv6()
		if err := podman.EnsureNetwork(ctx, network); err != nil {
			return lifecycle.Result{}, err
		}
	}
	r.fail.effect(midEffect, lifecycle.RunSandbox{})
	// Podman finishes what it was asked for even when nobody waits for the answer any more;
	// a removal that came first would miss the pod.
	answered, stop := lingering(ctx, podLinger)
	defer stop()
	pod, err := podman.EnsurePod(answered, spec)
	if err != nil {
		return lifecycle.Result{}, r.ports.Explain(err, s.ID, spec.Ports)
	}
	infra := lifecycle.Observed{Presence: lifecycle.Running, ID: pod.InfraID, StartedAt: pod.StartedAt}
	return lifecycle.Result{PodID: pod.ID, Slice: spec.CgroupParent, Ports: boundPorts(pod.Ports), Seen: infra}, nil
}

// boundPorts are what Podman has published.
func boundPorts(ports []libpod.Port) (out []taskdef.Port) {
	for _, p := range ports {
		out = append(out, taskdef.Port{HostIP: p.HostIP, HostPort: p.HostPort, ContainerPort: p.ContainerPort, Protocol: p.Protocol})
	}
	return out
}

// start starts a container.
func (r *Runtime) start(ctx context.Context, podman Podman, s lifecycle.State, e lifecycle.StartContainer) (lifecycle.Result, error) {
	r.slices.resetScope(ctx, s, e.Index)
	if err := podman.StartContainer(ctx, containerName(s, e.Index)); err != nil {
		return lifecycle.Result{}, r.onPortConflict(ctx, podman, s, e, err)
	}
	started, err := r.inspect(ctx, podman, s, e.Index)
	if err == nil && started.Seen.Presence == lifecycle.Running {
		started.Tolerated = limitsNotApplied(s, e.Index, started.Seen.ID)
	}
	return started, err
}

// onPortConflict is what comes of the start of a container that did not get its host ports;
// other errors it leaves as they are. A port that was chosen when the container was
// made may be somebody else's by now: then it is made again, with another choice. At a
// restart it may still be the run's before.
func (r *Runtime) onPortConflict(ctx context.Context, podman Podman, s lifecycle.State, e lifecycle.StartContainer, err error) error {
	if !errors.Is(err, libpod.PortInUse) {
		return err
	}
	wanted := ports.OfContainer(s.Task.Containers[e.Index])
	if e.Restart > 0 {
		return &passingError{err}
	}
	if slices.ContainsFunc(wanted, func(p ports.Mapping) bool { return p.HostPort == 0 }) {
		if err := podman.RemoveContainer(ctx, containerName(s, e.Index), s.ID); err != nil {
			return err
		}
		return &passingError{err}
	}
	ports, _ := publish(wanted)
	return r.ports.Explain(err, s.ID, ports)
}

// podLinger is how long an answer about a pod is waited for that is not wanted any more.
const podLinger = 10 * time.Second

// lingering returns a context that ends a while later than ctx.
func lingering(ctx context.Context, more time.Duration) (_ context.Context, stop func()) {
	later, cancel := context.WithCancel(context.WithoutCancel(ctx))
	forget := context.AfterFunc(ctx, func() { time.AfterFunc(more, cancel) })
	return later, func() { forget(); cancel() }
}

// halt stops what is left of the pod and removes the task's secrets: nothing starts any
// more.
func halt(ctx context.Context, podman Podman, s lifecycle.State) error {
	if err := podman.StopPod(ctx, podName(s), s.ID); err != nil {
		return err
	}
	awaitRelease(ctx, s.Ports())
	return removeSecrets(ctx, podman, s)
}

// portRelease bounds the wait for host ports, which somebody else may have by then.
const portRelease = 3 * time.Second

// awaitRelease waits until the host ports of a task that has stopped are free: Podman
// says so a moment before pasta lets go of them (5.x), and who runs the task again
// then is to have them.
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

// ensure makes the task's slice and reads its limits back from the kernel.
// Without a user manager, or when Podman does not use it, there is no slice.
func (c *Slices) ensure(ctx context.Context, podman Podman, s lifecycle.State) (string, error) {
	user, err := c.user.Get(ctx)
	if err != nil {
		c.log.Info("no slice for the task", "task", s.ID, "reason", err)
		return "", nil
	}
	host, err := c.facts.Get(ctx)
	if err != nil {
		return "", err
	}
	if host.CgroupManager != "systemd" {
		return "", nil
	}
	name, err := cgroups.SliceName(s.ID)
	if err != nil {
		return "", err
	}
	l, err := c.limits(ctx, s)
	if err != nil {
		return "", err
	}
	if err := user.EnsureSlice(ctx, name, l); err != nil {
		return "", err
	}
	return name, user.ReadBack(ctx, name, l)
}

// removeSandbox removes the pod, the slice, and what was made for the task's containers.
func (r *Runtime) removeSandbox(ctx context.Context, podman Podman, s lifecycle.State) error {
	if s.Sandbox.PodID == "" {
		r.reservePodName(ctx, podman, s)
	}
	if err := r.RemovePod(ctx, podName(s), s.ID); err != nil {
		return err
	}
	if ownsNetwork(s) {
		if err := podman.RemoveNetwork(ctx, networkName(s), s.ID); err != nil {
			return persistent(err)
		}
	}
	return persistent(errors.Join(removeVolumes(ctx, podman, s), removeSecrets(ctx, podman, s), os.RemoveAll(r.metadata.fileDir(s.ID))))
}

// reservePodName takes the name of a pod that an owner has asked for who died before the
// answer: Podman may be about to make it, and fails to where another has its name. So
// there is a pod to remove, and none comes after. What goes wrong the removal says.
func (r *Runtime) reservePodName(ctx context.Context, podman Podman, s lifecycle.State) {
	err := podman.CreatePod(ctx, libpod.PodSpec{Name: podName(s), TaskID: s.ID, Network: "none", Labels: map[string]string{stateDirLabel: r.stateDir}})
	if err != nil && !errors.Is(err, libpod.Conflict) {
		r.log.Debug("the name of a pod that may be in the making is not taken", "task", s.ID, "error", err)
	}
}

// persistent lets a removal go on that Podman refused without a reason anybody
// knows, a busy mount say: cleaning up is not given up. What somebody put in the
// way stays a Conflict.
func persistent(err error) error {
	var e *libpod.Error
	if !errors.As(err, &e) || e.Class != libpod.Other {
		return err
	}
	again := *e
	again.Class = libpod.Temporary
	return &again
}

// inspectInfra tells whether the pod's infra container runs. One of somebody else's by
// its name is none.
func inspectInfra(ctx context.Context, podman Podman, s lifecycle.State) (lifecycle.Result, error) {
	o, err := podman.InspectContainer(ctx, libpod.InfraName(podName(s)))
	if err != nil || o.Status != libpod.Running || o.TaskID != s.ID {
		return lifecycle.Result{}, err
	}
	return lifecycle.Result{Seen: lifecycle.Observed{Presence: lifecycle.Running, ID: o.ID, StartedAt: o.StartedAt}}, nil
}

func (r *Runtime) inspect(ctx context.Context, podman Podman, s lifecycle.State, i int) (lifecycle.Result, error) {
	o, err := podman.InspectContainer(ctx, containerName(s, i))
	if err != nil {
		return lifecycle.Result{}, err
	}
	seen := lifecycle.Observed{
		ID: o.ID, StartedAt: o.StartedAt, FinishedAt: o.FinishedAt, ExitCode: o.ExitCode, OOMKilled: o.OOMKilled,
		Paused: o.Paused, Ports: boundPorts(o.Ports), Addresses: o.Addresses,
	}
	switch {
	case o.Foreign || o.TaskID != s.ID: // somebody else's by our name: ours is gone
		seen = lifecycle.Observed{}
	case o.Status == libpod.Created:
		seen.Presence = lifecycle.Created
	case o.Status == libpod.Running:
		seen.Presence = lifecycle.Running
	case o.Status == libpod.Exited:
		seen.Presence = lifecycle.Exited
		seen.Memory = r.slices.memoryUse(s)
	case o.Status == libpod.Removing:
		return lifecycle.Result{}, errRemoving
	}
	return lifecycle.Result{Seen: seen}, nil
}

// errRemoving passes: Podman is about to remove the container.
var errRemoving = &libpod.Error{Op: "inspect container", Class: libpod.Temporary, Cause: "it is being removed"}
