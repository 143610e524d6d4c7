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

// Door is an HTTP server on a TCP address, with a limit of connections.
type Door struct {
	What        string // what it serves, for errors
	Listener    net.Listener
	Handler     http.Handler
	Connections int // how many may be open
	// Ended, if not nil, is called when requests are no longer served.
	Ended func()
}

// Serve serves requests until ctx ends.
func (d Door) Serve(ctx context.Context) error {
	server := &http.Server{
		Handler: d.Handler, ConnContext: connlimit.ConnContext,
		ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if d.Ended != nil {
		defer d.Ended()
	}
	limited := connlimit.New(connlimit.Share(8, d.Connections), nil).Listener(d.Listener)
	if err := server.Serve(limited); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", d.What, err)
	}
	return nil
}
