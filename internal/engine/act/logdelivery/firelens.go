package logdelivery

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"github.com/podtask/podtask/internal/engine/facts/taskspec"
	"github.com/podtask/podtask/internal/logs/firelens"
	"github.com/podtask/podtask/internal/logs/logsend/forward"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/netns"
	"github.com/podtask/podtask/pkg/taskdef"
	"github.com/podtask/podtask/pkg/taskdef/logdriver"
)

// fireLens returns a sender to the log router of a task. Over its socket, a fluentd does not
// acknowledge.
func (v *Servers) fireLens(s lifecycle.State, i int, o logdriver.Origin) Sender {
	router := taskdef.RouterOf(s.Task, s.Options.Logs)
	c := forward.Config{
		Tag: logdriver.FireLensTag(s.Task.Containers[i].Name, s.ID), Members: forward.ContainerMembers(logdriver.Attributes{}, o),
		SubSecond: true, Ack: true,
	}
	if !taskspec.RouterListens(s.Task) {
		c.Ack = !s.Task.Containers[router].FireLens.Fluentd()
		c.Dial = func(ctx context.Context) (net.Conn, error) { return v.dialSocket(ctx, s, router) }
		return forward.New(c)
	}
	d := &netns.Dialer{Helper: v.NetnsHelper, PID: func(ctx context.Context) (int, error) { return v.process(ctx, s, router) }}
	c.Dial = func(ctx context.Context) (net.Conn, error) {
		defer d.Close() // the other sockets are of the network of this run of the router
		return d.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", firelens.Port))
	}
	return forward.New(c)
}

// process is the main process of container i.
func (v *Servers) process(ctx context.Context, s lifecycle.State, i int) (int, error) {
	if v.NetnsHelper == nil {
		return 0, errors.New("podtask does not know its own program, which enters the network of the log router")
	}
	podman, err := v.Processes(ctx)
	if err != nil {
		return 0, err
	}
	seen, err := podman.InspectContainer(ctx, taskspec.ContainerName(s, i))
	if err == nil && (seen.PID == 0 || seen.TaskID != s.ID) {
		err = errors.New("the log router does not run")
	}
	return seen.PID, err
}

// dialSocket connects to the socket of a log router. Its path may be longer than that of a
// socket, and the user whom the router runs as may be another one than ours.
func (v *Servers) dialSocket(ctx context.Context, s lifecycle.State, router int) (net.Conn, error) {
	const name = "fluent.sock"
	dir := v.Files.Router(s.ID).Sockets()
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), name))
	if errors.Is(err, fs.ErrPermission) {
		var pid int
		if pid, err = v.process(ctx, s, router); err == nil {
			conn, err = netns.DialUnix(ctx, pid, v.NetnsHelper, filepath.Join(dir, name))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the socket of the log router: %w", err)
	}
	return conn, nil
}
