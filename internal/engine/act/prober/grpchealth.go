package prober

import (
	"context"
	"net"
	"net/netip"

	"github.com/podtask/podtask/pkg/taskdef"
)

// GRPCHealth asks the health service of gRPC at an address of this host for the status of a service; empty for the
// whole server. It makes one attempt. The error says that nothing was learned.
func GRPCHealth(ctx context.Context, at netip.AddrPort, service string) (Result, error) {
	var d net.Dialer
	return target{dial: d.DialContext, host: at.Addr().String()}.do(ctx, taskdef.Action{GRPC: &taskdef.GRPCAction{Port: at.Port(), Service: service}})
}
