package adapter

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/podtask/podtask/internal/aws/datachannel"
	"github.com/podtask/podtask/internal/aws/ecsexec"
	"github.com/podtask/podtask/internal/aws/portforward"
)

// connectTimeout limits how long it takes to connect to a port of a container.
const connectTimeout = 10 * time.Second

// forwarding is an ecsexec.Forwarder.
type forwarding struct{ *portforward.Forwarder }

// Resize implements ecsexec.Program.
func (forwarding) Resize(context.Context, datachannel.Size) error { return nil }

// Wait implements ecsexec.Program.
func (forwarding) Wait(context.Context) (int, error) { return 0, nil }

// forward forwards a port of a container. It connects as a program in the container would, to
// 127.0.0.1 and else to ::1, so the port need not be published.
func (e ECS) forward(ctx context.Context, t ecsexec.Target) (ecsexec.Program, error) {
	f, err := portforward.New(ctx, func(ctx context.Context) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, connectTimeout)
		defer cancel()
		s, err := e.backend.Engine.Tasks.Get(t.Task)
		if err != nil {
			return nil, err
		}
		var failed error
		for _, host := range []string{"127.0.0.1", "::1"} {
			conn, err := e.backend.Engine.Prober.Dial(ctx, e.present(s), t.Container, net.JoinHostPort(host, fmt.Sprint(t.Forward.Port)))
			if err == nil {
				return conn, nil
			}
			if failed == nil {
				failed = err
			}
		}
		return nil, failed
	})
	return forwarding{f}, err
}
