package netns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// addArg begins the helper's argument for AddAddresses.
const addArg = "add="

// AddAddresses gives each address, with the length of its network, to the interface in the
// network namespace of process pid that has an address of that network already. An address
// that is there is left as it is. The helper is that of ListenIn.
func AddAddresses(ctx context.Context, pid int, helper []string, addresses []netip.Prefix) error {
	list := make([]string, len(addresses))
	for i, a := range addresses {
		list[i] = a.String()
	}
	if err := enter(ctx, pid, helper, addArg+strings.Join(list, ",")); err != nil {
		return fmt.Errorf("add %s in the namespace of process %d: %w", strings.Join(list, ", "), pid, err)
	}
	return nil
}

// addHere adds a list of addresses in this namespace.
func addHere(list string) error {
	for text := range strings.SplitSeq(list, ",") {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return err
		}
		if err := addTo(p); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	return nil
}

func addTo(p netip.Prefix) error {
	links, err := netlink.LinkList()
	if err != nil {
		return err
	}
	for _, l := range links {
		has, err := netlink.AddrList(l, netlink.FAMILY_ALL)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(has, func(a netlink.Addr) bool { return p.Masked().String() == network(a.IPNet) }) {
			continue
		}
		// Its other owner is gone, so there is nothing to detect (IPv6).
		err = netlink.AddrAdd(l, &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}, Flags: unix.IFA_F_NODAD})
		if errors.Is(err, unix.EEXIST) {
			return nil
		}
		return err
	}
	return errors.New("no interface is in that network")
}

// network is the network of an interface's address.
func network(n *net.IPNet) string { return (&net.IPNet{IP: n.IP.Mask(n.Mask), Mask: n.Mask}).String() }
