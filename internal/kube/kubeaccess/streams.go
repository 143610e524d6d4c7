package kubeaccess

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/kube/kubeserve"
	"github.com/podtask/podtask/pkg/netns"
	"github.com/podtask/podtask/pkg/taskdef"
)

// Exit codes of a shell for a command that cannot be run.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
)

// Exec implements kubeserve.Pods.
func (a *Access) Exec(ctx context.Context, ref kubeserve.Ref, command []string, s kubeserve.Streams) (code int, err error) {
	st, i, err := a.container(ctx, ref)
	if err != nil {
		return 0, err
	}
	x, err := a.agent.Exec.New(ctx, st, i, libpod.ExecSpec{Command: command, Stdin: s.Stdin != nil, Terminal: s.Terminal})
	if err != nil {
		return 0, refused(err)
	}
	defer func() {
		if ctx.Err() != nil { // the caller has gone
			_ = x.End(context.WithoutCancel(ctx))
		}
	}()
	stream, err := x.Start(ctx, libpod.Size{})
	if err != nil {
		return cannotRun(s, command, err)
	}
	if err := connect(ctx, stream, s, x.Resize); err != nil {
		return cannotRun(s, command, err)
	}
	return x.Wait(ctx)
}

// cannotRun makes an exit code of a command that the container lacks or cannot run.
func cannotRun(s kubeserve.Streams, command []string, err error) (code int, _ error) {
	out := s.Stderr
	if s.Terminal {
		out = s.Stdout
	}
	switch {
	case errors.Is(err, libpod.CommandNotFound):
		fmt.Fprintf(out, "the container has no command %q\r\n", command[0])
		return exitNotFound, nil
	case errors.Is(err, libpod.CommandNotExecutable):
		fmt.Fprintf(out, "the container cannot run %q\r\n", command[0])
		return exitNotExecutable, nil
	}
	return 0, err
}

// Attach implements kubeserve.Pods.
func (a *Access) Attach(ctx context.Context, ref kubeserve.Ref, s kubeserve.Streams) error {
	st, i, err := a.container(ctx, ref)
	if err != nil {
		return err
	}
	podman, err := a.podman(ctx)
	if err != nil {
		return err
	}
	name, c := containerName(st, i), st.Task.Containers[i]
	s.Terminal = c.PseudoTerminal // what it has, whatever the caller believes
	if !c.Interactive {
		s.Stdin = nil
	}
	stream, err := podman.AttachContainer(ctx, name, s.Terminal, s.Stdin != nil)
	if err != nil {
		return refused(err)
	}
	return connect(ctx, stream, s, func(ctx context.Context, size libpod.Size) error { return podman.ResizeContainer(ctx, name, size) })
}

// connect copies between a program and its user until the program's output ends. It does not wait
// for the end of the input: the user ends it after the program has.
func connect(ctx context.Context, stream *libpod.ExecStream, s kubeserve.Streams, resize func(context.Context, libpod.Size) error) error {
	defer stream.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if s.Resize != nil {
		go func() {
			for {
				select {
				case size, ok := <-s.Resize:
					if !ok {
						return
					}
					_ = resize(ctx, libpod.Size{Rows: size.Rows, Columns: size.Columns}) // it may have ended
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	if s.Stdin != nil {
		go func() {
			_, _ = io.Copy(stream, s.Stdin)
			_ = stream.CloseWrite()
		}()
	}
	return stream.CopyOutput(s.Stdout, s.Stderr)
}

// dialLimit bounds a connection attempt to a port of a Pod.
const dialLimit = 10 * time.Second

// Forward implements kubeserve.Pods. It connects as a program in the Pod would, to 127.0.0.1 and
// else to ::1, so the port need not be published.
func (a *Access) Forward(ctx context.Context, ref kubeserve.Ref, port uint16, stream io.ReadWriter) error {
	to, err := a.dial(ctx, ref, port)
	if err != nil {
		return fmt.Errorf("connect to port %d of pod %s: %w", port, ref.Pod, err)
	}
	defer to.Close()
	defer context.AfterFunc(ctx, func() { _ = to.Close() })()
	go func() { // it ends when the caller closes its stream, which it does when this returns
		_, _ = io.Copy(to, stream)
		if half, ok := to.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}()
	_, err = io.Copy(stream, to)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (a *Access) dial(ctx context.Context, ref kubeserve.Ref, port uint16) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	s, err := a.task(ref)
	if err != nil {
		return nil, err
	}
	running := s.Running()
	if len(running) == 0 {
		return nil, fmt.Errorf("it does not run: %w", kubeserve.ErrRefused)
	}
	dial := (&net.Dialer{}).DialContext
	if s.Task.Network != taskdef.NetworkHost {
		d := &netns.Dialer{Helper: a.helper, PID: func(ctx context.Context) (int, error) { return a.process(ctx, containerName(s, running[0])) }}
		defer d.Close()
		dial = d.DialContext
	}
	var errs []error
	for _, host := range []string{"127.0.0.1", "::1"} {
		c, err := dial(ctx, "tcp", net.JoinHostPort(host, fmt.Sprint(port)))
		if err == nil {
			return c, nil
		}
		errs = append(errs, err)
	}
	return nil, errs[0]
}

// process is a process of a container.
func (a *Access) process(ctx context.Context, name string) (int, error) {
	podman, err := a.podman(ctx)
	if err != nil {
		return 0, err
	}
	seen, err := podman.InspectContainer(ctx, name)
	if err == nil && seen.PID == 0 {
		err = fmt.Errorf("container %s does not run: %w", name, kubeserve.ErrRefused)
	}
	return seen.PID, err
}
