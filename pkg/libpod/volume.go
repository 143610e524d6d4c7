package libpod

import (
	"context"
	"errors"
	"maps"

	"github.com/containers/podman/v5/pkg/bindings/volumes"
	entities "github.com/containers/podman/v5/pkg/domain/entities/types"
)

// VolumeSpec describes a named volume.
type VolumeSpec struct {
	Name string
	// TaskID becomes the TaskLabel of a volume that goes with its task; "" means one
	// that outlives it and that RemoveVolumes never sees.
	TaskID string
	Labels map[string]string
	// Options are those of Podman's local driver: type, device, o and others.
	Options map[string]string
}

// EnsureVolume makes the volume, or adopts the one of that name: a task's must
// carry its label, any other one will do as it is, its options are not compared (as
// in ECS).
//
// Classes to expect: Conflict, InvalidSpec.
func (c *volumeAPI) EnsureVolume(ctx context.Context, v VolumeSpec) error {
	labels := map[string]string{}
	maps.Copy(labels, v.Labels)
	if v.TaskID != "" {
		labels[TaskLabel] = v.TaskID
	}
	err := c.create(ctx, "create volume", v.Name, func(ctx context.Context) error {
		_, err := volumes.Create(ctx, entities.VolumeCreateOptions{Name: v.Name, Labels: labels, Options: v.Options}, nil)
		return err
	})
	if !errors.Is(err, Conflict) {
		return err
	}
	found, inspectErr := c.volume(ctx, v.Name)
	switch {
	case errors.Is(inspectErr, NotFound):
		return &Error{Op: "create volume", Object: v.Name, Class: Temporary, Cause: "it went away just now"}
	case inspectErr != nil:
		return inspectErr
	case v.TaskID == "":
		return nil
	}
	return fail(ctx, "adopt volume", v.Name, ownedBy(found.Labels, v.TaskID))
}

// HasVolume reports whether there is a volume of that name, whoever made it.
func (c *volumeAPI) HasVolume(ctx context.Context, name string) (bool, error) {
	_, err := c.volume(ctx, name)
	if errors.Is(err, NotFound) {
		return false, nil
	}
	return err == nil, err
}

func (c *volumeAPI) volume(ctx context.Context, name string) (found *entities.VolumeConfigResponse, err error) {
	err = c.ask(ctx, "inspect volume", name, func(ctx context.Context) (err error) {
		found, err = volumes.Inspect(ctx, name, nil)
		return err
	})
	// Podman also finds a volume by a prefix of its name.
	if err == nil && found.Name != name {
		return nil, &Error{Op: "inspect volume", Object: name, Class: NotFound, Cause: "no such volume"}
	}
	return found, err
}

// RemoveVolumes removes every volume that carries the task's label. One that a
// container still uses is an error of class Temporary, which names it; the others
// are removed all the same.
func (c *volumeAPI) RemoveVolumes(ctx context.Context, taskID string) error {
	var found []*entities.VolumeListReport
	err := c.ask(ctx, "list volumes of task", taskID, func(ctx context.Context) (err error) {
		found, err = volumes.List(ctx, new(volumes.ListOptions).WithFilters(map[string][]string{"label": {TaskLabel + "=" + taskID}}))
		return err
	})
	if err != nil {
		return err
	}
	var errs []error
	for _, v := range found {
		err := c.mutate(ctx, "remove volume", v.Name, func(ctx context.Context) error { return volumes.Remove(ctx, v.Name, new(volumes.RemoveOptions)) })
		if err != nil && !errors.Is(err, NotFound) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
