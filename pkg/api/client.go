package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/podtask/podtask/pkg/lifecycle"
)

// ErrNoServer is the error if no living process serves the socket.
var ErrNoServer = errors.New("no process serves the socket")

// Client talks to a Server. It is safe for concurrent use. Failures that the
// server reports are *Failure.
type Client struct {
	*ServiceClient
	*connection
}

// connection sends requests to the server of a socket.
type connection struct {
	http   *http.Client
	socket string
	// answered: a server has returned its version.
	answered atomic.Bool
}

// answer limits the time that a server may take to return its version. A process that was
// stopped (SIGSTOP) must not block its clients.
const answer = 5 * time.Second

// NewClient returns a client of the server that serves a socket, now or later. The first call, and the next ones while
// there is no server, check as Dial does whether it answers, and have the errors of Dial. After that the client connects
// again by itself when the server has restarted.
func NewClient(socket string) *Client {
	conn := &connection{socket: socket, http: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dialUnix(ctx, socket) },
	}}}
	return &Client{ServiceClient: &ServiceClient{conn}, connection: conn}
}

// Dial connects to the server of a socket and checks that it answers within five
// seconds. The error is ErrNoServer if there is none. The caller closes the
// client.
func Dial(ctx context.Context, socket string) (*Client, error) {
	c := NewClient(socket)
	if err := c.check(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Close closes idle connections. Calls in progress continue.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Version returns what the server is.
func (c *Client) Version(ctx context.Context) (Version, error) {
	var v Version
	return v, c.call(ctx, http.MethodGet, "version", nil, &v)
}

// Tasks returns the tasks of the server.
func (c *Client) Tasks(ctx context.Context) ([]Task, error) {
	var tasks []Task
	return tasks, c.call(ctx, http.MethodGet, "tasks", nil, &tasks)
}

// Task returns one task by its id, a prefix or its name.
func (c *Client) Task(ctx context.Context, ref string) (Task, error) {
	var t Task
	return t, c.call(ctx, http.MethodGet, taskPath(ref), nil, &t)
}

// Adopt asks an agent to own a task that is recorded and has no owner. It returns
// when the agent owns it.
func (c *Client) Adopt(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodPost, taskPath(id)+"/adopt", nil, nil)
}

// Stop asks for a task to be stopped, with force to be killed. By names the
// requester in the stopped reason. It returns when the request is accepted.
func (c *Client) Stop(ctx context.Context, id, by string, force bool) error {
	body, err := json.Marshal(stopRequest{By: by, Force: force})
	if err != nil {
		return err
	}
	return c.call(ctx, http.MethodPost, taskPath(id)+"/stop", body, nil)
}

// Remove asks for a task to be removed. Without force it must have stopped. It
// returns when the request is accepted.
func (c *Client) Remove(ctx context.Context, id, by string, force bool) error {
	query := url.Values{"by": {by}, "force": {strconv.FormatBool(force)}}
	return c.call(ctx, http.MethodDelete, taskPath(id)+"?"+query.Encode(), nil, nil)
}

// Update asks for the quota of a task's record to be replaced. It returns when the
// request is accepted.
func (c *Client) Update(ctx context.Context, id string, q lifecycle.Quota) error {
	body, err := json.Marshal(q)
	if err != nil {
		return err
	}
	return c.call(ctx, http.MethodPut, taskPath(id)+"/quota", body, nil)
}

// Pause pauses the running containers of a task, or resumes them. It returns when Podman
// has done it; the task shows it a little later.
func (c *Client) Pause(ctx context.Context, id string, pause bool) error {
	verb := "/unpause"
	if pause {
		verb = "/pause"
	}
	return c.call(ctx, http.MethodPost, taskPath(id)+verb, nil, nil)
}

// RestartContainer asks for a running container to be stopped and started again. It returns when the request is
// accepted; the container's RestartCount grows when it has been started.
func (c *Client) RestartContainer(ctx context.Context, id, container string) error {
	return c.call(ctx, http.MethodPost, taskPath(id)+"/containers/"+url.PathEscape(container)+"/restart", nil, nil)
}

// Watch calls fn with the task now and after each change (some in between may be
// skipped) until fn returns false, ctx ends or no change can follow.
// It returns nil in the first and the last case, and an error that wraps
// io.ErrUnexpectedEOF when the server died.
func (c *Client) Watch(ctx context.Context, id string, fn func(Task) bool) error {
	err := readLines(ctx, c.connection, taskPath(id)+"/watch", func(t Task) error {
		if !fn(t) {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

var errEnough = errors.New("enough")

func taskPath(ref string) string { return "tasks/" + url.PathEscape(ref) }

// call makes a request and reads the reply into out, unless that is nil.
func (c *connection) call(ctx context.Context, method, path string, body []byte, out any) error {
	resp, err := c.do(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return fmt.Errorf("%s %s: read the reply: %w", method, path, err)
	}
	return nil
}

// check asks for the version of the server, until one has answered.
func (c *connection) check(ctx context.Context) error {
	if c.answered.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	resp, err := c.send(ctx, http.MethodGet, "version", nil)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%s: %w", c.socket, ErrNoServer)
	case err != nil:
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(new(Version)); err != nil {
		return fmt.Errorf("GET version: read the reply: %w", err)
	}
	c.answered.Store(true)
	return nil
}

// do makes a request of a server that answers. The caller closes the body.
func (c *connection) do(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	if err := c.check(ctx); err != nil {
		return nil, err
	}
	return c.send(ctx, method, path, body)
}

// send makes a request. The caller closes the body.
func (c *connection) send(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://podtask/v1/"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err // its URL names a host that does not exist
		}
		return nil, fmt.Errorf("ask %s: %w", c.socket, err)
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, readFailure(resp)
}
