package connect

import (
	"context"
	"net"
	"os"
	"sync"

	"github.com/podtask/podtask/internal/engine/owner"
	"github.com/podtask/podtask/internal/serve"
	"github.com/podtask/podtask/pkg/api"
)

// Drive runs an owned task until it has settled or ctx ends, and serves it on l, which may
// be nil. It returns when both have ended.
func (s *Connector) Drive(ctx context.Context, o *owner.Owner, l net.Listener) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	if l != nil {
		v := api.ThisVersion(s.ProgramVersion)
		v.PID, v.Role, v.StateDir = os.Getpid(), "owner", s.StateDir
		server := api.NewServer(serve.OwnerBackend{Owner: o, History: serve.NewHistory(s.Engine), Pid: v.PID}, v)
		serving, stop := context.WithCancel(context.WithoutCancel(ctx))
		defer stop()
		wg.Go(func() {
			if err := server.Serve(serving, l); err != nil {
				s.Log.Warn("the task is no longer served to other commands", "error", err)
			}
		})
	}
	return o.Run(ctx)
}

// Listen opens the socket of a task. If that fails, the task runs without a socket, and
// other commands cannot reach it.
func (s *Connector) Listen(id string) net.Listener {
	l, err := api.Listen(s.Socket(id))
	if err != nil {
		s.Warnf("other commands cannot reach the task while this one runs: %v", err)
		return nil
	}
	return l
}
