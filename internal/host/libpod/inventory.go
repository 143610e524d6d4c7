package libpod

import (
	"context"
	"errors"

	"github.com/containers/podman/v5/libpod/define"
	"github.com/containers/podman/v5/pkg/bindings/containers"
	"github.com/containers/podman/v5/pkg/bindings/pods"
	entities "github.com/containers/podman/v5/pkg/domain/entities/types"
)

// Inventory lists all pods and containers of the user, including those of other tools.
type Inventory struct {
	// Pods and Containers are the sets of IDs.
	Pods, Containers map[string]bool
	// Namespaces is the set of paths of the containers' network namespaces.
	Namespaces map[string]bool
	// StorageOnly are the names of entries in Podman's storage that belong to no container.
	StorageOnly []string
}

// Inventory lists all pods and containers. It inspects each container.
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
		if m.State == "storage" { // the state in Podman 4.3.1 to 5.x
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

// FreeStorage removes an entry of Podman's storage that belongs to no container. It succeeds
// if there is none, and returns Conflict if a container has the name.
func (c *Client) FreeStorage(ctx context.Context, name string) error {
	if _, err := c.inspect(ctx, name); !errors.Is(err, NotFound) {
		if err == nil {
			err = &Error{Op: "free storage", Object: name, Class: Conflict, Cause: "it belongs to a container"}
		}
		return err
	}
	return c.remove(ctx, name)
}
