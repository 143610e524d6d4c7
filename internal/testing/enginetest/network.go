package enginetest

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/host/libpod"
)

// EnsureNetwork implements Podman.
func (f *Fake) EnsureNetwork(ctx context.Context, n libpod.NetworkSpec) error {
	_, err := request(ctx, f, "create network", n.Name, func() (struct{}, error) {
		switch {
		case n.TaskID == "":
			return struct{}{}, refusal(libpod.InvalidSpec, "a task ID is required")
		case f.networks[n.Name] != nil:
			return struct{}{}, refusal(libpod.Conflict, "network already exists")
		}
		f.networks[n.Name] = &n
		return struct{}{}, nil
	})
	if !errors.Is(err, libpod.Conflict) {
		return err
	}
	_, err = request(ctx, f, "adopt network", n.Name, func() (struct{}, error) {
		if found := f.networks[n.Name]; found != nil {
			return struct{}{}, owned(found.TaskID, n.TaskID)
		}
		return struct{}{}, refusal(libpod.Temporary, "it has just been removed")
	})
	return err
}

// RemoveNetwork implements Podman.
func (f *Fake) RemoveNetwork(ctx context.Context, name, taskID string) error {
	_, err := request(ctx, f, "remove network", name, func() (struct{}, error) {
		n := f.networks[name]
		if n == nil {
			return struct{}{}, nil
		}
		if err := owned(n.TaskID, taskID); err != nil {
			return struct{}{}, err
		}
		for _, c := range f.containers {
			if c.spec.Own != nil && c.spec.Own.Network == name {
				return struct{}{}, refusal(libpod.Temporary, "%q has associated containers with it: network is being used", name)
			}
		}
		delete(f.networks, name)
		maps.DeleteFunc(f.kept, func(at address, _ string) bool { return at.network == name })
		return struct{}{}, nil
	})
	return err
}

func (f *Fake) listNetworks() (found []libpod.Found) {
	for name, n := range f.networks {
		labels := maps.Clone(n.Labels)
		if labels == nil {
			labels = map[string]string{}
		}
		labels[libpod.TaskLabel] = n.TaskID
		found = append(found, libpod.Found{Kind: libpod.KindNetwork, Name: name, TaskID: n.TaskID, Labels: labels})
	}
	slices.SortFunc(found, func(a, b libpod.Found) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// address is a place on a network.
type address struct {
	network string
	place   int
}

// place is where the address that the container requests lies on its network: those of the
// members come first.
func (c *container) place() int {
	b := c.spec.Own
	free := uint64(253 - len(b.Members))
	if b.Spare == 0 || len(b.Members) == 0 {
		return b.Place
	}
	return len(b.Members) + int(b.Spare%free)
}

// addresses are those of a place.
func (c *container) addresses(place int) []netip.Addr {
	found := []netip.Addr{netip.AddrFrom4([4]byte{10, 89, 0, byte(2 + place)})}
	if c.ipv6 {
		found = append(found, netip.AddrFrom16([16]byte{0: 0xfd, 15: byte(2 + place)}))
	}
	return found
}

// keepAddress is the death of Podman's service between the assignment of an address and its
// record: nothing but the removal of the network releases the address.
func (o *objects) keepAddress(c *container) {
	o.kept[address{c.spec.Own.Network, c.place()}] = c.id
}

// move gives a container another address, which nothing else has.
func (c *container) move() {
	moved := *c.spec.Own
	moved.Spare = 100 + moved.Spare
	c.spec.Own, c.disconnected = &moved, false
}

// addressFree fails if Podman keeps the address that the container requests.
func (o *objects) addressFree(c *container) error {
	if !c.bridged() || c.disconnected {
		return nil
	}
	id := o.kept[address{c.spec.Own.Network, c.place()}]
	for _, other := range o.containers {
		if b := other.spec.Own; other != c && other.bridged() && b.Network == c.spec.Own.Network && len(b.Members) > 0 && other.place() == c.place() && other.connected() && !other.disconnected {
			id = other.id
		}
	}
	if id != "" {
		return refusal(libpod.Interrupted, "IPAM error: requested ip address %s is already allocated to container ID %s", c.addresses(c.place())[0], id)
	}
	return nil
}
