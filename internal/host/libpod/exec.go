package libpod

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/blang/semver/v4"
	"github.com/containers/podman/v5/pkg/api/handlers"
	"github.com/containers/podman/v5/pkg/bindings"
	"github.com/containers/podman/v5/pkg/bindings/containers"
)

// ExecSpec describes an additional program to run in a container.
type ExecSpec struct {
	Command []string
	// Env lists variables NAME=VALUE that are added to the container's.
	Env []string
	// Dir and User default to the container's.
	Dir, User string
	// Stdin connects the program's standard input to the stream.
	Stdin bool
	// Terminal allocates a terminal: one stream for input, output and errors.
	Terminal bool
}

// ExecState is the state of a program in Podman.
type ExecState struct {
	// Running is also false before the start.
	Running bool
	// PID is the program's process ID on the host, a session leader; 0 before the start.
	PID int
	// ExitCode is 128+n after signal n; 0 unless the program has exited.
	ExitCode int
}

// Size is the size of a terminal in characters; zero leaves it to Podman.
type Size struct{ Rows, Columns uint16 }

// CreateExec creates an exec session and returns its ID. The class is NotRunning if the
// container is not running or is paused.
func (c *Client) CreateExec(ctx context.Context, container string, s ExecSpec) (id string, err error) {
	config := new(handlers.ExecCreateConfig)
	config.Cmd, config.Env, config.WorkingDir, config.User = s.Command, s.Env, s.Dir, s.User
	config.Tty, config.AttachStdin, config.AttachStdout, config.AttachStderr = s.Terminal, s.Stdin, true, true
	err = c.watch(ctx, "exec in container", container, func(ctx context.Context) (err error) {
		id, err = containers.ExecCreate(ctx, container, config)
		return err
	})
	if errors.Is(err, Conflict) {
		err = &Error{Op: "exec in container", Object: container, Class: NotRunning, Cause: err.(*Error).Cause, Status: http.StatusConflict}
	}
	return id, err
}

// ExecStream is the connection to a program. Reads and writes may happen concurrently.
// Close it when done; closing does not end the program.
type ExecStream struct {
	client    *Client
	ctx       context.Context //nolint:containedctx // the lifetime of the stream
	id        string
	body      io.ReadWriteCloser
	terminal  bool
	hasOutput bool // the program, or Podman in its place, has written something
	// unbind detaches the stream from ctx.
	unbind func() bool
}

// StartExec starts the program of a session. When ctx ends, the stream is closed. Classes
// to expect: CommandNotFound, CommandNotExecutable, NotRunning.
//
// It does not use the binding, which takes over the process's own stdin and terminal,
// replaces the transport of all other calls, and bypasses a buffer that may already
// contain the first output.
func (c *Client) StartExec(ctx context.Context, id string, terminal bool, size Size) (*ExecStream, error) {
	body, err := json.Marshal(handlers.ExecStartConfig{Tty: terminal, Height: size.Rows, Width: size.Columns})
	if err != nil {
		return nil, err
	}
	stream := &ExecStream{client: c, ctx: ctx, id: id, terminal: terminal}
	err = c.watch(ctx, "exec", shortExec(id), func(ctx context.Context) error {
		return stream.open(ctx, bytes.NewReader(body), nil, "/exec/%s/start", id)
	})
	if err == nil && stream.body == nil {
		err = &Error{Op: "exec", Object: shortExec(id), Class: Other, Cause: "Podman did not return a connection to the program"}
	}
	if err != nil {
		return nil, err
	}
	return stream, nil
}

// open sends a request that turns the connection into a stream.
func (s *ExecStream) open(ctx context.Context, body io.Reader, query url.Values, endpoint, object string) error {
	conn, err := bindings.GetClient(ctx)
	if err != nil {
		return err
	}
	upgrade := http.Header{"Connection": {"Upgrade"}, "Upgrade": {"tcp"}, "Content-Type": {"application/json"}}
	response, err := conn.DoRequest(ctx, body, http.MethodPost, endpoint, query, upgrade, object)
	if err != nil {
		return err
	}
	duplex, ok := response.Body.(io.ReadWriteCloser)
	if response.StatusCode != http.StatusSwitchingProtocols || !ok {
		defer response.Body.Close()
		return response.Process(nil)
	}
	s.body = duplex
	s.unbind = context.AfterFunc(s.ctx, func() { _ = duplex.Close() })
	return nil
}

// shortExec shortens a session's ID as Podman does.
func shortExec(id string) string { return id[:min(len(id), 12)] }

// Write writes to the program's standard input.
func (s *ExecStream) Write(b []byte) (int, error) { return s.body.Write(b) }

// CloseWrite closes the program's standard input.
func (s *ExecStream) CloseWrite() error {
	half, ok := s.body.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

// Close closes the connection.
func (s *ExecStream) Close() error {
	s.unbind()
	return s.body.Close()
}

// The channels of a stream without a terminal, in the first byte of each frame.
const (
	execStderr = 2
	execFailed = 3
)

// CopyOutput copies the program's output until the program has closed it. With a terminal
// all output goes to stdout. If the program could not be started, which Podman reports in
// the output, the error has class CommandNotFound, CommandNotExecutable, InvalidSpec (the
// directory) or another.
func (s *ExecStream) CopyOutput(stdout, stderr io.Writer) error {
	stdout, stderr = &firstOutput{Writer: stdout, stream: s}, &firstOutput{Writer: stderr, stream: s}
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

// firstOutput checks whether the first output is an error message of Podman.
type firstOutput struct {
	io.Writer
	stream *ExecStream
}

func (f *firstOutput) Write(b []byte) (int, error) {
	s := f.stream
	if !s.hasOutput {
		s.hasOutput = true
		if text, suspect := bytes.CutPrefix(b, []byte("Error: ")); suspect && s.neverStarted() {
			return 0, s.failure(string(text))
		}
	}
	return f.Writer.Write(b)
}

// neverStarted reports whether the program was not started. It polls, because Podman records
// the start with a delay.
func (s *ExecStream) neverStarted() bool {
	tick := time.NewTicker(execInterval)
	defer tick.Stop()
	for range execAttempts {
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

// The interval and the number of the inspections that find out whether a program was started.
const (
	execInterval = 20 * time.Millisecond
	execAttempts = 250
)

// failure converts an error message that Podman wrote in place of the program's output.
func (s *ExecStream) failure(text string) error {
	class, cause := explainReply(0, text)
	e := &Error{Op: "exec", Object: shortExec(s.id), Class: class, Cause: oneLine(cmp.Or(cause, text))}
	if strings.Contains(text, "chdir to") { // the runtimes report a missing directory as a missing command
		e.Class = InvalidSpec
	}
	return e
}

// ResizeExec sets the size of a program's terminal.
func (c *Client) ResizeExec(ctx context.Context, id string, size Size) error {
	return c.resize(ctx, id, func(ctx context.Context) error {
		return c.ask(ctx, "resize the terminal of", shortExec(id), func(ctx context.Context) error {
			return containers.ResizeExecTTY(ctx, id, new(containers.ResizeExecTTYOptions).WithHeight(int(size.Rows)).WithWidth(int(size.Columns)))
		})
	})
}

// InspectExec returns the state of a program. The class is NotFound if the container does not
// exist or the program exited more than five minutes ago.
func (c *Client) InspectExec(ctx context.Context, id string) (state ExecState, err error) {
	err = c.ask(ctx, "inspect exec session", shortExec(id), func(ctx context.Context) error {
		data, err := containers.ExecInspect(ctx, id, nil)
		if err == nil {
			state = ExecState{Running: data.Running, PID: data.Pid, ExitCode: data.ExitCode}
		}
		return err
	})
	return state, err
}

// execRemove is the first version that can remove a session; older ones remove it after
// five minutes.
var execRemove = semver.MustParse("4.8.0")

// RemoveExec removes the session of a program that has exited.
func (c *Client) RemoveExec(ctx context.Context, id string) error {
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
