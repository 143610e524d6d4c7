package netns

import (
	"context"
	"net"
	"net/netip"
)

// Helper is a program with its arguments that does nothing but call Help with the argument
// that is added; see ListenIn. It is safe for concurrent use.
type Helper []string

// CanEnter returns why the other methods would fail for any process; nil if they would not.
func (Helper) CanEnter() error { return CanEnter() }

// Listen is ListenIn with this helper.
func (h Helper) Listen(ctx context.Context, pid int, addr netip.AddrPort) (net.Listener, []netip.Addr, error) {
	return ListenIn(ctx, pid, h, addr)
}

// AddAddresses is the function AddAddresses with this helper.
func (h Helper) AddAddresses(ctx context.Context, pid int, addresses []netip.Prefix) error {
	return AddAddresses(ctx, pid, h, addresses)
}
