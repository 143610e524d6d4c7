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

// Door is a TCP address of an agent on loopback.
type Door struct {
	What        string
	Listener    net.Listener
	Handler     http.Handler
	Connections int // how many may be open
	// Ended, if not nil, is called when requests are no longer served.
	Ended func()
}

// Serve answers until ctx ends.
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
