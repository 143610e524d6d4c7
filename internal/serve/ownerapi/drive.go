package ownerapi

import (
	"context"
	"net"
	"os"
	"sync"

	"github.com/podtask/podtask/internal/engine/run/owner"
	"github.com/podtask/podtask/pkg/api"
)

// Drive runs an owned task until it has settled or ctx ends, and serves it on l, which may
// be nil. It returns when both have ended.
func (h Host) Drive(ctx context.Context, o *owner.Owner, l net.Listener) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	if l != nil {
		v := api.ThisVersion(h.ProgramVersion)
		v.PID, v.Role, v.StateDir = os.Getpid(), "owner", h.StateDir
		server := api.NewServer(Backend{Owner: o, History: NewHistory(h.Engine), Pid: v.PID}, v)
		serving, stop := context.WithCancel(context.WithoutCancel(ctx))
		defer stop()
		wg.Go(func() {
			if err := server.Serve(serving, l); err != nil {
				h.Log.Warn("the task is no longer served to other commands", "error", err)
			}
		})
	}
	return o.Run(ctx)
}
