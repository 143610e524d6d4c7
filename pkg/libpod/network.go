package libpod

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/containers/common/libnetwork/types"
	"github.com/containers/podman/v5/pkg/bindings/network"
	entities "github.com/containers/podman/v5/pkg/domain/entities/types"
	"github.com/containers/podman/v5/pkg/specgen"
)

// NetworkSpec describes a task's own network: a bridge with a subnet that Podman
// chooses, and with name resolution.
type NetworkSpec struct {
	Name string
	// TaskID becomes the TaskLabel.
	TaskID string
	// Labels are further labels.
	Labels map[string]string
	// IPv6 adds a subnet of unique local IPv6 addresses. Containers on such a network
	// cannot start on a host whose kernel has no IPv6.
	IPv6 bool
}

// Bridge connects a container to a network, in a namespace of its own.
type Bridge struct {
	// Network is the name of the network.
	Network string
	// Aliases are names of the container on the network beside its own.
	Aliases []string
	// Members are the names of each container that may be on the network, by the place
	// that stands for its address: the first has the lowest one behind the gateway's.
	// They are in the hosts file of all, so that they lead there before the network's
	// name server has heard of them; to the IPv4 address alone, because not all
	// programs listen on the other. Place is this container's. Without Members, on a
	// network with others, addresses are left to Podman and names to the name server.
	Members [][]string `json:",omitempty"`
	Place   int        `json:",omitzero"`
	// Ports are published by the container.
	Ports []Port `json:",omitzero"`
	// Choose is as in PodSpec.
	Choose func([]Port) ([]Port, error) `json:"-"`
}

// EnsureNetwork makes the network, or adopts the task's own of that name.
//
// Classes to expect: Conflict.
func (c *networkAPI) EnsureNetwork(ctx context.Context, n NetworkSpec) error {
	all, err := labels(n.Labels, n.TaskID, n)
	if err != nil {
		return fail(ctx, "create network", n.Name, err)
	}
	err = c.create(ctx, "create network", n.Name, func(ctx context.Context) error {
		_, err := network.Create(ctx, &types.Network{
			Name: n.Name, Driver: types.BridgeNetworkDriver, DNSEnabled: true, IPv6Enabled: n.IPv6, Labels: all,
		})
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

// place gives a container its address on a network and the names of the others.
func (c *networkAPI) place(ctx context.Context, s *specgen.SpecGenerator, b Bridge) error {
	options := types.PerNetworkOptions{Aliases: b.Aliases}
	var found entities.NetworkInspectReport
	if len(b.Members) > 0 {
		var err error
		if found, err = c.network(ctx, b.Network); err != nil {
			return err
		}
	}
	for _, subnet := range found.Subnets {
		for i, names := range b.Members {
			at, err := addressOf(subnet, i)
			if err != nil {
				return fail(ctx, "find addresses on network", b.Network, err)
			}
			if i == b.Place {
				options.StaticIPs = append(options.StaticIPs, at)
				if four := at.To4(); four != nil {
					options.StaticMAC = hardwareAddressOf(four)
				}
			}
			if i == b.Place || at.To4() == nil {
				continue
			}
			for _, name := range names {
				s.HostAdd = append(s.HostAdd, name+":"+at.String())
			}
		}
	}
	s.Networks = map[string]types.PerNetworkOptions{b.Network: options}
	return nil
}

// hardwareAddressOf makes the hardware address of an IPv4 address: a locally administered
// one, unique on the network. One that changed at a restart would be unknown to the
// others for up to a minute, because Podman 4.3.1 announces none.
func hardwareAddressOf(four net.IP) types.HardwareAddr {
	return append(types.HardwareAddr{0x0a, 0x58}, four...)
}

// addressOf is the address that stands for a place on a network whose gateway has the
// first address, as Podman makes them.
func addressOf(subnet types.Subnet, place int) (net.IP, error) {
	first, ok := netip.AddrFromSlice(subnet.Subnet.IP)
	ones, _ := subnet.Subnet.Mask.Size()
	within := netip.PrefixFrom(first.Unmap(), ones)
	at := within.Masked().Addr().Next().Next()
	for range place {
		at = at.Next()
	}
	if !ok || !within.Contains(at.Next()) { // the last one is for broadcasts
		return nil, &Error{Class: InvalidSpec, Cause: fmt.Sprintf("the subnet %s has no address for %d containers", subnet.Subnet.String(), place+1)}
	}
	return at.AsSlice(), nil
}

// HasNetwork reports whether there is a network of the name, whoever made it.
func (c *networkAPI) HasNetwork(ctx context.Context, name string) (bool, error) {
	_, err := c.network(ctx, name)
	if errors.Is(err, NotFound) {
		return false, nil
	}
	return err == nil, err
}

func (c *networkAPI) network(ctx context.Context, name string) (found entities.NetworkInspectReport, err error) {
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
func (c *networkAPI) RemoveNetwork(ctx context.Context, name, taskID string) error {
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

// taskNetworks lists those that carry TaskLabel.
func (c *networkAPI) taskNetworks(ctx context.Context) (found []Found, err error) {
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
