package effects

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/podtask/podtask/internal/engine/facts/failpoint"
	"github.com/podtask/podtask/internal/engine/facts/messages"
	"github.com/podtask/podtask/internal/engine/facts/taskspec"
	"github.com/podtask/podtask/internal/engine/network/hostsfile"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/logs/logfiles"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/netns"
	"github.com/podtask/podtask/pkg/ports"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/transient"
)

// createSandbox creates the task's volumes, secrets, slice, network and pod. The host ports
// that it chooses stay reserved until the infra container has opened them or has failed to.
func (r *Interpreter) createSandbox(ctx context.Context, podman Podman, s lifecycle.State) (lifecycle.Result, error) {
	if err := errors.Join(r.ensureVolumes(ctx, podman, s), r.Secrets.Ensure(ctx, s)); err != nil {
		return lifecycle.Result{}, err
	}
	spec := taskspec.Pod(s)
	spec.Labels[StateDirLabel] = r.StateDir
	if !spec.NoInfra && !spec.OwnNetworks {
		lines, err := r.Metadata.Names.Hosts(s)
		if err != nil {
			return lifecycle.Result{}, err
		}
		spec.Hosts = append(spec.Hosts, lines...)
	}
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
	storage, err := r.Storage(ctx)
	if err != nil {
		r.Log.Debug("the record of the task does not say which Podman it is in", "task", s.ID, "error", err)
	}
	return lifecycle.Result{PodID: id, Storage: storage, Slice: spec.CgroupParent}, nil
}

// runSandbox starts the infra container.
func (r *Interpreter) runSandbox(ctx context.Context, podman Podman, s lifecycle.State) (lifecycle.Result, error) {
	defer r.Ports.Release(s.ID)
	pod, err := podman.StartPod(ctx, taskspec.PodName(s), s.ID)
	switch {
	case err == nil:
	case errors.Is(err, libpod.Interrupted), errors.Is(err, libpod.PortInUse) && ports.Open(ports.OfTask(s.Task)):
		return lifecycle.Result{}, discardPod(ctx, podman, s, err) // the next pod gets other ports
	default:
		return lifecycle.Result{}, r.Ports.Explain(err, s.ID, taskspec.Pod(s).Ports)
	}
	infra := lifecycle.Observed{Presence: lifecycle.Running, ID: pod.InfraID, StartedAt: pod.StartedAt}
	if len(s.Task.Extensions.Pod) > 0 {
		if infra.Addresses, err = netns.Addresses(os.DirFS("/"), pod.InfraPID); err != nil {
			r.Log.Warn("cannot read the addresses of the Pod", "task", s.ID, "error", err)
		}
	}
	return lifecycle.Result{Ports: taskspec.BoundPorts(pod.Ports), Seen: infra}, nil
}

// strayGrace is the stop timeout of a container that should no longer be running (Podman's default).
const strayGrace = 10 * time.Second

// stopSandbox stops what still runs in the pod and removes the task's secrets, because no
// container starts after it.
func (r *Interpreter) stopSandbox(ctx context.Context, podman Podman, s lifecycle.State) error {
	r.Prober.Forget(s.ID)
	r.Ports.Release(s.ID)
	grace := strayGrace
	if s.Force {
		grace = 0
	}
	if err := podman.StopPod(ctx, taskspec.PodName(s), s.ID, grace); err != nil {
		return err
	}
	awaitRelease(ctx, s.Ports())
	return r.Secrets.Remove(ctx, s)
}

// portRelease limits the wait for host ports, which another program may have opened meanwhile.
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

// removeSandbox removes the pod, the slice, and all that was created for the task's containers.
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
			return RetryRemoval(err)
		}
	}
	return RetryRemoval(errors.Join(removeVolumes(ctx, podman, s), r.Secrets.Remove(ctx, s), os.RemoveAll(r.Metadata.FileDir(s.ID)), messages.In(r.StateDir).Remove(s.ID), r.Metadata.Names.Remove(s.ID), hostsfile.In(r.StateDir).Remove(s.ID), logfiles.In(r.StateDir).Remove(s.ID)))
}

// reservePodName creates an empty pod with the name of the task's pod. If an owner died while
// it waited for Podman to create the pod, Podman may still be about to. Creating it here
// guarantees that the removal that follows sees it. Errors are reported by that removal.
func (r *Interpreter) reservePodName(ctx context.Context, podman Podman, s lifecycle.State) {
	_, err := podman.CreatePod(ctx, libpod.PodSpec{Name: taskspec.PodName(s), TaskID: s.ID, Network: "none", Labels: map[string]string{StateDirLabel: r.StateDir}})
	if err != nil && !errors.Is(err, libpod.Conflict) {
		r.Log.Debug("cannot reserve the name of a pod before its removal", "task", s.ID, "error", err)
	}
}

// RetryRemoval marks the error of a removal that Podman refused for an unknown reason, such
// as a busy mount, as transient; before 5.6 also one whose conmon was killed
// (docs/upstream#the-first-forced-removal-fails-after-conmon-was-killed). Other errors, such as a Conflict, are returned unchanged.
func RetryRemoval(err error) error {
	var e *libpod.Error
	if !errors.As(err, &e) || e.Class != libpod.Other {
		return err
	}
	return transient.Mark(err)
}

// inspectInfra returns the state of the pod's infra container if it runs. A container of
// that name which is not the task's counts as absent.
func inspectInfra(ctx context.Context, podman Podman, s lifecycle.State) (lifecycle.Result, error) {
	o, err := podman.InspectContainer(ctx, libpod.InfraName(taskspec.PodName(s)))
	if err != nil || o.Status != libpod.Running || o.TaskID != s.ID {
		return lifecycle.Result{}, err
	}
	return lifecycle.Result{Seen: lifecycle.Observed{Presence: lifecycle.Running, ID: o.ID, StartedAt: o.StartedAt, Unmonitored: o.Unmonitored, ProcessGone: o.ProcessGone}}, nil
}

// StateDirLabel is the label of pods, infra containers and networks that holds the state
// directory in which their task is recorded.
const StateDirLabel = "podtask.state-dir"

// RemovePod removes the pod and the slice of a task.
func (r *Interpreter) RemovePod(ctx context.Context, name, id string) error {
	podman, err := r.Podman(ctx)
	if err != nil {
		return err
	}
	if err := podman.RemovePod(ctx, name, id); err != nil {
		return RetryRemoval(err)
	}
	r.Fail.AtEffect(failpoint.MidEffect, lifecycle.RemoveSandbox{})
	return r.Slices.Remove(ctx, id)
}
