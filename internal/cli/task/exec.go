package task

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"syscall"

	mobyterm "github.com/moby/term"
	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/part"
	"github.com/podtask/podtask/internal/connect"
	"github.com/podtask/podtask/internal/engine/act/observe"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/urfave/cli/v2"
	"go.podman.io/common/pkg/detach"
	xterm "golang.org/x/term"
)

// Exit codes of a shell for a command that cannot be run.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
)

// ExecCommand is `podtask exec`.
func ExecCommand(p *command.Program, build part.Build) *cli.Command {
	return &cli.Command{
		Name:      "exec",
		Usage:     "run a command in a container of a task",
		ArgsUsage: "TASK|SERVICE [CONTAINER] [--] [COMMAND [ARG ...]]",
		Description: `Without CONTAINER the command runs in the only container of the task, or the only
essential one. The name of a service stands for the newest copy that runs; one
that sleeps is woken first. All words behind COMMAND are its own. -- is needed where COMMAND is also the
name of a container. On a terminal, without COMMAND, it is a shell, with -it.

The exit code is that of the command: 127 if the container has no such command, 126 if it
cannot be run. Signals go to the command; when podtask is killed, the command ends too.

Examples:
  podtask exec web
  podtask exec -it web sh
  podtask exec web sh -c 'echo $HOSTNAME'
  podtask exec web nginx -- nginx -s reload
  podtask exec -i web nginx -- sh -c 'cat > /tmp/x' < x`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "interactive", Aliases: []string{"i"}, Usage: "give the command this input"},
			&cli.BoolFlag{Name: "tty", Aliases: []string{"t"}, Usage: "give it a terminal"},
			&cli.StringSliceFlag{Name: "env", Aliases: []string{"e"}, Usage: "set `NAME=VALUE` for it; NAME alone takes the value from this environment"},
			&cli.StringFlag{Name: "workdir", Aliases: []string{"w"}, Usage: "the directory `DIR` in the container to run it in"},
			&cli.StringFlag{Name: "user", Aliases: []string{"u"}, Usage: "run it as `USER[:GROUP]` of the container"},
			&cli.StringFlag{Name: "detach-keys", Value: "ctrl-p,ctrl-q", Usage: "with -it, the `KEYS` that leave it running and end podtask; empty for none"},
		},
		Action: command.WithMachine(p, newExec(build)),
	}
}

type execOptions struct {
	in          io.Reader
	out, errOut io.Writer
	getenv      func(string) string
	environ     func() []string
	caller      func() []string // the environment of the user
	executable  func() (string, error)
	notify      func(chan<- os.Signal, ...os.Signal)
	tasks       *record.Tasks
	groups      groups
	exec        *observe.Exec
	log         *slog.Logger
}

func newExec(build part.Build) func(*command.Machine) execOptions {
	return func(m *command.Machine) execOptions {
		p := m.Program
		return execOptions{
			in: p.Stdin, out: p.Stdout, errOut: p.Stderr, getenv: p.Getenv, environ: p.Environ, caller: p.CallerEnviron, executable: p.Executable, notify: p.Notify,
			tasks: m.Engine.Tasks, groups: groups{m.Engine.Tasks, m.Connector, build, m.Program.Stderr}, exec: m.Engine.Exec, log: m.Log,
		}
	}
}

// Run implements command.Runner.
func (o execOptions) Run(ctx context.Context, c *cli.Context) error {
	words := c.Args().Slice()
	if len(words) == 0 {
		return command.Usagef("exec", "no TASK to run a command in")
	}
	st, err := o.tasks.Find(words[0])
	if connect.IsGone(err) {
		var one lifecycle.State
		var found bool
		if one, found, err = o.groups.one(ctx, words[0], err); found {
			st = one
		}
	}
	if err != nil {
		return err
	}
	container, argv := splitCommand(st, words[1:])
	input, terminal := c.Bool("interactive"), c.Bool("tty")
	switch {
	case len(argv) > 0:
	case command.IsTerminal(o.in) && command.IsTerminal(o.out):
		argv, input, terminal = command.Shell, true, true
	default:
		return command.Usagef("exec", "no COMMAND to run: write `podtask exec %s -- COMMAND`; the shell that runs without one needs a terminal", strings.Join(words, " "))
	}
	index, err := observe.ExecContainer(st, container)
	if err != nil {
		return err
	}
	if terminal { // the command has it for itself
		o.out, o.errOut = term.Unwrap(o.out), term.Unwrap(o.errOut)
	}
	x := &execution{execOptions: o, input: input, terminal: terminal}
	if x.keys, err = mobyterm.ToBytes(c.String("detach-keys")); err != nil && c.String("detach-keys") != "" {
		return command.Usagef("exec", "--detach-keys %q: %v; keys are letters or ctrl- with one, separated by commas", c.String("detach-keys"), err)
	}
	if x.terminal && x.input && !command.IsTerminal(o.in) {
		return command.Usagef("exec", "-t needs a terminal, and the input is none: use -i without -t")
	}
	spec := libpod.ExecSpec{
		Command: argv, Env: o.env(c.StringSlice("env")),
		Dir: c.String("workdir"), User: c.String("user"), Stdin: x.input, Terminal: x.terminal,
	}
	if x.Session, err = o.exec.New(ctx, st, index, spec); err != nil {
		return execError(st, index, spec, err)
	}
	defer x.guard()()
	code, err := x.run(ctx)
	if err != nil {
		return execError(st, index, spec, err)
	}
	return command.ExitWith(code)
}

// splitCommand splits the words after the task into the name of a container, which may be empty, and the
// command. Without "--", a first word is a container if there is one of that name.
func splitCommand(st lifecycle.State, words []string) (container string, argv []string) {
	i := slices.Index(words[:min(2, len(words))], "--") // a later one is the command's
	switch {
	case i == 1:
		container = words[0]
	case i < 0 && len(words) > 0:
		if _, found := st.Task.Index(words[0]); found {
			container, i = words[0], 0
		}
	}
	return container, words[i+1:]
}

// env returns the variables of --env. Those without a value take it from the environment of the user,
// or are left out if they are not set there.
func (o execOptions) env(words []string) (env []string) {
	for _, w := range words {
		if strings.Contains(w, "=") {
			env = append(env, w)
			continue
		}
		for _, e := range o.caller() {
			if value, ok := strings.CutPrefix(e, w+"="); ok && value != "" {
				env = append(env, e)
			}
		}
	}
	return env
}

// execError returns the error, with its exit code, for a command that could not be run.
func execError(st lifecycle.State, index int, spec libpod.ExecSpec, err error) error {
	where := fmt.Sprintf("container %s of task %s", st.Task.Containers[index].Name, st.DisplayName())
	switch {
	case errors.Is(err, libpod.InvalidSpec) && spec.Dir != "":
		return fmt.Errorf("%s has no directory %s to run the command in", where, spec.Dir)
	case errors.Is(err, libpod.CommandNotFound):
		return &command.ExitError{Code: exitNotFound, What: fmt.Sprintf("%s has no command %q: the image may lack it, or its PATH does", where, spec.Command[0])}
	case errors.Is(err, libpod.CommandNotExecutable):
		return &command.ExitError{Code: exitNotExecutable, What: fmt.Sprintf("%s cannot run %q: check the file's mode, its interpreter and the image's architecture", where, spec.Command[0])}
	}
	return err
}

// execution is a command that runs in a container.
type execution struct {
	execOptions
	*observe.Session
	input, terminal bool
	keys            []byte // to detach
}

// run runs the command and returns its exit code; 0 when the user detached from it.
func (x *execution) run(ctx context.Context) (code int, err error) {
	stream, err := x.Start(ctx, x.size())
	if err != nil {
		return 0, err
	}
	defer stream.Close()
	restore, err := x.raw()
	if err != nil {
		return 0, err
	}
	defer restore()
	defer x.passSignals(ctx)()

	fed := make(chan error, 1)
	if x.input {
		go func() { // ends with the input, or with the process
			err := x.feed(stream)
			fed <- err
			if errors.Is(err, detach.ErrDetach) {
				_ = stream.Close()
			}
		}()
	}
	err = stream.CopyOutput(x.out, x.errOut)
	select {
	case why := <-fed:
		if errors.Is(why, detach.ErrDetach) {
			return 0, nil
		}
	default:
	}
	if err != nil {
		return 0, err
	}
	return x.Wait(ctx)
}

// feed copies the input to the command, until its end or the keys to detach. It is not an error if
// the command does not read all of it.
func (x *execution) feed(stream *libpod.ExecStream) error {
	if x.terminal && len(x.keys) > 0 {
		if _, err := detach.Copy(stream, byteReader{bufio.NewReader(x.in)}, x.keys); errors.Is(err, detach.ErrDetach) {
			return err
		}
	} else if _, err := io.Copy(stream, x.in); err != nil {
		x.log.Debug("give the command its input", "error", err)
	}
	return stream.CloseWrite()
}

// byteReader reads one byte at a time: detach.Copy recognizes a key only if a read returns nothing else,
// and on a busy machine a read may return several.
type byteReader struct{ *bufio.Reader }

func (b byteReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c, err := b.ReadByte()
	if err != nil {
		return 0, err
	}
	p[0] = c
	return 1, nil
}

// raw puts the terminal into raw mode, in which Ctrl-C goes to the command too, until restore is
// called.
func (x *execution) raw() (restore func(), err error) {
	f, ok := x.in.(*os.File)
	if !x.terminal || !x.input || !ok {
		return func() {}, nil
	}
	before, err := xterm.MakeRaw(int(f.Fd()))
	if err != nil {
		return nil, fmt.Errorf("set the terminal up: %w", err)
	}
	return func() { _ = xterm.Restore(int(f.Fd()), before) }, nil
}

// size returns the size of the terminal of podtask; zero without one.
func (x *execution) size() libpod.Size {
	for _, end := range []any{term.Unwrap(x.out), x.in} {
		if f, ok := end.(*os.File); ok && x.terminal {
			if columns, rows, err := xterm.GetSize(int(f.Fd())); err == nil {
				return libpod.Size{Rows: uint16(rows), Columns: uint16(columns)}
			}
		}
	}
	return libpod.Size{}
}

// passSignals passes signals to the command, and changes of the terminal's size, until stop is called.
func (x *execution) passSignals(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	signals, ended := make(chan os.Signal, 16), make(chan struct{})
	x.notify(signals, syscall.SIGWINCH, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	go func() {
		defer close(ended)
		for {
			select {
			case sig := <-signals:
				if err := x.pass(ctx, sig.(syscall.Signal)); err != nil {
					x.log.Debug("pass a signal on", "signal", sig, "error", err)
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

func (x *execution) pass(ctx context.Context, sig syscall.Signal) error {
	if sig != syscall.SIGWINCH {
		return x.Signal(ctx, sig)
	}
	size := x.size()
	if size == (libpod.Size{}) {
		return nil
	}
	return x.Resize(ctx, size)
}
