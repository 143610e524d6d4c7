package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/engine"
	"github.com/podtask/podtask/internal/engine/failpoint"
	"github.com/podtask/podtask/internal/engine/imagestore"
	"github.com/podtask/podtask/internal/serve"
	"github.com/podtask/podtask/internal/state"
	"github.com/urfave/cli/v2"
)

// program is all of the outside world that the verbs see.
type program struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string
	environ        func() []string
	executable     func() (string, error)
	notify         func(chan<- os.Signal, ...os.Signal)
	version        string
	// patience is how long a locked task may have no socket: an owner takes the lock
	// first and releases it last.
	patience time.Duration
}

// main runs one command line and returns the exit code.
func (p *program) main(ctx context.Context, args []string) int {
	app := p.app()
	arranged, err := arrange(app, args)
	if err != nil {
		return p.report(err)
	}
	if path, asked := helpAsked(app, arranged); asked {
		return p.report(p.printHelp(app, path))
	}
	return p.report(app.RunContext(ctx, arranged))
}

// report prints an error and returns the exit code for it.
func (p *program) report(err error) int {
	var status exitStatus
	var usage *usageError
	var failed *failedWith
	switch {
	case err == nil:
		return 0
	case errors.As(err, &status):
		return int(status)
	case errors.As(err, &usage):
		fmt.Fprintf(p.stderr, "Error: %s\n%s\n", usage.what, usage.do)
	case errors.As(err, &failed):
		fmt.Fprintln(p.stderr, onTerminal(p.stderr, "Error: ", err.Error()))
		return failed.code
	default:
		fmt.Fprintln(p.stderr, onTerminal(p.stderr, "Error: ", err.Error()))
	}
	return exitOwnFailure
}

func (p *program) warn(format string, args ...any) {
	fmt.Fprintln(p.stderr, onTerminal(p.stderr, "Warning: ", fmt.Sprintf(format, args...)))
}

// session is one verb at work on the tasks of this user.
type session struct {
	*program
	*connect.Connector
	config   *config.Settings
	logLevel *slog.LevelVar
	// onPull is called for pulls of this process; it is set before the first pull.
	onPull func(imagestore.Progress)
}

// withHost makes an action of a verb that needs the tasks of this user.
func (p *program) withHost(action func(ctx context.Context, s *session, c *cli.Context) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		s, err := p.open(c)
		if err != nil {
			return err
		}
		defer s.Engine.Close()
		err = action(c.Context, s, c)
		s.cleanUp(c.Context)
		return err
	}
}

// cleanUpLimit is how long a command may take longer because old tasks are removed.
const cleanUpLimit = 3 * time.Second

// cleanUp removes tasks that stopped long ago. It is brief, because the command waits for it.
func (s *session) cleanUp(ctx context.Context) {
	if keep := s.config.Cleanup.TaskWait; keep > 0 {
		ctx, cancel := context.WithTimeout(ctx, cleanUpLimit)
		defer cancel()
		s.Engine.Expired.Remove(ctx, time.Now(), keep)
	}
}

func (p *program) open(c *cli.Context) (*session, error) {
	settings, err := p.configure(c)
	if err != nil {
		return nil, err
	}
	level := new(slog.LevelVar)
	level.Set(settings.Logging.Level)
	s := &session{program: p, config: settings, logLevel: level}
	if s.Connector, err = newConnector(p, settings, level); err != nil {
		return nil, err
	}
	s.Engine, err = engine.Open(engine.Config{
		StateDir: s.StateDir, RuntimeDir: s.RuntimeDir, Settings: settings, Getenv: p.getenv, FailPoint: p.getenv(failpoint.Env),
		Log: s.Log, NetnsHelper: p.netnsHelper(),
		Progress: func(pp imagestore.Progress) {
			if s.onPull != nil {
				s.onPull(pp)
			}
		},
	})
	return s, err
}

// newConnector returns a connector without an agent.
func newConnector(p *program, settings *config.Settings, level slog.Leveler) (*connect.Connector, error) {
	stateDir, runtimeDir, err := dirs(p.getenv, settings.Paths.StateDir)
	if err != nil {
		return nil, err
	}
	// An owner replaces p.stderr by its log file.
	stderr := console.WriterFunc(func(b []byte) (int, error) { return p.stderr.Write(b) })
	log := newLog(stderr, logFormat(settings.Logging.Format, p.stderr, p.getenv), isJournal(p.stderr, p.getenv("JOURNAL_STREAM")), level)
	return &connect.Connector{
		Host:        serve.Host{Log: log, StateDir: stateDir, RuntimeDir: runtimeDir, ProgramVersion: p.version, Patience: p.patience},
		Warnf:       p.warn,
		AgentSocket: cmp.Or(settings.Paths.Socket, filepath.Join(runtimeDir, "podtask.sock")),
	}, nil
}

// dirs returns where state and sockets are. Without XDG_RUNTIME_DIR, as in a
// shell that su made, sockets lie beside the state.
func dirs(getenv func(string) string, given string) (stateDir, runtimeDir string, err error) {
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
