package libpod

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"
)

// maxExecOutput bounds ExecResult.Output in bytes.
const maxExecOutput = 1024

// ExecResult is the result of a program that RunExec ran.
type ExecResult struct {
	// ExitCode is 127 for a command that does not exist and 126 for one that cannot be run.
	ExitCode int
	// Output is the end of the output, at most maxExecOutput bytes.
	Output string
}

// RunExec runs a program in a container until it ends. After limit, or when ctx ends, it kills
// all processes of the program's session, and the error has class Timeout or Canceled. The
// class is NotRunning if the container is not running.
//
// It costs more than Probe: Podman keeps a process for five minutes after the end of a program
// that a client starts.
func (c *Client) RunExec(ctx context.Context, container string, command []string, limit time.Duration) (ExecResult, error) {
	const op = "run a program in container"
	id, err := c.CreateExec(ctx, container, ExecSpec{Command: command})
	if err != nil {
		return ExecResult{}, err
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r, err := c.runSession(limited, id)
	if limited.Err() != nil {
		c.kill(context.WithoutCancel(ctx), id)
		return ExecResult{}, fail(limited, op, container, limited.Err())
	}
	if refused, ok := errors.AsType[*Error](err); ok {
		switch refused.Class {
		case CommandNotFound:
			return ExecResult{ExitCode: 127, Output: tail(refused.Cause, maxExecOutput)}, nil
		case CommandNotExecutable:
			return ExecResult{ExitCode: 126, Output: tail(refused.Cause, maxExecOutput)}, nil
		}
	}
	if err == nil {
		_ = c.RemoveExec(ctx, id) // otherwise Podman removes it later
	}
	return r, err
}

// runSession starts a session and waits for its end.
func (c *Client) runSession(ctx context.Context, id string) (ExecResult, error) {
	stream, err := c.StartExec(ctx, id, false, Size{})
	if err != nil {
		return ExecResult{}, err
	}
	defer stream.Close()
	var out lastBytes
	if err := stream.CopyOutput(&out, &out); err != nil {
		return ExecResult{}, err
	}
	state, err := c.awaitExec(ctx, id, func(s ExecState) bool { return !s.Running })
	return ExecResult{ExitCode: state.ExitCode, Output: out.String()}, err
}

// awaitExec polls the state of a session until wanted returns true, because no version of Podman can wait for it
// (docs/upstream#the-stream-of-an-exec-session-ends-before-its-exit-code-is-recorded).
func (c *Client) awaitExec(ctx context.Context, id string, wanted func(ExecState) bool) (ExecState, error) {
	tick := time.NewTicker(execInterval)
	defer tick.Stop()
	for {
		state, err := c.InspectExec(ctx, id)
		if err != nil || wanted(state) {
			return state, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return state, ctx.Err()
		}
	}
}

// killLimit bounds the attempt to kill a program.
const killLimit = 5 * time.Second

// kill kills all processes of a session. The OCI runtimes make the program the leader of the
// session, and the owner of the container's user namespace may signal it.
func (c *Client) kill(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(ctx, killLimit)
	defer cancel()
	state, err := c.InspectExec(ctx, id)
	if err != nil || !state.Running || state.PID <= 1 {
		return
	}
	_ = syscall.Kill(-state.PID, syscall.SIGKILL)
}

// lastBytes keeps the end of what is written to it.
type lastBytes struct {
	mu   sync.Mutex
	text []byte
}

func (l *lastBytes) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, b...)
	if over := len(l.text) - 2*maxExecOutput; over > 0 {
		l.text = append(l.text[:0], l.text[over:]...)
	}
	return len(b), nil
}

func (l *lastBytes) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return tail(string(l.text), maxExecOutput)
}
