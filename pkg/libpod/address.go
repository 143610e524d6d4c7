package libpod

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/containers/common/libnetwork/types"
	"github.com/containers/podman/v5/libpod/define"
	"github.com/containers/podman/v5/pkg/bindings/network"
)

// If Podman's service is killed while it sets up the network of a container, its address may
// stay assigned until the network is removed. A container that never ran is created again with
// Bridge.Spare. One that has run keeps its files: it is connected to the network again, with
// another address and the same hardware address, which tells the address that it lacks.

// allocated is how Podman refuses an address that is assigned.
var allocated = regexp.MustCompile(`requested ip address (\S+) is already allocated`)

// heldAddress returns the address that Podman keeps, if that is what err is about.
func heldAddress(err error) (held netip.Addr, ok bool) {
	var e *Error
	if !errors.As(err, &e) || e.Class != Interrupted {
		return held, false
	}
	found := allocated.FindStringSubmatch(e.Cause)
	if found == nil {
		return held, false
	}
	held, err = netip.ParseAddr(found[1])
	return held, err == nil
}

// moveAddress gives a container that has exited another address on the only network that it
// is connected to.
func (c *containerAPI) moveAddress(ctx context.Context, name string, held netip.Addr) error {
	data, err := c.inspect(ctx, name)
	if err != nil {
		return err
	}
	refused := &Error{Op: "change the address of container", Object: name, Class: Interrupted, Cause: addressHeld}
	if data.State == nil || statusFrom(data.State.Status) != Exited || data.NetworkSettings == nil || len(data.NetworkSettings.Networks) != 1 || labelsOf(data)[TaskLabel] == "" {
		return refused
	}
	own := held
	if missing := missingOf(data); len(missing) > 0 && missing[0].Addr().Is4() {
		own = missing[0].Addr() // the one that is held is another one already
	}
	for on, settings := range data.NetworkSettings.Networks {
		found, err := c.networks.network(ctx, on)
		if err != nil {
			return err
		}
		options := types.PerNetworkOptions{
			StaticMAC: hardwareAddressOf(own.AsSlice()),
			Aliases:   slices.DeleteFunc(slices.Clone(settings.Aliases), func(a string) bool { return strings.HasPrefix(data.ID, a) }), // Podman adds it
		}
		for _, subnet := range found.Subnets {
			at, err := otherAddress(subnet)
			if err != nil {
				return err
			}
			options.StaticIPs = append(options.StaticIPs, at)
		}
		if !held.Is4() || len(options.StaticIPs) == 0 {
			return refused
		}
		return reconnect(ctx, c, on, data, options)
	}
	return refused
}

// reconnect connects a container that does not run to a network with other options.
func reconnect(ctx context.Context, c *containerAPI, on string, data *define.InspectContainerData, options types.PerNetworkOptions) error {
	return c.write(ctx, "change the address of container", data.Name, 0, func(ctx context.Context) error {
		if err := network.Disconnect(ctx, on, data.ID, nil); err != nil {
			return err
		}
		return network.Connect(ctx, on, data.ID, &options)
	})
}

// otherAddress returns an address in the upper half of a subnet, where those of no member are.
func otherAddress(subnet types.Subnet) (net.IP, error) {
	ones, bits := subnet.Subnet.Mask.Size()
	half := 1 << max(min(bits-ones, 16)-1, 0)
	return addressOf(subnet, half+rand.IntN(max(half-4, 1)))
}

// missingOf returns Observed.Missing. A container that was created with Bridge.Spare has a
// label with it; of another one the hardware address tells the address that it should have.
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
