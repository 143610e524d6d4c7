package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/engine"
	"github.com/podtask/podtask/internal/engine/failpoint"
	"github.com/podtask/podtask/internal/engine/imagestore"
	"github.com/podtask/podtask/internal/serve/ownerapi"
	"github.com/podtask/podtask/internal/state"
	"github.com/urfave/cli/v2"
)

// FindProgram looks for another program of podtask beside this one, then in PATH.
func (p *Program) FindProgram(name string) (string, error) {
	if self, err := p.Executable(); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), name)); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", errors.New(name + " is not installed: it is a program of its own, and belongs beside podtask or into PATH; the packages of podtask have it")
	}
	return path, nil
}

// Program is the process's streams, environment and version.
type Program struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	Environ        func() []string
	Executable     func() (string, error)
	Notify         func(chan<- os.Signal, ...os.Signal)
	Version        string
	// Patience is how long a locked task may have no socket: an owner takes the lock
	// first and releases it last.
	Patience time.Duration
}

// Warn writes a warning to stderr, in lines as long as the terminal is wide.
func (p *Program) Warn(format string, args ...any) {
	fmt.Fprintln(p.Stderr, OnTerminal(p.Stderr, "Warning: ", fmt.Sprintf(format, args...)))
}

// Machine is podtask on this machine for this user, opened for one command.
type Machine struct {
	Program   *Program
	Connector *connect.Connector
	Engine    *engine.Engine
	Config    *config.Settings
	Log       *slog.Logger
	LogLevel  *slog.LevelVar
	// OnPull is called for pulls of this process; it is set before the first pull.
	OnPull func(imagestore.Progress)
}

// WithMachine makes an action of a command that needs the tasks of this user.
func (p *Program) WithMachine(action func(ctx context.Context, s *Machine, c *cli.Context) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		s, err := p.Open(c)
		if err != nil {
			return err
		}
		defer s.Engine.Close()
		err = action(c.Context, s, c)
		s.CleanUp(c.Context)
		return err
	}
}

// cleanUpLimit is how long a command may take longer because old tasks are removed.
const cleanUpLimit = 3 * time.Second

// CleanUp removes tasks that stopped long ago. It is brief, because the command waits for it.
func (s *Machine) CleanUp(ctx context.Context) {
	if keep := s.Config.Cleanup.TaskWait; keep > 0 {
		ctx, cancel := context.WithTimeout(ctx, cleanUpLimit)
		defer cancel()
		s.Engine.Expired.Remove(ctx, time.Now(), keep)
	}
}

// Open opens podtask for a command that needs the tasks of this user. Close its Engine.
func (p *Program) Open(c *cli.Context) (*Machine, error) {
	settings, err := p.Configure(c)
	if err != nil {
		return nil, err
	}
	level := new(slog.LevelVar)
	level.Set(settings.Logging.Level)
	s := &Machine{Program: p, Config: settings, LogLevel: level}
	if s.Connector, err = newConnector(p, settings, level); err != nil {
		return nil, err
	}
	s.Log = s.Connector.Log
	s.Engine, err = engine.Open(engine.Config{
		StateDir: s.Connector.StateDir, RuntimeDir: s.Connector.RuntimeDir, Settings: settings, Getenv: p.Getenv, FailPoint: p.Getenv(failpoint.Env),
		Log: s.Log, NetnsHelper: p.netnsHelper(),
		Progress: func(pp imagestore.Progress) {
			if s.OnPull != nil {
				s.OnPull(pp)
			}
		},
	})
	s.Connector.Engine = s.Engine
	return s, err
}

// newConnector returns a connector without an agent.
func newConnector(p *Program, settings *config.Settings, level slog.Leveler) (*connect.Connector, error) {
	stateDir, runtimeDir, err := Dirs(p.Getenv, settings.Paths.StateDir)
	if err != nil {
		return nil, err
	}
	// An owner replaces p.stderr by its log file.
	stderr := console.WriterFunc(func(b []byte) (int, error) { return p.Stderr.Write(b) })
	log := newLog(stderr, logFormat(settings.Logging.Format, p.Stderr, p.Getenv), isJournal(p.Stderr, p.Getenv("JOURNAL_STREAM")), level)
	return &connect.Connector{
		Host:        ownerapi.Host{Log: log, StateDir: stateDir, RuntimeDir: runtimeDir, ProgramVersion: p.Version, Patience: p.Patience},
		Warnf:       p.Warn,
		AgentSocket: cmp.Or(settings.Paths.Socket, filepath.Join(runtimeDir, "podtask.sock")),
	}, nil
}

// Dirs returns where state and sockets are. Without XDG_RUNTIME_DIR, as in a
// shell that su made, sockets lie beside the state.
func Dirs(getenv func(string) string, given string) (stateDir, runtimeDir string, err error) {
	stateDir, runtimeDir, err = state.Dirs(getenv)
	stateDir = cmp.Or(given, stateDir)
	if stateDir == "" {
		return "", "", err
	}
	if runtimeDir == "" {
		runtimeDir = filepath.Join(stateDir, "run")
	}
	return stateDir, runtimeDir, nil
}
