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
	"strings"
	"syscall"
	"time"

	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/define"
	"github.com/podtask/podtask/internal/engine"
	"github.com/podtask/podtask/internal/engine/act/imagestore"
	"github.com/podtask/podtask/internal/engine/facts/failpoint"
	"github.com/podtask/podtask/internal/serve/ownerapi"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/urfave/cli/v2"
)

// Program is the process's streams, environment and version.
type Program struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	Environ        func() []string
	Executable     func() (string, error)
	Notify         func(chan<- os.Signal, ...os.Signal)
	Version        string
	// Caller is the environment, NAME=VALUE, of the user's own machine in a command that runs here for
	// another one; nil otherwise.
	Caller []string
	// SentDir is the directory of files that came with such a command: it is left out of names in messages.
	SentDir string
	// BeforeCleanUp are called before tasks that ended long ago are removed. stateDir is the directory of records.
	BeforeCleanUp []func(stateDir string, e *engine.Engine) error
	// Convert are called for each document that is read as a task definition, and return it or the definition that they
	// make of it.
	Convert []func(ctx context.Context, p *Program, doc define.Document) (define.Document, error)
	// Beside return what lists what parts have on this host besides tasks and services.
	Beside []func(m *Machine) func(ctx context.Context) (console.Beside, error)
	// ServiceSettings returns what flags of `podtask service create` say, for other commands that make services; count is nil without
	// --count.
	ServiceSettings func(words []string) (count *int, s api.ServiceSettings, err error)
	// Patience is how long to wait for the socket of a task whose lock is taken: its owner makes the socket
	// after it has taken the lock, and removes it before it releases the lock.
	Patience time.Duration
}

// Warn writes a warning to stderr, in lines as long as the terminal is wide.
func (p *Program) Warn(format string, args ...any) { warn(p.Stderr, format, args...) }

func warn(stderr io.Writer, format string, args ...any) {
	fmt.Fprintln(stderr, OnTerminal(stderr, "Warning: ", term.Lines(fmt.Sprintf(format, args...))))
}

// CallerEnviron returns the environment of who wrote the command line: what `-e NAME` and `env:NAME` mean.
func (p *Program) CallerEnviron() []string {
	if p.Caller != nil {
		return p.Caller
	}
	return p.Environ()
}

// RedirectStderr redirects warnings and the log to w, until restore is called.
func (p *Program) RedirectStderr(w io.Writer) (restore func()) {
	before := p.Stderr
	p.Stderr = w
	return func() { p.Stderr = before }
}

// FindProgram looks for another program of podtask beside this one, then in PATH.
func (p *Program) FindProgram(name string) (string, error) {
	if self, err := p.Executable(); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), name)); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", errors.New(name + " is not installed: it is a program of its own, and belongs beside podtask or into PATH; " + packageOf(name) + " has it")
	}
	return path, nil
}

// Execute executes another program of podtask in this process. It returns only if it cannot.
func (p *Program) Execute(name string, args ...string) error {
	path, err := p.FindProgram(name)
	if err != nil {
		return err
	}
	err = syscall.Exec(path, append([]string{name}, args...), p.Environ())
	return fmt.Errorf("execute %s: %w", path, err)
}

// packageOf is the package of Debian and rpm that has a program.
func packageOf(program string) string {
	if program == "podtask-kubelet" || program == "podtask-ecs" {
		return "the package " + program
	}
	return "the package podtask"
}

// Machine is podtask on this host for this user, opened for one command. The constructor of a
// command takes from it what the command uses.
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

// Runner is a command with the parts of this host that it uses.
type Runner interface {
	Run(ctx context.Context, c *cli.Context) error
}

// WithMachine returns the action of a command that works with podtask on this host. NewRunner takes
// what the command uses.
func WithMachine[R Runner](p *Program, newRunner func(*Machine) R) cli.ActionFunc {
	return func(c *cli.Context) error {
		m, err := p.open(c, "")
		if err != nil {
			return err
		}
		defer m.Engine.Close()
		err = newRunner(m).Run(c.Context, c)
		m.CleanUp(c.Context)
		return err
	}
}

// WithDamagedMachine is WithMachine for a command that says what is wrong with this host: newRunner also gets why the
// records cannot be opened, with a Machine whose engine works in a directory that is removed at the end.
func WithDamagedMachine[R Runner](p *Program, newRunner func(*Machine, error) R) cli.ActionFunc {
	return func(c *cli.Context) error {
		m, damage := p.open(c, "")
		if damage != nil {
			dir, err := os.MkdirTemp("", "podtask-")
			if err != nil {
				return damage
			}
			defer os.RemoveAll(dir)
			if m, err = p.open(c, dir); err != nil {
				return damage
			}
		}
		defer m.Engine.Close()
		return newRunner(m, damage).Run(c.Context, c)
	}
}

// cleanUpLimit limits the time that a command spends on the removal of old tasks.
const cleanUpLimit = 3 * time.Second

// CleanUp removes tasks that stopped long ago. It is brief, because the command waits for it.
func (m *Machine) CleanUp(ctx context.Context) {
	if keep := m.Config.Cleanup.TaskWait; keep > 0 {
		ctx, cancel := context.WithTimeout(ctx, cleanUpLimit)
		defer cancel()
		m.Engine.Expired.Remove(ctx, time.Now(), keep)
	}
}

// open opens podtask on this host. Close its Engine, whose records are in dir; "" is the directory that is
// configured.
func (p *Program) open(c *cli.Context, dir string) (*Machine, error) {
	settings, err := p.Configure(c)
	if err != nil {
		return nil, err
	}
	level := new(slog.LevelVar)
	level.Set(settings.Logging.Level)
	m := &Machine{Program: p, Config: settings, LogLevel: level}
	if m.Connector, err = newConnector(p, settings, level); err != nil {
		return nil, err
	}
	m.Log = m.Connector.Log
	m.Engine, err = engine.Open(engine.Config{
		StateDir: cmp.Or(dir, m.Connector.StateDir), RuntimeDir: m.Connector.RuntimeDir, Settings: settings, Getenv: p.Getenv, FailPoint: p.Getenv(failpoint.Env),
		Log: m.Log, NetnsHelper: p.netnsHelper(),
		Progress: func(pp imagestore.Progress) {
			if m.OnPull != nil {
				m.OnPull(pp)
			}
		},
	})
	m.Connector.Engine = m.Engine
	if err != nil {
		return m, err
	}
	m.Engine.Expired.Before = func() {
		for _, f := range p.BeforeCleanUp {
			if err := f(m.Connector.StateDir, m.Engine); err != nil {
				m.Log.Info("not all could be noted before the removal of old tasks", "error", err)
			}
		}
	}
	for _, e := range p.Caller {
		name, value, _ := strings.Cut(e, "=")
		m.Engine.Secrets.Provide(name, []byte(value))
	}
	return m, nil
}

// OpenEngine opens the engine alone, for a command that uses it in some cases only. Close it.
func (p *Program) OpenEngine(c *cli.Context) (*engine.Engine, error) {
	m, err := p.open(c, "")
	if err != nil {
		return nil, err
	}
	return m.Engine, nil
}

// FindTask returns the record of a task, for a command that needs nothing else.
func (p *Program) FindTask(c *cli.Context, ref string) (lifecycle.State, error) {
	e, err := p.OpenEngine(c)
	if err != nil {
		return lifecycle.State{}, err
	}
	defer e.Close()
	return e.Tasks.Find(ref)
}

// newConnector returns a connector without an agent.
func newConnector(p *Program, settings *config.Settings, level slog.Leveler) (*connect.Connector, error) {
	stateDir, runtimeDir, err := Dirs(p.Getenv, settings.Paths.StateDir)
	if err != nil {
		return nil, err
	}
	// RedirectStderr may replace p.Stderr later.
	stderr := console.WriterFunc(func(b []byte) (int, error) { return p.Stderr.Write(b) })
	log := newLog(stderr, logFormat(settings.Logging.Format, p.Stderr, p.Getenv), isJournal(p.Stderr, p.Getenv("JOURNAL_STREAM")), level)
	return &connect.Connector{
		Host:        ownerapi.Host{Log: log, StateDir: stateDir, RuntimeDir: runtimeDir, ProgramVersion: p.Version, Patience: p.Patience},
		Warnf:       p.Warn,
		AgentSocket: cmp.Or(settings.Paths.Socket, filepath.Join(runtimeDir, "podtask.sock")),
	}, nil
}

// Dirs returns the directories of state and of sockets. Without XDG_RUNTIME_DIR, as in a shell of su, the
// sockets are beside the state.
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
