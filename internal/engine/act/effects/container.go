package effects

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/podtask/podtask/internal/engine/facts/messages"
	"github.com/podtask/podtask/internal/engine/facts/taskspec"
	"github.com/podtask/podtask/internal/engine/network/hostsfile"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/logs/logfiles"
	"github.com/podtask/podtask/internal/sleep"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/ports"
	"github.com/podtask/podtask/pkg/transient"
)

// create creates a container, with the files and images that it mounts.
func (r *Interpreter) create(ctx context.Context, podman Podman, s lifecycle.State, e lifecycle.CreateContainer) (lifecycle.Result, error) {
	spec := taskspec.Container(r.Slices.Here(s), e.Index, e.Image)
	wanted := taskspec.OwnPorts(s, e.Index)
	if spec.Own != nil {
		name := taskspec.ContainerName(s, e.Index)
		defer r.Ports.Release(name)
		spec.Own.Choose = r.Ports.Choose(name, ports.Keep(wanted, s.Containers[e.Index].Ports))
		if s.Containers[e.Index].Retry.Attempts > 0 { // Podman may have kept the address of the previous container
			spec.Own.Spare = uint64(e.ID)
		}
	}
	if err := r.Metadata.AddFile(&spec, s, e.Index); err != nil {
		return lifecycle.Result{}, err
	}
	if spec.Own != nil { // else the hosts file is that of the pod
		lines, err := r.Metadata.Names.Hosts(s)
		if err != nil {
			return lifecycle.Result{}, err
		}
		spec.Hosts = append(spec.Hosts, lines...)
	}
	if err := messages.In(r.StateDir).Mount(&spec, s, e.Index); err != nil {
		return lifecycle.Result{}, err
	}
	if err := hostsfile.In(r.StateDir).Mount(&spec, s, e.Index); err != nil {
		return lifecycle.Result{}, err
	}
	if s.Task.Containers[e.Index].Log.Remote() {
		files := logfiles.In(r.StateDir).Of(s.ID, e.Index)
		if err := files.Place(); err != nil {
			return lifecycle.Result{}, err
		}
		spec.Log.Path = files.Path()
	}
	if err := r.mountRouter(&spec, s, e.Index); err != nil {
		return lifecycle.Result{}, err
	}
	if err := r.pullMounted(ctx, s, e.Index, &spec); err != nil {
		return lifecycle.Result{}, err
	}
	o, err := podman.CreateContainer(ctx, spec)
	switch {
	case errors.Is(err, libpod.NotFound):
		return lifecycle.Result{}, transient.Mark(err) // the pod was discarded and will be created again
	case err != nil:
		return lifecycle.Result{}, err
	case len(wanted) > 0: // Podman may have chosen its ports
		return r.inspect(ctx, podman, s, e.Index)
	}
	return r.resultOf(s, o)
}

// pullMounted makes sure that the images which the container mounts are in local storage, and
// sets their IDs in spec.
func (r *Interpreter) pullMounted(ctx context.Context, s lifecycle.State, index int, spec *libpod.ContainerSpec) error {
	for i, m := range s.Task.Containers[index].Extensions.Kube.Images {
		id, err := r.Puller.Mounted(ctx, s, m)
		if err != nil {
			return fmt.Errorf("image mounted at %s: %w", m.Path, err)
		}
		spec.Images[i].Image = id
	}
	return nil
}

// start starts a container.
func (r *Interpreter) start(ctx context.Context, podman Podman, s lifecycle.State, e lifecycle.StartContainer) (lifecycle.Result, error) {
	if e.Restart > 0 || s.Containers[e.Index].Retry.Attempts > 0 { // otherwise no scope of that ID exists
		r.Slices.ResetScope(ctx, s, e.Index)
	}
	if err := messages.In(r.StateDir).Begin(s, e.Index, e.Restart); err != nil {
		return lifecycle.Result{}, err
	}
	if err := hostsfile.In(r.StateDir).Complete(s, e.Index); err != nil {
		return lifecycle.Result{}, err
	}
	if files := logfiles.In(r.StateDir).Of(s.ID, e.Index); e.Restart > 0 && files.Placed() {
		if err := files.Seal(time.Now()); err != nil {
			r.Log.Warn("cannot end the last line of the previous run's log; the next run continues it", "task", s.ID, "error", err)
		}
	}
	if err := checkMounts(s, e.Index); err != nil {
		return lifecycle.Result{}, err
	}
	err := podman.StartContainer(ctx, taskspec.ContainerName(s, e.Index))
	switch {
	case errors.Is(err, libpod.Interrupted):
		return lifecycle.Result{}, startAgain(ctx, podman, s, e, err)
	case errors.Is(err, libpod.NotFound) && e.Restart == 0:
		return lifecycle.Result{}, transient.Mark(err) // the next inspection finds it gone, so it is created again
	case err != nil:
		return lifecycle.Result{}, r.onPortConflict(ctx, podman, s, e, err)
	}
	started, err := r.inspect(ctx, podman, s, e.Index)
	if err == nil && started.Seen.Presence == lifecycle.Running {
		if err := r.Slices.ApplyResources(ctx, s, e.Index, started.Seen.ID); err != nil {
			r.Log.Warn("the container may have the limits from before they were changed", "task", s.ID, "container", s.Task.Containers[e.Index].Name, "error", err)
		}
		r.Slices.CorrectSwap(ctx, s, e.Index, started.Seen.ID)
		started.Tolerated = r.Slices.NotApplied(s, e.Index, started.Seen.ID)
	}
	return started, err
}

// onPortConflict handles a start that failed because a host port is in use; it returns other
// errors unchanged. If podtask chose the port, another program may have opened it since the
// container was created. Then the container is removed, to be created again with another
// port. At a restart the previous run may still hold the port.
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

// inspect returns what Podman reports about a container.
func (r *Interpreter) inspect(ctx context.Context, podman Podman, s lifecycle.State, i int) (lifecycle.Result, error) {
	name := taskspec.ContainerName(s, i)
	o, err := podman.InspectContainer(ctx, name)
	if errors.Is(err, libpod.Interrupted) { // a removal was cut off, which is completed here
		if err = podman.RemoveContainer(ctx, name, s.ID); err == nil {
			o, err = podman.InspectContainer(ctx, name)
		}
	}
	if err != nil {
		return lifecycle.Result{}, err
	}
	return r.resultOf(s, o)
}

// resultOf converts Podman's report about a container to a result for the state machine.
func (r *Interpreter) resultOf(s lifecycle.State, o libpod.Observed) (lifecycle.Result, error) {
	seen := lifecycle.Observed{
		ID: o.ID, StartedAt: o.StartedAt, FinishedAt: o.FinishedAt, ExitCode: o.ExitCode, OOMKilled: o.OOMKilled,
		Paused: o.Paused, Unmonitored: o.Unmonitored, ProcessGone: o.ProcessGone, Ports: taskspec.BoundPorts(o.Ports), Addresses: o.Addresses,
	}
	switch {
	case o.Foreign || o.TaskID != s.ID: // another container has the name, so the task's does not exist
		seen = lifecycle.Observed{}
	case o.Status == libpod.Created:
		seen.Presence = lifecycle.Created
	case o.Status == libpod.Running:
		seen.Presence = lifecycle.Running
	case o.Status == libpod.Exited:
		seen.Presence = lifecycle.Exited
		seen.Memory = r.Slices.MemoryUse(s)
	case o.Status == libpod.Removing:
		return lifecycle.Result{}, errRemoving
	}
	return lifecycle.Result{Seen: seen}, nil
}

// errRemoving is the error of an inspection while Podman removes the container.
var errRemoving = &libpod.Error{Op: "inspect container", Class: libpod.Temporary, Cause: "it is being removed"}

// WaitEnd returns when the container has ended, when ctx ends, or when Podman cannot wait.
// The caller must inspect the container next.
func (r *Interpreter) WaitEnd(ctx context.Context, name string) {
	podman, err := r.Podman(ctx)
	if err == nil {
		err = podman.WaitContainer(ctx, name)
	}
	if err != nil && ctx.Err() == nil {
		r.Log.Warn("cannot wait for the end of a container; inspecting it instead", "container", name, "error", err)
		// The inspection that follows has its own back-off. This pause is for a Podman that
		// answers inspections but refuses waits.
		sleep.For(ctx, time.Second)
	}
}
