package libpod

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"strings"

	"github.com/containers/podman/v5/pkg/bindings/network"
	entities "github.com/containers/podman/v5/pkg/domain/entities/types"
	"github.com/containers/podman/v5/pkg/specgen"
	"go.podman.io/common/libnetwork/types"
)

// NetworkSpec describes a task's own network: a bridge with name resolution and a subnet
// chosen by Podman.
type NetworkSpec struct {
	Name string
	// TaskID becomes the TaskLabel.
	TaskID string
	// Labels are additional labels.
	Labels map[string]string
	// IPv6 adds a subnet of unique local IPv6 addresses. Containers on such a network
	// cannot start on a host whose kernel has no IPv6.
	IPv6 bool
}

// OwnNetwork describes the network of a container that has its own network namespace.
type OwnNetwork struct {
	// Network is as in PodSpec. The fields up to Spare apply to a network with a name.
	Network string
	// Aliases are additional names of the container on the network.
	Aliases []string
	// Members lists the names of each container that may join the network, in the order
	// of their addresses: the first container gets the first address after the gateway's.
	// All hosts files contain these names, so that they resolve before the network's name
	// server knows them, but only with the IPv4 address, because not all programs listen
	// on IPv6. Place is the index of this container. Without Members, on a network shared
	// with others, Podman assigns addresses and the name server resolves names.
	Members [][]string `json:",omitempty"`
	Place   int        `json:",omitzero"`
	// Spare, if not 0, requests another address than that of Place, which may still be
	// assigned to a container that no longer exists. Different numbers request different
	// addresses, as long as the subnet has enough. The caller must add the address of Place:
	// see Observed.Missing.
	Spare uint64 `json:"-"`
	// Ports are the ports that the container publishes.
	Ports []Port `json:",omitzero"`
	// Choose is as in PodSpec.
	Choose func([]Port) ([]Port, error) `json:"-"`
}

// EnsureNetwork creates the network, or adopts the task's existing one of that name.
//
// Classes to expect: Conflict.
func (c *Client) EnsureNetwork(ctx context.Context, n NetworkSpec) error {
	all, err := labels(n.Labels, n.TaskID, n)
	if err != nil {
		return fail(ctx, "create network", n.Name, err)
	}
	err = c.mutate(ctx, "create network", n.Name, func(ctx context.Context) error {
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
		return &Error{Op: "create network", Object: n.Name, Class: Temporary, Cause: "it has just been removed"}
	case inspectErr != nil:
		return inspectErr
	}
	return fail(ctx, "adopt network", n.Name, ownedBy(found.Labels, n.TaskID))
}

// place sets the container's address on a network and the names of the other containers.
func (c *Client) place(ctx context.Context, s *specgen.SpecGenerator, b OwnNetwork) error {
	options := types.PerNetworkOptions{Aliases: b.Aliases}
	var found entities.NetworkInspectReport
	if len(b.Members) > 0 {
		var err error
		if found, err = c.network(ctx, b.Network); err != nil {
			return err
		}
	}
	var missing []string
	for _, subnet := range found.Subnets {
		for i, names := range b.Members {
			at, err := addressOf(subnet, i)
			if err != nil {
				return fail(ctx, "find addresses on network", b.Network, err)
			}
			if i == b.Place {
				if four := at.To4(); four != nil {
					options.StaticMAC = hardwareAddressOf(four)
				}
				request := at
				if spare := b.spareOf(subnet); spare != nil {
					request = spare
					missing = append(missing, (&net.IPNet{IP: at, Mask: subnet.Subnet.Mask}).String())
				}
				options.StaticIPs = append(options.StaticIPs, request)
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
	if len(missing) > 0 {
		s.Labels = maps.Clone(s.Labels)
		s.Labels[missingLabel] = strings.Join(missing, " ")
	}
	return nil
}

// spareOf returns the address on a subnet that Spare requests. It is nil if Spare is 0 or the
// subnet has no address left.
func (b OwnNetwork) spareOf(subnet types.Subnet) net.IP {
	ones, bits := subnet.Subnet.Mask.Size()
	free := 1<<min(bits-ones, 16) - 3 - len(b.Members) // without the network, the gateway and the broadcast address
	if b.Spare == 0 || free <= 0 {
		return nil
	}
	at, err := addressOf(subnet, len(b.Members)+int(b.Spare%uint64(free)))
	if err != nil {
		return nil
	}
	return at
}

// hardwareAddressOf derives a locally administered MAC address from an IPv4 address,
// unique on the network. If it changed at a restart, other containers would not reach
// this one for up to a minute, because Podman 4.3.1 does not announce it.
func hardwareAddressOf(four net.IP) types.HardwareAddr {
	return append(types.HardwareAddr{0x0a, 0x58}, four...)
}

// addressOf returns the address for a place on a network whose gateway has the first
// address, as in networks created by Podman.
func addressOf(subnet types.Subnet, place int) (net.IP, error) {
	first, ok := netip.AddrFromSlice(subnet.Subnet.IP)
	ones, _ := subnet.Subnet.Mask.Size()
	within := netip.PrefixFrom(first.Unmap(), ones)
	at := within.Masked().Addr().Next().Next()
	for range place {
		at = at.Next()
	}
	if !ok || !within.Contains(at.Next()) { // the last one is the broadcast address
		return nil, &Error{Class: InvalidSpec, Cause: fmt.Sprintf("the subnet %s has no address for %d containers", subnet.Subnet.String(), place+1)}
	}
	return at.AsSlice(), nil
}

// HasNetwork reports whether a network of that name exists, whichever tool created it.
func (c *Client) HasNetwork(ctx context.Context, name string) (bool, error) {
	_, err := c.network(ctx, name)
	return wasFound(err)
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

// RemoveNetwork removes the task's network. It succeeds if the network does not exist.
// The class is Conflict if it belongs to another task, and Temporary if a container still
// uses it.
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
	err = c.erase(ctx, c.removals, "remove network", name, func(ctx context.Context) error {
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

// taskNetworks lists the networks with TaskLabel.
func (c *Client) taskNetworks(ctx context.Context) (found []Found, err error) {
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
