package main

import (
	"context"
	"net"
	"os"
	"sync"

	"github.com/podtask/podtask/internal/owner"
	"github.com/podtask/podtask/pkg/api"
)

// carry drives an owned task until it has settled or ctx ends and serves it on l
// meanwhile. L may be nil. It returns when neither runs any more.
func (s *session) carry(ctx context.Context, o *owner.Owner, l net.Listener) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	if l != nil {
		v := api.ThisVersion(s.version)
		v.PID, v.Role, v.StateDir = os.Getpid(), "owner", s.stateDir
		server := api.NewServer(ownedTask{o, history{s.host}, v.PID}, v)
		serving, stop := context.WithCancel(context.WithoutCancel(ctx))
		defer stop()
		wg.Go(func() {
			if err := server.Serve(serving, l); err != nil {
				s.log.Warn("other commands cannot reach this task any more", "error", err)
			}
		})
	}
	return o.Run(ctx)
}

// listen opens the socket of a task. The task is run without one if need be: only
// other commands lack it.
func (s *session) listen(id string) net.Listener {
	l, err := api.Listen(s.socket(id))
	if err != nil {
		s.warn("other commands cannot reach the task while this one runs: %v", err)
		return nil
	}
	return l
}
