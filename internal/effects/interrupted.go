package effects

import (
	"context"

	"github.com/podtask/podtask/internal/ledger"
	"github.com/podtask/podtask/internal/podspec"
	"github.com/podtask/podtask/pkg/libpod"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// If Podman's service is killed in the middle of a start, it has not recorded all that it
// did, and each further start fails. What never ran is removed then and created again: the
// names are the task's. Where Podman keeps the address of a container that is gone, the
// next one requests another address, and internal/endpoint adds the old one to it, which all
// hosts files contain.

// discard removes a container that never ran. The next inspection finds that it does not
// exist, so it is created again.
func discard(ctx context.Context, podman Podman, s lifecycle.State, index int, cause error) error {
	name := podspec.ContainerName(s, index)
	seen, err := podman.InspectContainer(ctx, name)
	if err != nil {
		return err
	}
	if seen.Status != libpod.Created {
		return cause
	}
	if err := podman.RemoveContainer(ctx, name, s.ID); err != nil {
		return Persistent(err)
	}
	return &ledger.PassingError{Cause: cause}
}

// discardPod removes a pod in which nothing ever ran, with the containers that were
// created in it.
func discardPod(ctx context.Context, podman Podman, s lifecycle.State, cause error) error {
	for i, c := range s.Containers {
		if !c.StartedAt.IsZero() {
			return cause
		}
		seen, err := podman.InspectContainer(ctx, podspec.ContainerName(s, i))
		if err != nil {
			return err
		}
		if seen.Status > libpod.Created {
			return cause
		}
	}
	if err := podman.RemovePod(ctx, podspec.PodName(s), s.ID); err != nil {
		return Persistent(err)
	}
	return &ledger.PassingError{Cause: cause}
}
