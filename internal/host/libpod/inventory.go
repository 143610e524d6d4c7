package libpod

import (
	"context"
	"errors"

	"github.com/containers/podman/v5/libpod/define"
	"github.com/containers/podman/v5/pkg/bindings/containers"
	"github.com/containers/podman/v5/pkg/bindings/pods"
	entities "github.com/containers/podman/v5/pkg/domain/entities/types"
)

// Inventory is everything that Podman knows, also what others made.
type Inventory struct {
	// Pods and Containers have the IDs.
	Pods, Containers map[string]bool
	// Namespaces has the paths of the network namespaces of containers.
	Namespaces map[string]bool
	// StorageOnly are the names of containers that only the storage knows.
	StorageOnly []string
}

// Inventory lists everything that Podman knows. It inspects each container.
func (c *Client) Inventory(ctx context.Context) (Inventory, error) {
	known := Inventory{Pods: map[string]bool{}, Containers: map[string]bool{}, Namespaces: map[string]bool{}}
	var cs []entities.ListContainer
	err := c.ask(ctx, "list", "containers", func(ctx context.Context) (err error) {
		cs, err = containers.List(ctx, new(containers.ListOptions).WithAll(true).WithExternal(true))
		return err
	})
	if err != nil {
		return known, err
	}
	for _, m := range cs {
		if m.State == "storage" { // libpod's word for it, in 4.3.1 to 5.x
			known.StorageOnly = append(known.StorageOnly, m.Names...)
			continue
		}
		known.Containers[m.ID] = true
		var data *define.InspectContainerData
		err := c.ask(ctx, "inspect container", m.ID, func(ctx context.Context) (err error) {
			data, err = containers.Inspect(ctx, m.ID, nil)
			return err
		})
		switch {
		case errors.Is(err, NotFound):
		case err != nil:
			return known, err
		case data.NetworkSettings != nil && data.NetworkSettings.SandboxKey != "":
			known.Namespaces[data.NetworkSettings.SandboxKey] = true
		}
	}
	var ps []*entities.ListPodsReport
	err = c.ask(ctx, "list", "pods", func(ctx context.Context) (err error) {
		ps, err = pods.List(ctx, nil)
		return err
	})
	for _, p := range ps {
		known.Pods[p.Id] = true
	}
	return known, err
}

// FreeStorage removes a container that only the storage knows. It succeeds if there is
// none, and fails if Podman knows the container.
func (c *Client) FreeStorage(ctx context.Context, name string) error {
	if _, err := c.inspect(ctx, name); !errors.Is(err, NotFound) {
		if err == nil {
			err = &Error{Op: "free storage", Object: name, Class: Conflict, Cause: "it belongs to a container"}
		}
		return err
	}
	return c.remove(ctx, name)
}
