package effects

import (
	"context"
	"errors"
	"strings"

	"github.com/podtask/podtask/internal/engine/act/endpoint"
	"github.com/podtask/podtask/internal/engine/facts/taskspec"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/transient"
)

// If Podman's service is killed in the middle of a start, it has not recorded all that it
// did, and the next start fails (docs/upstream#a-kill-during-a-start-leaves-a-container-that-does-not-start). Podman then ends the process of the first start. If conmon
// reports that end late, Podman takes it for the end of the process of a third start. So a
// container or pod that never ran is removed and created again under the same name. If Podman
// keeps the address of a removed container, the next one requests another address, and
// internal/engine/act/endpoint adds the old one, which all hosts files contain, to its interface.

// discard removes a container that never ran, so that it is created again.
func discard(ctx context.Context, podman Podman, s lifecycle.State, index int, cause error) error {
	name := taskspec.ContainerName(s, index)
	seen, err := podman.InspectContainer(ctx, name)
	if err != nil {
		return err
	}
	if seen.Status != libpod.Created {
		return cause
	}
	if err := podman.RemoveContainer(ctx, name, s.ID); err != nil {
		return RetryRemoval(err)
	}
	return transient.Mark(cause)
}

// discardPod removes a pod whose containers never ran, with those containers.
func discardPod(ctx context.Context, podman Podman, s lifecycle.State, cause error) error {
	for i, c := range s.Containers {
		if !c.StartedAt.IsZero() {
			return cause
		}
		seen, err := podman.InspectContainer(ctx, taskspec.ContainerName(s, i))
		if err != nil {
			return err
		}
		if seen.Status > libpod.Created {
			return cause
		}
	}
	if err := podman.RemovePod(ctx, taskspec.PodName(s), s.ID); err != nil {
		return RetryRemoval(err)
	}
	return transient.Mark(cause)
}

// enter prepares the network namespace of a container before its start.
func (r *Interpreter) enter(ctx context.Context, to *endpoint.Endpoint, s lifecycle.State, e lifecycle.StartContainer) (missing lifecycle.Failure, err error) {
	missing, err = to.Enter(ctx, s, e.Index)
	if !errors.Is(err, libpod.Interrupted) {
		return missing, err
	}
	ctx, cancel := context.WithTimeout(ctx, endpoint.StartLimit)
	defer cancel()
	podman, connErr := r.Podman(ctx)
	if connErr != nil {
		return missing, connErr
	}
	return missing, startAgain(ctx, podman, s, e, err)
}

// startAgain handles a start that failed because an earlier one was interrupted. It discards
// the container, unless it has run before, because then its files must be kept.
func startAgain(ctx context.Context, podman Podman, s lifecycle.State, e lifecycle.StartContainer, cause error) error {
	if e.Restart > 0 {
		return transient.Mark(cause)
	}
	return discard(ctx, podman, s, e.Index, cause)
}

// Reconsider decides about an operation that failed for good after a call of Podman for the
// task was cut off: the error may be about what the killed service left, such as a missing
// command because the root of the container is not mounted. What never ran is removed, and the failure
// becomes temporary. began says that the call that was cut off may have begun the program; then
// only an error that shows that it has not is reconsidered.
func (r *Interpreter) Reconsider(ctx context.Context, s lifecycle.State, e lifecycle.Effect, f lifecycle.Failure, began bool) lifecycle.Failure {
	if f.Class != lifecycle.Permanent || strings.Contains(f.Message, libpod.UnrecordedStart) {
		return f
	}
	podman, err := r.Podman(ctx)
	if err != nil {
		return Failure(err)
	}
	cause := transient.Mark(errors.New(f.Message))
	switch e := e.(type) {
	case lifecycle.CreateContainer:
		err = cause
	case lifecycle.StartContainer:
		if e.Restart > 0 || began && f.ExitCode == 0 {
			return f
		}
		err = discard(ctx, podman, s, e.Index, cause)
	case lifecycle.CreateSandbox, lifecycle.RunSandbox:
		err = discardPod(ctx, podman, s, cause)
	default:
		return f
	}
	switch again := Failure(err); again.Class {
	case lifecycle.Outage:
		return again
	case lifecycle.Temporary:
		r.Log.Info("an operation is tried again, because Podman's service was killed before", "task", s.ID, "error", f.Message)
		f.Class, f.ExitCode = lifecycle.Temporary, 0
	}
	return f
}
