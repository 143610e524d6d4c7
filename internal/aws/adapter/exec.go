package adapter

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/podtask/podtask/internal/aws/datachannel"
	"github.com/podtask/podtask/internal/aws/ecsexec"
	"github.com/podtask/podtask/internal/engine/act/observe"
	"github.com/podtask/podtask/internal/host/libpod"
)

// ECSSessions are the sessions of execute-command: an awsapi.Sessions.
type ECSSessions struct{ *ecsexec.Sessions }

// NewECSSessions returns the sessions of an agent. Close ends them.
func NewECSSessions(e ECS) ECSSessions {
	return ECSSessions{ecsexec.New(ecsexec.Config{Log: e.backend.Log, Start: e.start})}
}

// Open implements awsapi.Sessions.
func (s ECSSessions) Open(task string, i int, command []string) (id, token string, err error) {
	g, err := s.Sessions.Open(ecsexec.Target{Task: task, Container: i, Command: command})
	return g.ID, g.Token, err
}

// Forward implements awsapi.Sessions.
func (s ECSSessions) Forward(task string, i int, port, local uint16) (id, token string, err error) {
	g, err := s.Sessions.Open(ecsexec.Target{Task: task, Container: i, Forward: datachannel.Forwarding{Port: port, LocalPort: local}})
	return g.ID, g.Token, err
}

// Resume implements awsapi.Sessions.
func (s ECSSessions) Resume(id string) (token string, ok bool) {
	g, ok := s.Sessions.Resume(id)
	return g.Token, ok
}

// start starts what a session is for.
func (e ECS) start(ctx context.Context, t ecsexec.Target, size datachannel.Size) (ecsexec.Program, error) {
	if t.Forward.Port != 0 {
		return e.forward(ctx, t)
	}
	return e.startTerminal(ctx, t, size)
}

// startTerminal starts a program with a terminal.
func (e ECS) startTerminal(ctx context.Context, t ecsexec.Target, size datachannel.Size) (ecsexec.Program, error) {
	a := e.backend.Engine
	s, err := a.Tasks.Get(t.Task)
	if err != nil {
		return nil, err
	}
	// TERM is that of AWS' agent.
	x, err := a.Exec.New(ctx, e.present(s), t.Container, libpod.ExecSpec{Command: t.Command, Env: []string{"TERM=xterm-256color"}, Stdin: true, Terminal: true})
	if err != nil {
		return nil, err
	}
	stream, err := x.Start(ctx, libpod.Size{Rows: size.Rows, Columns: size.Columns})
	if err != nil {
		return nil, cannotRun(t, err)
	}
	return terminal{x, stream, t}, nil
}

// cannotRun says what a container lacks.
func cannotRun(t ecsexec.Target, err error) error {
	switch {
	case errors.Is(err, libpod.CommandNotFound):
		return fmt.Errorf("the container has no command %q: the image may lack it, or its PATH does", t.Command[0])
	case errors.Is(err, libpod.CommandNotExecutable):
		return fmt.Errorf("the container cannot run %q: check the file's mode, its interpreter and the image's architecture", t.Command[0])
	}
	return err
}

// terminal is an ecsexec.Program.
type terminal struct {
	*observe.Session
	*libpod.ExecStream
	target ecsexec.Target
}

// CopyOutput implements ecsexec.Program.
func (p terminal) CopyOutput(w io.Writer) error {
	if err := p.ExecStream.CopyOutput(w, w); err != nil {
		return cannotRun(p.target, err)
	}
	return nil
}

// Resize implements ecsexec.Program.
func (p terminal) Resize(ctx context.Context, size datachannel.Size) error {
	return p.Session.Resize(ctx, libpod.Size{Rows: size.Rows, Columns: size.Columns})
}
