package libpod

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"

	"github.com/containers/podman/v5/libpod/define"
	"github.com/containers/podman/v5/pkg/bindings/network"
	"go.podman.io/common/libnetwork/types"

	"github.com/podtask/podtask/internal/lazy"
)

// If Podman's service is killed while it sets up the network of a container, the container's
// address may stay assigned until the network is removed. A container that never ran is created
// again with OwnNetwork.Spare. A container that has run must keep its files, so it is connected
// to the network again with another address. It keeps its hardware address, from which the
// missing address is derived.

// allocated matches Podman's error for an address that is already assigned.
var allocated = lazy.MustCompile(`requested ip address \S+ is already allocated`)

// heldAddress reports whether err is about an address that is still assigned.
func heldAddress(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Class == Interrupted && allocated.MatchString(e.Cause)
}

// moveAddress gives a container that has exited another address on its only network.
func (c *Client) moveAddress(ctx context.Context, name string, on OwnNetwork) error {
	data, err := c.inspect(ctx, name)
	if err != nil {
		return err
	}
	if data.State == nil || statusFrom(data.State.Status) != Exited || disconnected(data) || labelsOf(data)[TaskLabel] == "" || len(on.Members) == 0 {
		return &Error{Op: "change the address of container", Object: name, Class: Interrupted, Cause: addressHeld}
	}
	err = c.write(ctx, "disconnect container", name, 0, func(ctx context.Context) error {
		return network.Disconnect(ctx, on.Network, data.ID, nil)
	})
	if err != nil {
		return err
	}
	return c.connect(ctx, name, on)
}

// disconnected returns Observed.Disconnected. For a container that is not initialized, Podman
// reports a network with the name of the network mode and without any details.
func disconnected(data *define.InspectContainerData) bool {
	if labelsOf(data)[TaskLabel] == "" || data.HostConfig == nil || data.HostConfig.NetworkMode != "bridge" || data.NetworkSettings == nil {
		return false
	}
	for name, n := range data.NetworkSettings.Networks {
		if name != "bridge" || n.NetworkID != "bridge" || n.IPAddress != "" {
			return false
		}
	}
	return true
}

// connect connects a container that is not running to a network, with another address than
// that of its place.
func (c *Client) connect(ctx context.Context, name string, on OwnNetwork) error {
	options := types.PerNetworkOptions{Aliases: on.Aliases}
	found, err := c.network(ctx, on.Network)
	if err != nil {
		return err
	}
	for _, subnet := range found.Subnets {
		own, err := addressOf(subnet, on.Place)
		if err != nil {
			return err
		}
		if four := own.To4(); four != nil {
			options.StaticMAC = hardwareAddressOf(four)
		}
		at, err := otherAddress(subnet)
		if err != nil {
			return err
		}
		options.StaticIPs = append(options.StaticIPs, at)
	}
	return c.write(ctx, "connect container", name, 0, func(ctx context.Context) error {
		return network.Connect(ctx, on.Network, name, &options)
	})
}

// otherAddress returns a random address in the upper half of a subnet, where no member has its
// address.
func otherAddress(subnet types.Subnet) (net.IP, error) {
	ones, bits := subnet.Subnet.Mask.Size()
	half := 1 << max(min(bits-ones, 16)-1, 0)
	return addressOf(subnet, half+rand.IntN(max(half-4, 1)))
}

// missingOf returns Observed.Missing: from the label of a container that was created with
// OwnNetwork.Spare, otherwise from the hardware address, which contains the original address.
func missingOf(data *define.InspectContainerData) (missing []netip.Prefix) {
	labels := labelsOf(data)
	for _, text := range strings.Fields(labels[missingLabel]) {
		if p, err := netip.ParsePrefix(text); err == nil {
			missing = append(missing, p)
		}
	}
	if data.NetworkSettings == nil || labels[TaskLabel] == "" || len(missing) > 0 {
		return missing
	}
	for _, n := range data.NetworkSettings.Networks {
		hardware, err := net.ParseMAC(n.MacAddress)
		at, addrErr := netip.ParseAddr(n.IPAddress)
		if err != nil || addrErr != nil || len(hardware) != 6 || hardware[0] != 0x0a || hardware[1] != 0x58 {
			continue
		}
		own := netip.AddrFrom4([4]byte(hardware[2:]))
		if p := netip.PrefixFrom(own, n.IPPrefixLen); own != at && p.Masked().Contains(at) {
			missing = append(missing, p)
		}
	}
	return missing
}
