package libpod

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// need counts the uses of the service by a Client. It is safe for concurrent use.
type need struct {
	waits atomic.Int32              // for the end of a container
	last  atomic.Pointer[time.Time] // of the latest request
}

// request notes that a request is made.
func (n *need) request() {
	now := time.Now()
	n.last.Store(&now)
}

// wait notes that the end of a container is waited for, until done is called.
func (n *need) wait() (done func()) {
	n.waits.Add(1)
	return func() {
		n.request() // what comes after the end of a container needs the service
		n.waits.Add(-1)
	}
}

// now reports whether the service is needed: a container runs whose end will be handled, and
// whose stop must not wait for the start of a service, or a request was made within limit.
func (n *need) now(limit time.Duration) bool {
	return n.waits.Load() > 0 || time.Since(*n.last.Load()) < limit
}

// keepServiceRunning keeps one connection to podtask's own service open, while it is needed,
// until ctx ends. A service with an open connection is not idle, and its HTTP server closes a
// connection without requests after twice the idle time, so it pings twice per idle time. It
// uses a plain dialer, so that it never restarts a service that has exited.
func (c *Client) keepServiceRunning(ctx context.Context) {
	hold := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", c.service.path())
	}}
	defer hold.CloseIdleConnections()
	tick := time.NewTicker(c.service.idle / 2)
	defer tick.Stop()
	for {
		switch {
		case !c.need.now(2 * c.service.idle):
			hold.CloseIdleConnections()
			c.pool.CloseIdleConnections()
		case c.service.own():
			_ = ping(ctx, hold)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// ping makes one request.
func ping(ctx context.Context, t http.RoundTripper) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://d/_ping", nil)
	if err != nil {
		return err
	}
	res, err := t.RoundTrip(req)
	if err != nil {
		return err
	}
	// Read to the end, else the connection is closed instead of kept.
	_, err = io.Copy(io.Discard, res.Body)
	return errors.Join(err, res.Body.Close())
}
