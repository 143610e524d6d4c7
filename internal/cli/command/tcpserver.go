package command

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/podtask/podtask/pkg/api/connlimit"
)

// TCPServer is an HTTP server on a TCP address, with a limit of connections.
type TCPServer struct {
	What        string // what it serves, for errors
	Listener    net.Listener
	Handler     http.Handler
	Connections int // how many may be open
	// Ended, if not nil, is called when requests are no longer served.
	Ended func()
}

// Serve serves requests until ctx ends.
func (s TCPServer) Serve(ctx context.Context) error {
	server := &http.Server{
		Handler: s.Handler, ConnContext: connlimit.ConnContext,
		ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if s.Ended != nil {
		defer s.Ended()
	}
	limited := connlimit.New(connlimit.Share(8, s.Connections), nil).Listener(s.Listener)
	if err := server.Serve(limited); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", s.What, err)
	}
	return nil
}
