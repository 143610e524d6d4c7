package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/cli/part"
	"github.com/podtask/podtask/internal/connect/sshhost"
	"github.com/podtask/podtask/internal/term"
	"golang.org/x/sys/unix"
	xterm "golang.org/x/term"
)

// remoteCall is a command line that runs on another host.
type remoteCall struct {
	p     *command.Program
	ctx   context.Context
	host  sshhost.Host
	route route
	line  lineParts
	link  *sshhost.Link

	// base is the directory of the host for files that are sent, dir the working directory here.
	base, dir string
	files     sshhost.Files
	caller    map[string]string  // variables of this machine that the host gets
	stdin     io.Reader          // nil: the input of this process
	stdout    io.Writer          // nil: the output of this process
	sent      []string           // what is sent, for plan
	positions *command.Positions // of an output with positions; nil for others
}

// remoteLine returns the call for a command line that runs on another host; nil if this process runs it.
func remoteLine(ctx context.Context, p *command.Program, build part.Build, arranged []string) (*remoteCall, error) {
	line := splitLine(arranged)
	flag, asked := "", false
	var words []string
	line.global = slices.DeleteFunc(line.global, func(f lineFlag) bool {
		if f.name == "host" {
			flag, asked, words = f.value, true, append(words, f.value)
		}
		return f.name == "host"
	})
	if len(line.path) == 0 {
		return nil, nil
	}
	name := strings.Join(line.path, " ")
	r, known := routeOf(build, name)
	if r.place == part.Special || r.place == part.Here && !asked {
		return nil, nil
	}
	if asked && flag == "" {
		return nil, command.Usagef("", "--host names no host: write --host ssh://[USER@]HOST[:PORT], or the name of a context")
	}
	if len(words) > 1 {
		return nil, command.OneHostError(words)
	}
	h, err := p.FindHost(flag)
	if err != nil || !h.Remote() {
		return nil, err
	}
	call := &remoteCall{
		p: p, ctx: ctx, host: h.Host, route: r, line: line,
		files: make(sshhost.Files), caller: make(map[string]string),
	}
	switch {
	case !known:
		return nil, call.refusal("nobody has said where it works")
	case r.place == part.Here || r.place == part.Refused:
		return nil, call.refusal(r.why)
	}
	return call, nil
}

// refusal is the error for a command that does not work on another host.
func (r *remoteCall) refusal(why string) error {
	return fmt.Errorf("podtask %s does not work on %s: %s", r.name(), r.host, why)
}

func (r *remoteCall) name() string { return strings.Join(r.line.path, " ") }

// values returns the values of a flag of the line.
func (r *remoteCall) values(name string) (values []string) {
	for _, f := range r.line.local {
		if f.name == name {
			values = append(values, f.value)
		}
	}
	return values
}

// run connects, runs the command and returns when it has ended.
func (r *remoteCall) run() error {
	// Until the command runs there, a signal ends this process.
	ctx, stop := signal.NotifyContext(r.ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	link, err := sshhost.Dial(ctx, r.host, r.p.HostOptions())
	if err != nil {
		if ctx.Err() != nil && r.ctx.Err() == nil {
			return command.ExitStatus(command.ExitInterrupted)
		}
		return err
	}
	r.link, r.base = link, link.Greeting.Memory
	defer func() { _ = r.link.Close() }()
	if r.dir, err = os.Getwd(); err != nil {
		return err
	}
	if r.route.run != nil {
		return r.route.run(r)
	}
	if r.route.prepare != nil {
		if err := r.route.prepare(r); err != nil {
			return err
		}
	}
	if r.route.follows != nil && r.route.follows(r) {
		return r.follow(ctx)
	}
	return r.finish(r.onHost(ctx))
}

// finish returns the error for how a command ended.
func (r *remoteCall) finish(code int, err error) error {
	var lost *sshhost.LostError
	switch {
	case errors.As(err, &lost) && r.route.stops && !slices.Contains(r.values("detach"), "true"):
		return fmt.Errorf("%w; podtask there stops the task, as when a terminal is lost: `podtask --host %s ps -a` shows it", err, r.host)
	case errors.As(err, &lost):
		return fmt.Errorf("%w while `podtask %s` ran there; what it had done is done: `podtask --host %s ps -a` shows the tasks", err, r.name(), r.host)
	case err != nil:
		return err
	}
	return command.ExitWith(code)
}

// onHost runs the line on the host and returns its exit code.
func (r *remoteCall) onHost(ctx context.Context) (int, error) {
	mode := r.mode()
	req := sshhost.Request{
		Args: r.line.words(), Caller: r.callerEnviron(), Environment: sshhost.PrintingVariables(r.p.Environ()), Mode: mode, Stops: r.route.stops,
	}
	if len(r.files) > 0 {
		req.Dir = filepath.Join(r.base, r.dir)
	}
	out, errOut := r.outputs()
	closed := closedOutput(out)
	if mode == sshhost.Terminal { // the command there has it for itself
		out, errOut = term.Unwrap(out), term.Unwrap(errOut)
	}
	if r.positions != nil {
		out, errOut = r.positions.Writer(out), r.positions.Writer(errOut)
	}
	s := sshhost.Streams{Out: out, Err: errOut, Files: r.files, Size: r.size}
	switch {
	case r.stdin != nil:
		s.In = r.stdin
	case mode == sshhost.Terminal || r.route.input != nil && r.route.input(r):
		s.In = r.p.Stdin
	}
	signals := make(chan os.Signal, 16)
	// SIGPIPE is caught so that a closed output is an error of the write, which is passed on.
	r.p.Notify(signals, append([]os.Signal{syscall.SIGWINCH, syscall.SIGPIPE}, sshhost.PassedSignals...)...)
	s.Signals, s.OutClosed = signals, closed
	if mode != sshhost.Pipes {
		req.Size = r.size()
	}
	if mode == sshhost.Terminal {
		restore, err := rawTerminal(r.p.Stdin)
		if err != nil {
			return 0, err
		}
		defer restore()
	}
	code, err := r.link.Run(context.WithoutCancel(ctx), req, s)
	if c, ok := r.stdout.(io.Closer); ok {
		err = errors.Join(err, c.Close())
	}
	return code, err
}

// outputs returns where the outputs of the command go.
func (r *remoteCall) outputs() (out, errOut io.Writer) {
	if r.stdout != nil {
		return r.stdout, r.p.Stderr
	}
	return r.p.Stdout, r.p.Stderr
}

// closedOutput returns a channel that is closed when the reader of a pipe is gone; nil for what is no pipe.
func closedOutput(w io.Writer) <-chan struct{} {
	f, ok := term.Unwrap(w).(*os.File)
	if !ok {
		return nil
	}
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		return nil
	}
	closed := make(chan struct{})
	go func() { // ends with the reader, or with the process
		for {
			fds := []unix.PollFd{{Fd: int32(f.Fd())}}
			_, err := unix.Poll(fds, -1)
			switch {
			case errors.Is(err, unix.EINTR):
			case err == nil && fds[0].Revents&unix.POLLERR != 0:
				close(closed)
				return
			default:
				return
			}
		}
	}()
	return closed
}

// mode returns what the outputs of the command are.
func (r *remoteCall) mode() sshhost.Mode {
	own := r.route.terminal != nil && r.route.terminal(r)
	switch {
	case own && command.IsTerminal(r.p.Stdin):
		return sshhost.Terminal
	case r.stdout == nil && command.IsTerminal(r.p.Stdout) && command.IsTerminal(r.p.Stderr):
		return sshhost.Screen
	}
	return sshhost.Pipes
}

// size returns the size of the terminal.
func (r *remoteCall) size() sshhost.Size {
	for _, end := range []any{term.Unwrap(r.p.Stdout), r.p.Stdin} {
		if f, ok := end.(*os.File); ok {
			if columns, rows, err := xterm.GetSize(int(f.Fd())); err == nil {
				return sshhost.Size{Rows: uint16(rows), Columns: uint16(columns)}
			}
		}
	}
	return sshhost.Size{Rows: 24, Columns: uint16(min(console.Columns(r.p.Stdout, r.p.Getenv), 1<<15))}
}

// rawTerminal passes all keys of a terminal on, until restore is called.
func rawTerminal(in io.Reader) (restore func(), err error) {
	f, ok := in.(*os.File)
	if !ok {
		return func() {}, nil
	}
	before, err := xterm.MakeRaw(int(f.Fd()))
	if err != nil {
		return nil, fmt.Errorf("set the terminal up: %w", err)
	}
	return func() { _ = xterm.Restore(int(f.Fd()), before) }, nil
}

// callerEnviron returns the variables of this machine that the line and its documents name.
func (r *remoteCall) callerEnviron() []string {
	env := make([]string, 0, len(r.caller))
	for name, value := range r.caller {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return env
}
