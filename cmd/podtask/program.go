package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/agent"
	"github.com/podtask/podtask/internal/failpoint"
	"github.com/podtask/podtask/internal/imagestore"
	"github.com/podtask/podtask/pkg/config"
	"github.com/podtask/podtask/pkg/state"
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
	// patience is how long a task that is locked may stay without a socket: an owner
	// takes the lock first and lets go of it last.
	patience time.Duration
}

// main runs one command line and returns the exit code.
func (p *program) main(ctx context.Context, args []string) int {
	app := p.app()
	arranged, err := arrange(app, args)
	if err == nil {
		err = app.RunContext(ctx, arranged)
	}
	return p.report(err)
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
		fmt.Fprintln(p.stderr, "Error: "+err.Error())
		return failed.code
	default:
		fmt.Fprintln(p.stderr, "Error: "+err.Error())
	}
	return exitOwnFailure
}

func (p *program) warn(format string, args ...any) {
	fmt.Fprintf(p.stderr, "Warning: "+format+"\n", args...)
}

// session is one verb at work on the tasks of this user.
type session struct {
	*program
	host                 *agent.Agent
	log                  *slog.Logger
	stateDir, runtimeDir string
	config               *config.Settings
	logLevel             *slog.LevelVar
	// onPull is told of pulls of this process; set before the first of them.
	onPull func(imagestore.Progress)
}

// withHost makes an action of a verb that needs the tasks of this user.
func (p *program) withHost(action func(ctx context.Context, s *session, c *cli.Context) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		s, err := p.open(c)
		if err != nil {
			return err
		}
		defer s.host.Close()
		err = action(c.Context, s, c)
		s.cleanUp(c.Context)
		return err
	}
}

// cleanUpLimit is how long a command may take longer because old tasks are removed.
const cleanUpLimit = 3 * time.Second

// cleanUp removes tasks that stopped long ago. Nobody waits for it, so it is brief.
func (s *session) cleanUp(ctx context.Context) {
	if keep := s.config.Cleanup.TaskWait; keep > 0 {
		ctx, cancel := context.WithTimeout(ctx, cleanUpLimit)
		defer cancel()
		s.host.Expired.Remove(ctx, time.Now(), keep)
	}
}

func (p *program) open(c *cli.Context) (*session, error) {
	settings, err := p.configure(c)
	if err != nil {
		return nil, err
	}
	s := &session{program: p, config: settings, logLevel: new(slog.LevelVar)}
	s.logLevel.Set(settings.Logging.Level)
	// Through the program, because an owner sends its words to a file.
	s.log = newLog(writerFunc(func(b []byte) (int, error) { return p.stderr.Write(b) }), logFormat(settings.Logging.Format, p.stderr, p.getenv), isJournal(p.stderr, p.getenv("JOURNAL_STREAM")), s.logLevel)
	if s.stateDir, s.runtimeDir, err = dirs(p.getenv, settings.Paths.StateDir); err != nil {
		return nil, err
	}
	s.host, err = agent.Open(agent.Config{StateDir: s.stateDir, RuntimeDir: s.runtimeDir, Settings: settings, Getenv: p.getenv, FailPoint: p.getenv(failpoint.Env), Log: s.log, NetnsHelper: p.netnsHelper(), Progress: func(pp imagestore.Progress) {
		if s.onPull != nil {
			s.onPull(pp)
		}
	}})
	return s, err
}

// dirs returns where state and sockets are. Without XDG_RUNTIME_DIR, as in a
// shell that su made, sockets lie beside the state.
func dirs(getenv func(string) string, given string) (stateDir, runtimeDir string, err error) {
	stateDir, runtimeDir, err = state.Dirs(getenv)
	stateDir = firstOf(given, stateDir)
	if stateDir == "" {
		return "", "", err
	}
	if runtimeDir == "" {
		runtimeDir = filepath.Join(stateDir, "run")
	}
	return stateDir, runtimeDir, nil
}

// socket is where the owner of a task listens.
func (s *session) socket(id string) string {
	return filepath.Join(s.runtimeDir, "tasks", id+".sock")
}

// agentSocket is where a long-running agent would listen.
func (s *session) agentSocket() string {
	return firstOf(s.config.Paths.Socket, filepath.Join(s.runtimeDir, "podtask.sock"))
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// oneLine makes text from elsewhere safe to put in a line for a terminal.
func oneLine(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, s))
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
