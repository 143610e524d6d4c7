package libpod

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/blang/semver/v4"
	"github.com/containers/podman/v5/pkg/api/handlers"
	"github.com/containers/podman/v5/pkg/bindings"
	"github.com/containers/podman/v5/pkg/bindings/containers"
)

// ExecSpec is a program to run in a container besides its own.
type ExecSpec struct {
	Command []string
	// Env are NAME=VALUE, added to the container's.
	Env []string
	// Dir and User are the container's own where empty.
	Dir, User string
	// Stdin keeps the program's input open for the caller.
	Stdin bool
	// Terminal gives it a terminal: one stream for input, output and errors.
	Terminal bool
}

// ExecState is what Podman knows of a program.
type ExecState struct {
	// Running is false before the start too.
	Running bool
	// PID is the program on the host, leader of a session; 0 before its start.
	PID int
	// ExitCode is 128+n after signal n; 0 unless it ran and ended.
	ExitCode int
}

// Size is that of a terminal in characters; zero leaves it to Podman.
type Size struct{ Rows, Columns uint16 }

// CreateExec prepares a program and returns the id of its session. A container that
// does not run, or is paused, is NotRunning.
func (c *execAPI) CreateExec(ctx context.Context, container string, s ExecSpec) (id string, err error) {
	config := new(handlers.ExecCreateConfig)
	config.Cmd, config.Env, config.WorkingDir, config.User = s.Command, s.Env, s.Dir, s.User
	config.Tty, config.AttachStdin, config.AttachStdout, config.AttachStderr = s.Terminal, s.Stdin, true, true
	err = c.ask(ctx, "exec in container", container, func(ctx context.Context) (err error) {
		id, err = containers.ExecCreate(ctx, container, config)
		return err
	})
	if errors.Is(err, Conflict) {
		err = &Error{Op: "exec in container", Object: container, Class: NotRunning, Cause: err.(*Error).Cause, Status: http.StatusConflict}
	}
	return id, err
}

// ExecStream is the connection to a program. Reads and writes may go on at the same
// time. Close it when done; the program does not end by that.
type ExecStream struct {
	client   *execAPI
	ctx      context.Context //nolint:containedctx // of the stream, as of a connection
	id       string
	body     io.ReadWriteCloser
	terminal bool
	begun    bool // the program, or Podman in its place, has written something
	// unbind ends the stream's ties to the context it was made with.
	unbind func() bool
}

// StartExec starts the program of a session. Errors: CommandNotFound,
// CommandNotExecutable, NotRunning. When ctx ends the stream is closed.
//
// The request is made by hand: the binding takes over the process's own stdin and
// terminal, replaces the transport of all other calls, and reads from below a buffer
// that may hold the first output already.
func (c *execAPI) StartExec(ctx context.Context, id string, terminal bool, size Size) (*ExecStream, error) {
	var stream *ExecStream
	outer := ctx
	err := c.ask(ctx, "exec", shortExec(id), func(ctx context.Context) error {
		body, err := json.Marshal(handlers.ExecStartConfig{Tty: terminal, Height: size.Rows, Width: size.Columns})
		if err != nil {
			return err
		}
		conn, err := bindings.GetClient(ctx)
		if err != nil {
			return err
		}
		upgrade := http.Header{"Connection": {"Upgrade"}, "Upgrade": {"tcp"}, "Content-Type": {"application/json"}}
		response, err := conn.DoRequest(ctx, bytes.NewReader(body), http.MethodPost, "/exec/%s/start", nil, upgrade, id)
		if err != nil {
			return err
		}
		duplex, ok := response.Body.(io.ReadWriteCloser)
		if response.StatusCode != http.StatusSwitchingProtocols || !ok {
			defer response.Body.Close()
			return response.Process(nil)
		}
		stream = &ExecStream{
			client: c, ctx: outer, id: id, body: duplex, terminal: terminal,
			unbind: context.AfterFunc(outer, func() { _ = duplex.Close() }),
		}
		return nil
	})
	if err == nil && stream == nil {
		return nil, &Error{Op: "exec", Object: shortExec(id), Class: Other, Cause: "Podman did not give a connection to the program"}
	}
	return stream, err
}

// shortExec is a session's id as Podman shortens it.
func shortExec(id string) string { return id[:min(len(id), 12)] }

// Write gives the program input.
func (s *ExecStream) Write(b []byte) (int, error) { return s.body.Write(b) }

// CloseWrite ends the program's input.
func (s *ExecStream) CloseWrite() error {
	half, ok := s.body.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

// Close ends the connection.
func (s *ExecStream) Close() error {
	s.unbind()
	return s.body.Close()
}

// The channels of a stream without a terminal, in the first byte of each frame.
const (
	execStderr = 2
	execFailed = 3
)

// CopyOutput copies what the program writes until it has closed its output. With a
// terminal everything goes to stdout. When the program could not be started, which
// Podman says in its place, the error has the class CommandNotFound,
// CommandNotExecutable, InvalidSpec (its directory) or another.
func (s *ExecStream) CopyOutput(stdout, stderr io.Writer) error {
	stdout, stderr = &firstWords{Writer: stdout, stream: s}, &firstWords{Writer: stderr, stream: s}
	if s.terminal {
		_, err := io.Copy(struct{ io.Writer }{stdout}, s.body)
		return err
	}
	for {
		var header [8]byte
		if _, err := io.ReadFull(s.body, header[:]); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		frame := io.LimitReader(s.body, int64(binary.BigEndian.Uint32(header[4:])))
		to := stdout
		switch header[0] {
		case execStderr:
			to = stderr
		case execFailed:
			text, err := io.ReadAll(frame)
			if err != nil {
				return err
			}
			return s.failure(string(text))
		}
		if _, err := io.Copy(to, frame); err != nil {
			return err
		}
	}
}

// firstWords looks at what is written first.
type firstWords struct {
	io.Writer
	stream *ExecStream
}

func (f *firstWords) Write(b []byte) (int, error) {
	s := f.stream
	if !s.begun {
		s.begun = true
		if text, suspect := bytes.CutPrefix(b, []byte("Error: ")); suspect && s.neverStarted() {
			return 0, s.failure(string(text))
		}
	}
	return f.Writer.Write(b)
}

// neverStarted asks Podman whether the program began. Right after the start that is
// not recorded yet.
func (s *ExecStream) neverStarted() bool {
	tick := time.NewTicker(execLook)
	defer tick.Stop()
	for range execLooks {
		state, err := s.client.InspectExec(s.ctx, s.id)
		if err != nil || state.PID > 0 {
			return false
		}
		if state.ExitCode != 0 {
			return true
		}
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			return false
		}
	}
	return false
}

// How often and how many times Podman is asked whether a program began.
const (
	execLook  = 20 * time.Millisecond
	execLooks = 250
)

// failure is an error that Podman wrote in place of the program's output.
func (s *ExecStream) failure(text string) error {
	e := &Error{Op: "exec", Object: shortExec(s.id), Class: classifyReply(0, text), Cause: oneLine(text)}
	if strings.Contains(text, "chdir to") { // which the runtimes call a missing command
		e.Class = InvalidSpec
	}
	return e
}

// ResizeExec tells a program with a terminal its new size.
func (c *execAPI) ResizeExec(ctx context.Context, id string, size Size) error {
	return c.ask(ctx, "resize the terminal of", shortExec(id), func(ctx context.Context) error {
		return containers.ResizeExecTTY(ctx, id, new(containers.ResizeExecTTYOptions).WithHeight(int(size.Rows)).WithWidth(int(size.Columns)))
	})
}

// InspectExec says how a program is doing. A session whose container is gone, or that
// ended more than five minutes ago, is NotFound.
func (c *execAPI) InspectExec(ctx context.Context, id string) (state ExecState, err error) {
	err = c.ask(ctx, "inspect exec session", shortExec(id), func(ctx context.Context) error {
		data, err := containers.ExecInspect(ctx, id, nil)
		if err == nil {
			state = ExecState{Running: data.Running, PID: data.Pid, ExitCode: data.ExitCode}
		}
		return err
	})
	return state, err
}

// execRemove is the first version that can forget a session; others do so after five
// minutes.
var execRemove = semver.MustParse("4.8.0")

// RemoveExec lets Podman forget a session that has ended.
func (c *execAPI) RemoveExec(ctx context.Context, id string) error {
	if c.version.LT(execRemove) {
		return nil
	}
	err := c.ask(ctx, "remove exec session", shortExec(id), func(ctx context.Context) error {
		return containers.ExecRemove(ctx, id, nil)
	})
	if errors.Is(err, NotFound) {
		return nil
	}
	return err
}
