package libpod

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/containers/podman/v5/pkg/bindings/containers"
)

// AttachContainer connects to the main program of a running container; terminal says whether it
// has one. Input is passed on only if the container was created with Stdin. When ctx ends, the
// stream is closed. The class is NotRunning if the container is not running.
func (c *execAPI) AttachContainer(ctx context.Context, name string, terminal, stdin bool) (*ExecStream, error) {
	query := url.Values{"stream": {"true"}, "stdout": {"true"}, "stderr": {"true"}, "logs": {"false"}, "stdin": {strconv.FormatBool(stdin)}}
	// What the program writes first may look like an error of Podman, and is none.
	stream := &ExecStream{client: c, ctx: ctx, id: name, terminal: terminal, begun: true}
	err := c.await(ctx, "attach to container", name, func(ctx context.Context) error {
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
func (c *execAPI) ResizeContainer(ctx context.Context, name string, size Size) error {
	return c.ask(ctx, "resize the terminal of container", name, func(ctx context.Context) error {
		return containers.ResizeContainerTTY(ctx, name, new(containers.ResizeTTYOptions).WithHeight(int(size.Rows)).WithWidth(int(size.Columns)))
	})
}
