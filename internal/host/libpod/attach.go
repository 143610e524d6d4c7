package libpod

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/containers/podman/v5/pkg/bindings/containers"
)

// AttachContainer connects to the main program of a running container; terminal says whether
// the container has a terminal. Input is passed on only if the container was created with
// Stdin. When ctx ends, the stream is closed. The class is NotRunning if the container is not
// running.
func (c *Client) AttachContainer(ctx context.Context, name string, terminal, stdin bool) (*ExecStream, error) {
	query := url.Values{"stream": {"true"}, "stdout": {"true"}, "stderr": {"true"}, "logs": {"false"}, "stdin": {strconv.FormatBool(stdin)}}
	// The first output may look like an error of Podman, but Podman writes none here.
	stream := &ExecStream{client: c, ctx: ctx, id: name, terminal: terminal, hasOutput: true}
	err := c.watch(ctx, "attach to container", name, func(ctx context.Context) error {
		return stream.open(ctx, nil, query, "/containers/%s/attach", name)
	})
	switch {
	case errors.Is(err, Conflict):
		return nil, &Error{Op: "attach to container", Object: name, Class: NotRunning, Cause: err.(*Error).Cause, Status: http.StatusConflict}
	case err != nil:
		return nil, err
	case stream.body == nil:
		return nil, &Error{Op: "attach to container", Object: name, Class: Other, Cause: "Podman did not return a connection to the program"}
	}
	return stream, nil
}

// ResizeContainer sets the size of the terminal of a container's main program.
func (c *Client) ResizeContainer(ctx context.Context, name string, size Size) error {
	return c.resize(ctx, name, func(ctx context.Context) error {
		return c.ask(ctx, "resize the terminal of container", name, func(ctx context.Context) error {
			return containers.ResizeContainerTTY(ctx, name, new(containers.ResizeTTYOptions).WithHeight(int(size.Rows)).WithWidth(int(size.Columns)))
		})
	})
}

// resizeAgain is the pause before the last size of a terminal is sent a second time.
const resizeAgain = 500 * time.Millisecond

// resize calls set, which sets the size of a terminal. conmon may lose a size that follows soon
// after another, as when a window is dragged, so the last size is set a second time.
func (c *Client) resize(ctx context.Context, id string, set func(context.Context) error) error {
	err := set(ctx)
	if err == nil {
		c.resizes.after(resizeAgain, id, func() { _ = set(ctx) }) // the program may have ended
	}
	return err
}

// delayedCalls holds calls that are made later, at most one for each name. It is safe for concurrent use.
type delayedCalls struct {
	mu     sync.Mutex
	timers map[string]*time.Timer
}

// after makes a call after a pause. It replaces a call of the same name that has not been made yet.
func (d *delayedCalls) after(pause time.Duration, name string, call func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timers == nil {
		d.timers = make(map[string]*time.Timer)
	}
	if t := d.timers[name]; t != nil {
		t.Stop()
	}
	var own *time.Timer
	own = time.AfterFunc(pause, func() {
		d.mu.Lock()
		if d.timers[name] == own {
			delete(d.timers, name)
		}
		d.mu.Unlock()
		call()
	})
	d.timers[name] = own
}
