package libpod

import (
	"context"
	"errors"

	"github.com/containers/common/libnetwork/types"
	"github.com/containers/podman/v5/pkg/bindings/network"
	entities "github.com/containers/podman/v5/pkg/domain/entities/types"
)

// NetworkSpec describes a task's own network: a bridge with a subnet that Podman
// chooses, and with name resolution.
type NetworkSpec struct {
	Name string
	// TaskID becomes the TaskLabel.
	TaskID string
	// Labels are further labels.
	Labels map[string]string
}

// Bridge connects a container to a network, in a namespace of its own.
type Bridge struct {
	// Network is the name of the network.
	Network string
	// Aliases are names of the container on the network beside its own.
	Aliases []string
	// Ports are published by the container.
	Ports []Port `json:",omitzero"`
	// Choose is as in PodSpec.
	Choose func([]Port) ([]Port, error) `json:"-"`
}

// EnsureNetwork makes the network, or adopts the task's own of that name.
//
// Classes to expect: Conflict.
func (c *Client) EnsureNetwork(ctx context.Context, n NetworkSpec) error {
	all, err := labels(n.Labels, n.TaskID, n)
	if err != nil {
		return fail(ctx, "create network", n.Name, err)
	}
	err = c.create(ctx, "create network", n.Name, func(ctx context.Context) error {
		_, err := network.Create(ctx, &types.Network{Name: n.Name, Driver: types.BridgeNetworkDriver, DNSEnabled: true, Labels: all})
		return err
	})
	if !errors.Is(err, Conflict) {
		return err
	}
	found, inspectErr := c.network(ctx, n.Name)
	switch {
	case errors.Is(inspectErr, NotFound):
		return &Error{Op: "create network", Object: n.Name, Class: Temporary, Cause: "it went away just now"}
	case inspectErr != nil:
		return inspectErr
	}
	return fail(ctx, "adopt network", n.Name, ownedBy(found.Labels, n.TaskID))
}

func (c *Client) network(ctx context.Context, name string) (found entities.NetworkInspectReport, err error) {
	err = c.ask(ctx, "inspect network", name, func(ctx context.Context) (err error) {
		found, err = network.Inspect(ctx, name, nil)
		return err
	})
	// Podman also finds a network by a prefix of its id.
	if err == nil && found.Name != name {
		return found, &Error{Op: "inspect network", Object: name, Class: NotFound, Cause: "no such network"}
	}
	return found, err
}

// RemoveNetwork removes the task's network. An absent one is success, that of
// somebody else a Conflict. One that a container still uses is an error of class
// Temporary.
func (c *Client) RemoveNetwork(ctx context.Context, name, taskID string) error {
	found, err := c.network(ctx, name)
	switch {
	case errors.Is(err, NotFound):
		return nil
	case err != nil:
		return err
	}
	if err := ownedBy(found.Labels, taskID); err != nil {
		return fail(ctx, "remove network", name, err)
	}
	err = c.mutate(ctx, "remove network", name, func(ctx context.Context) error {
		reports, err := network.Remove(ctx, name, nil)
		for _, r := range reports {
			err = errors.Join(err, r.Err)
		}
		return err
	})
	if errors.Is(err, NotFound) {
		return nil
	}
	return err
}

// networks lists those that carry TaskLabel.
func (c *Client) networks(ctx context.Context) (found []Found, err error) {
	var all []types.Network
	err = c.ask(ctx, "list", "networks", func(ctx context.Context) (err error) {
		all, err = network.List(ctx, new(network.ListOptions).WithFilters(map[string][]string{"label": {TaskLabel}}))
		return err
	})
	for _, n := range all {
		found = append(found, Found{Kind: KindNetwork, ID: n.ID, Name: n.Name, TaskID: n.Labels[TaskLabel], Labels: n.Labels})
	}
	return found, err
}
