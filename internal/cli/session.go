package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/part"
	"github.com/podtask/podtask/internal/connect/sshhost"
	"github.com/urfave/cli/v2"
)

// sessionCommand is what a podtask on another machine starts here through ssh.
func sessionCommand(p *command.Program, build part.Build) *cli.Command {
	return &cli.Command{
		Name:        "session",
		Usage:       "run commands for podtask on another machine, which starts this through ssh",
		Description: "Examples:\n  ssh box podtask session",
		Hidden:      true,
		Flags:       []cli.Flag{&cli.BoolFlag{Name: "inner", Hidden: true, Usage: "run the one command line that is on file descriptor 3"}},
		Action: func(c *cli.Context) error {
			if c.Bool("inner") {
				return runInner(c.Context, p, build)
			}
			return serveSession(c.Context, p)
		},
	}
}

// runInner runs the command line of a process that a session started.
func runInner(ctx context.Context, p *command.Program, build part.Build) error {
	line, err := sshhost.ReadLine()
	if err != nil {
		return fmt.Errorf("read the command line: %w; `podtask --host` starts this command", err)
	}
	inner := *p
	inner.Caller, inner.SentDir = append([]string{}, line.Caller...), line.SentDir
	return command.ExitWith(runLine(ctx, &inner, build, append([]string{"podtask"}, line.Args...)))
}

func serveSession(ctx context.Context, p *command.Program) error {
	in, inOK := p.Stdin.(io.ReadCloser)
	out, outOK := p.Stdout.(io.WriteCloser)
	if !inOK || !outOK || command.IsTerminal(p.Stdin) {
		return command.Usagef("session", "session is what `podtask --host ssh://...` starts on another host: its input is no terminal")
	}
	environ := sessionEnviron(p.Environ())
	getenv := func(name string) string {
		for _, e := range slices.Backward(environ) {
			if value, ok := strings.CutPrefix(e, name+"="); ok {
				return value
			}
		}
		return ""
	}
	stateDir, runtimeDir, err := command.Dirs(getenv, "")
	if err != nil {
		return err
	}
	self, err := p.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	signals := make(chan os.Signal, 1)
	p.Notify(signals, syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGPIPE)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for {
			select {
			case sig := <-signals:
				if sig != syscall.SIGPIPE { // a closed output is found by its writer
					cancel()
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	server := &sshhost.Server{
		Version: p.Version, Executable: self, Environ: environ, Home: getenv("HOME"),
		MemoryDir: command.SentDir(runtimeDir), DiskDir: command.SentDir(stateDir),
		Log: slog.New(slog.NewTextHandler(p.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	return server.Serve(ctx, in, out)
}

// sessionEnviron adds what a login has and a command by ssh may lack, where the server makes no
// login session of it: where the sockets of the user and of systemd are.
func sessionEnviron(environ []string) []string {
	has := func(name string) bool {
		return slices.ContainsFunc(environ, func(e string) bool { return strings.HasPrefix(e, name+"=") && len(e) > len(name)+1 })
	}
	dir := fmt.Sprintf("/run/user/%d", os.Getuid())
	info, err := os.Stat(dir)
	if err != nil || !info.IsDir() {
		return environ
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !ok || int(owner.Uid) != os.Getuid() {
		return environ
	}
	environ = slices.Clone(environ)
	if !has("XDG_RUNTIME_DIR") {
		environ = append(environ, "XDG_RUNTIME_DIR="+dir)
	}
	if bus := filepath.Join(dir, "bus"); !has("DBUS_SESSION_BUS_ADDRESS") {
		if _, err := os.Stat(bus); err == nil {
			environ = append(environ, "DBUS_SESSION_BUS_ADDRESS=unix:path="+bus)
		}
	}
	return environ
}
