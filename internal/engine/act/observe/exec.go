package observe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/podtask/podtask/internal/engine/facts/taskspec"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// Session is a program that runs in a container besides its own. Its methods may be
// called concurrently.
type Session struct {
	// ID is Podman's.
	ID       string
	podman   Execer
	terminal bool
}

// Exec runs programs in containers besides their own.
type Exec struct {
	Podman     func(context.Context) (Execer, error)
	Containers func(context.Context) (ContainerReader, error)
}

// ExecContainer is the container that a command is meant for when none is named: the
// only one, or the only essential one.
func ExecContainer(s lifecycle.State, name string) (index int, err error) {
	var names, essential []string
	for i, c := range s.Task.Containers {
		if c.Name == name {
			return i, nil
		}
		names = append(names, c.Name)
		if c.Essential {
			index, essential = i, append(essential, c.Name)
		}
	}
	switch {
	case name != "":
		return 0, fmt.Errorf("task %s has no container %q: it has %s", taskspec.TaskRef(s), name, strings.Join(names, ", "))
	case len(names) == 1:
		return 0, nil
	case len(essential) == 1:
		return index, nil
	}
	return 0, fmt.Errorf("task %s has several containers: name one of %s", taskspec.TaskRef(s), strings.Join(names, ", "))
}

// New prepares a program in a container of a task; Session.Start starts it. It needs
// only Podman, so any process can do it.
func (e *Exec) New(ctx context.Context, s lifecycle.State, container int, spec libpod.ExecSpec) (*Session, error) {
	x, err := e.Podman(ctx)
	if err != nil {
		return nil, err
	}
	name := taskspec.ContainerName(s, container)
	id, err := x.CreateExec(ctx, name, spec)
	if errors.Is(err, libpod.NotRunning) || errors.Is(err, libpod.NotFound) || errors.Is(err, libpod.Other) {
		if why := e.notRunning(ctx, s, container); why != nil {
			return nil, why
		}
	}
	if err != nil {
		return nil, err
	}
	return &Session{ID: id, podman: x, terminal: spec.Terminal}, nil
}

// notRunning explains why nothing can be run in a container; nil if it runs.
func (e *Exec) notRunning(ctx context.Context, s lifecycle.State, container int) error {
	name := s.Task.Containers[container].Name
	podman, err := e.Containers(ctx)
	if err != nil {
		return err
	}
	seen, err := podman.InspectContainer(ctx, taskspec.ContainerName(s, container))
	switch {
	case err != nil:
		return err
	case seen.Paused:
		return fmt.Errorf("container %s of task %s is paused: `podtask unpause %s` resumes it", name, taskspec.TaskRef(s), taskspec.TaskRef(s))
	case seen.Status == libpod.Running:
		return nil
	case s.Containers[container].StartedAt.IsZero():
		return fmt.Errorf("container %s of task %s does not run yet: `podtask why %s` says what it waits for", name, taskspec.TaskRef(s), taskspec.TaskRef(s))
	}
	return fmt.Errorf("container %s of task %s has stopped: `podtask logs %s %s` shows what it wrote, `podtask why %s` why it stopped", name, taskspec.TaskRef(s), taskspec.TaskRef(s), name, taskspec.TaskRef(s))
}

// Session is a session that another process has made.
func (e *Exec) Session(ctx context.Context, id string) (*Session, error) {
	x, err := e.Podman(ctx)
	if err != nil {
		return nil, err
	}
	return &Session{ID: id, podman: x}, nil
}

// Start starts the program. A command that cannot be run has the class
// libpod.CommandNotFound or libpod.CommandNotExecutable.
func (x *Session) Start(ctx context.Context, size libpod.Size) (*libpod.ExecStream, error) {
	return x.podman.StartExec(ctx, x.ID, x.terminal, size)
}

// Resize gives the program's terminal another size.
func (x *Session) Resize(ctx context.Context, size libpod.Size) error {
	return x.podman.ResizeExec(ctx, x.ID, size)
}

// The times that Podman is given to notice an end, and a program to end.
const (
	execNotice = 5 * time.Second
	execGrace  = 2 * time.Second
	execLook   = 20 * time.Millisecond
)

// errLost: the connection to a program ended and the program did not.
var errLost = errors.New("the connection to the program broke off while it ran, perhaps because Podman's service ended")

// Wait returns the exit code of a program whose output has ended. One that closed its
// output and continues is given up after five seconds; then, or when Podman forgot the
// session, the error says so.
func (x *Session) Wait(ctx context.Context) (code int, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, execNotice, errLost)
	defer cancel()
	state, err := x.await(ctx, func(s libpod.ExecState) bool { return !s.Running })
	if err != nil {
		return 0, err
	}
	_ = x.podman.RemoveExec(ctx, x.ID) // Podman forgets it by itself too
	return state.ExitCode, nil
}

// await looks until the program is as wanted. Podman 4.3.1 has no wait for it.
func (x *Session) await(ctx context.Context, wanted func(libpod.ExecState) bool) (libpod.ExecState, error) {
	tick := time.NewTicker(execLook)
	defer tick.Stop()
	for {
		state, err := x.podman.InspectExec(ctx, x.ID)
		if err == nil && wanted(state) {
			return state, nil
		}
		if err != nil && ctx.Err() == nil {
			return state, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return state, context.Cause(ctx)
		}
	}
}

// Signal sends a signal to the program and what it has started, as a terminal would.
func (x *Session) Signal(ctx context.Context, sig syscall.Signal) error {
	state, err := x.podman.InspectExec(ctx, x.ID)
	if err != nil || !state.Running {
		return err
	}
	return signalSession(state.PID, sig)
}

// signalSession signals the process group of a program: Podman's runtimes make it the
// leader of a session. Whose user namespace the container is in may do so.
func signalSession(pid int, sig syscall.Signal) error {
	if pid <= 1 {
		return nil
	}
	if err := syscall.Kill(-pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("send %s to process %d: %w", sig, pid, err)
	}
	return nil
}

// End ends a program whose user has gone: as a terminal that hangs up, and two seconds
// later for good. One that is just being started is waited for.
func (x *Session) End(ctx context.Context) error {
	begun, cancel := context.WithTimeout(ctx, execNotice)
	defer cancel()
	state, err := x.await(begun, func(s libpod.ExecState) bool { return s.PID > 0 })
	if err != nil || !state.Running {
		return nil // it was never started, or has ended
	}
	if err := signalSession(state.PID, syscall.SIGHUP); err != nil {
		return err
	}
	ending, cancel := context.WithTimeout(ctx, execGrace)
	defer cancel()
	if _, err = x.await(ending, func(s libpod.ExecState) bool { return !s.Running }); err == nil {
		return nil
	}
	return x.Signal(ctx, syscall.SIGKILL)
}

// Execer runs programs in containers besides their own.
type Execer interface {
	CreateExec(ctx context.Context, container string, s libpod.ExecSpec) (string, error)
	StartExec(ctx context.Context, id string, terminal bool, size libpod.Size) (*libpod.ExecStream, error)
	ResizeExec(ctx context.Context, id string, size libpod.Size) error
	InspectExec(ctx context.Context, id string) (libpod.ExecState, error)
	RemoveExec(ctx context.Context, id string) error
}
