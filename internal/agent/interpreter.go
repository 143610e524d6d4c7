package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/podtask/podtask/pkg/libpod"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/netns"
	"github.com/podtask/podtask/pkg/taskdef"
)

// limit is how long an operation may take before it counts as failed. The
// numbers are the ECS agent's; stop has its grace on top.
func limit(e lifecycle.Effect) time.Duration {
	switch e := e.(type) {
	case lifecycle.ResolveImage:
		return time.Minute
	case lifecycle.PullImage:
		return 2 * time.Hour
	case lifecycle.CreateContainer, lifecycle.PrepareSandbox:
		return 4 * time.Minute
	case lifecycle.StartContainer:
		return 3 * time.Minute
	case lifecycle.StopContainer:
		return e.Grace + 2*time.Minute
	case lifecycle.InspectContainer:
		return 30 * time.Second
	case lifecycle.HaltSandbox:
		return 2 * time.Minute
	case lifecycle.ProbeContainer:
		// Its own time-out is Step's business; this only bounds a hung Podman.
		return time.Hour
	default:
		return 5 * time.Minute
	}
}

// opID returns the ID of an effect.
func opID(e lifecycle.Effect) lifecycle.OpID {
	switch e := e.(type) {
	case lifecycle.PrepareSandbox:
		return e.ID
	case lifecycle.HaltSandbox:
		return e.ID
	case lifecycle.RemoveSandbox:
		return e.ID
	case lifecycle.ResolveImage:
		return e.ID
	case lifecycle.PullImage:
		return e.ID
	case lifecycle.CreateContainer:
		return e.ID
	case lifecycle.StartContainer:
		return e.ID
	case lifecycle.StopContainer:
		return e.ID
	case lifecycle.InspectContainer:
		return e.ID
	case lifecycle.ProbeContainer:
		return e.ID
	case lifecycle.CancelOp:
		return e.ID
	default:
		panic(fmt.Sprintf("agent: unknown effect %T", e))
	}
}

// Do does what an effect asks for, in the state it came with, and answers. It is
// synchronous and safe for concurrent use; CancelOp is the driver's own business.
// Every effect may be repeated. It decides nothing that Step could decide.
func (h *Host) Do(ctx context.Context, s lifecycle.State, e lifecycle.Effect) lifecycle.OpFinished {
	ctx, cancel := context.WithTimeout(ctx, limit(e))
	defer cancel()
	result, err := h.act(ctx, s, e)
	return lifecycle.OpFinished{ID: opID(e), Failure: failure(err), Result: result}
}

func (h *Host) act(ctx context.Context, s lifecycle.State, e lifecycle.Effect) (lifecycle.Result, error) {
	if e, ok := e.(lifecycle.ResolveImage); ok {
		return h.resolve(ctx, s, e)
	}
	podman, err := h.Podman(ctx)
	if err != nil {
		return lifecycle.Result{}, err
	}
	switch e := e.(type) {
	case lifecycle.PrepareSandbox:
		return h.prepare(ctx, podman, s)
	case lifecycle.HaltSandbox:
		return lifecycle.Result{}, podman.StopPod(ctx, podName(s), s.ID)
	case lifecycle.RemoveSandbox:
		return lifecycle.Result{}, h.remove(ctx, podman, s)
	case lifecycle.PullImage:
		return h.pull(ctx, podman, s, e)
	case lifecycle.CreateContainer:
		if _, err := podman.CreateContainer(ctx, containerSpec(s, e.Index, e.Image)); err != nil {
			return lifecycle.Result{}, err
		}
		return inspect(ctx, podman, s, e.Index)
	case lifecycle.StartContainer:
		if err := podman.StartContainer(ctx, containerName(s, e.Index)); err != nil {
			return lifecycle.Result{}, err
		}
		return inspect(ctx, podman, s, e.Index)
	case lifecycle.StopContainer:
		if err := podman.StopContainer(ctx, containerName(s, e.Index), e.Grace); err != nil {
			return lifecycle.Result{}, err
		}
		return inspect(ctx, podman, s, e.Index)
	case lifecycle.InspectContainer:
		return inspect(ctx, podman, s, e.Index)
	case lifecycle.ProbeContainer:
		p, err := podman.Probe(ctx, containerName(s, e.Index))
		return lifecycle.Result{Probe: lifecycle.ProbeResult{Healthy: p.Healthy, ExitCode: p.ExitCode, Output: p.Output}}, err
	default:
		panic(fmt.Sprintf("agent: effect %T is not for the interpreter", e))
	}
}

// prepare makes the slice with its limits, the pod in it, and starts the infra
// container.
func (h *Host) prepare(ctx context.Context, podman Engine, s lifecycle.State) (lifecycle.Result, error) {
	spec := libpod.PodSpec{
		Name: podName(s), TaskID: s.ID, Labels: labels(s, -1), Hostname: s.ID[:12], Network: podNetwork(s.Task.Network),
	}
	for _, p := range wantedPorts(s.Task) {
		spec.Ports = append(spec.Ports, libpod.Port{HostIP: p.HostIP, HostPort: p.HostPort, ContainerPort: p.ContainerPort, Protocol: p.Protocol})
	}
	var err error
	if spec.CgroupParent, err = h.ensureSlice(ctx, podman, s); err != nil {
		return lifecycle.Result{}, err
	}
	h.failpointOf(midEffect, lifecycle.PrepareSandbox{})
	pod, err := podman.EnsurePod(ctx, spec)
	if err != nil {
		return lifecycle.Result{}, namePortHolder(err, spec.Ports)
	}
	r := lifecycle.Result{PodID: pod.ID, Slice: spec.CgroupParent}
	for _, p := range pod.Ports {
		r.Ports = append(r.Ports, taskdef.Port{HostIP: p.HostIP, HostPort: p.HostPort, ContainerPort: p.ContainerPort, Protocol: p.Protocol})
	}
	return r, nil
}

// podNetwork is Podman's word for a network mode. bridge and awsvpc are the
// pod's own namespace on Podman's default rootless network.
func podNetwork(m taskdef.NetworkMode) string {
	switch m {
	case taskdef.NetworkHost, taskdef.NetworkNone:
		return string(m)
	default:
		return ""
	}
}

// ensureSlice makes the task's slice and reads its limits back from the kernel.
// Without a user manager, or when Podman does not use it, there is no slice.
func (h *Host) ensureSlice(ctx context.Context, podman Engine, s lifecycle.State) (string, error) {
	user, err := h.userManager(ctx)
	if err != nil {
		h.log.Info("no slice for the task", "task", s.ID, "reason", err)
		return "", nil
	}
	host, err := podman.Host(ctx)
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
	l := applicable(taskLimits(s.Task), s.Options)
	if err := user.EnsureSlice(ctx, name, l); err != nil {
		return "", err
	}
	return name, user.ReadBack(ctx, name, l)
}

func (h *Host) remove(ctx context.Context, podman Engine, s lifecycle.State) error {
	if err := podman.RemovePod(ctx, podName(s), s.ID); err != nil {
		return persistent(err)
	}
	h.failpointOf(midEffect, lifecycle.RemoveSandbox{})
	user, err := h.userManager(ctx)
	if err != nil {
		return nil // nobody could have made a slice
	}
	name, err := cgroups.SliceName(s.ID)
	if err != nil {
		return err
	}
	return user.StopSlice(ctx, name)
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

func inspect(ctx context.Context, podman Engine, s lifecycle.State, i int) (lifecycle.Result, error) {
	o, err := podman.InspectContainer(ctx, containerName(s, i))
	if err != nil {
		return lifecycle.Result{}, err
	}
	seen := lifecycle.Observed{
		ID: o.ID, StartedAt: o.StartedAt, FinishedAt: o.FinishedAt, ExitCode: o.ExitCode, OOMKilled: o.OOMKilled,
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
	case o.Status == libpod.Removing:
		return lifecycle.Result{}, errRemoving
	}
	return lifecycle.Result{Seen: seen}, nil
}

// errRemoving passes: Podman is about to remove the container.
var errRemoving = &libpod.Error{Op: "inspect container", Class: libpod.Temporary, Cause: "it is being removed"}

func containerSpec(s lifecycle.State, i int, image string) libpod.ContainerSpec {
	c := s.Task.Containers[i]
	l := applicable(cgroups.Limits{Memory: c.Memory, MemoryLow: c.MemoryReservation, CPUWeight: uint64(max(c.CPU, 0))}, s.Options)
	spec := libpod.ContainerSpec{
		Name: containerName(s, i), Pod: podName(s), TaskID: s.ID, Image: image, Labels: labels(s, i),
		EntryPoint: c.EntryPoint, Command: c.Command, WorkDir: c.WorkingDirectory, User: c.User,
		Stdin: c.Interactive, TTY: c.PseudoTerminal, ReadOnly: c.ReadonlyRootFS, Init: c.Init,
		MemoryLimit: l.Memory, MemoryReservation: l.MemoryLow, CPUShares: l.CPUWeight,
		StopTimeout: c.StopTimeout, Env: make(map[string]string, len(c.Environment)),
	}
	if spec.CPUShares == 1 {
		spec.CPUShares = 2 // the kernel's least; ECS agent: null, 0 and 1 become 2
	}
	for _, v := range c.Environment {
		spec.Env[v.Name] = v.Value
	}
	if hc := c.HealthCheck; hc != nil {
		spec.Health = &libpod.Health{Command: hc.Command, Timeout: hc.Timeout, Retries: hc.Retries, StartPeriod: hc.StartPeriod}
	}
	return spec
}

// namePortHolder adds to an error about a port in use who uses it.
func namePortHolder(err error, ports []libpod.Port) error {
	if !errors.Is(err, libpod.PortInUse) {
		return err
	}
	for _, p := range ports {
		if holder, found := netns.FindHolder(p.Protocol, p.HostPort); found && p.HostPort != 0 {
			return fmt.Errorf("%w: port %d is held by %s", err, p.HostPort, holder)
		}
	}
	return err
}
