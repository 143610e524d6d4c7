package hooks

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/podtask/podtask/internal/host/procgroup"
)

// passedOn are the variables of podtask's environment that a program gets. None holds a secret.
var passedOn = []string{
	"PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME",
	"DBUS_SESSION_BUS_ADDRESS", "CONTAINER_HOST",
}

// endGrace is between the request to end and the end of a program that was given up.
const endGrace = 5 * time.Second

// program is what became of a program.
type program struct {
	out      []byte // its standard output
	said     []byte // the end of its standard error
	exitCode int
}

// errTooMuch: a program or an endpoint wrote more than is read.
var errTooMuch = fmt.Errorf("it wrote more than %d bytes", maxAnswer)

// runProgram runs a program with input, without a shell and in a process group of its own, which
// has ended when runProgram returns. When ctx ends, the group is asked to end, and killed five
// seconds later. If the agent is killed, the program is.
func (r *Runner) runProgram(ctx context.Context, argv []string, input []byte, variables ...string) (p program, err error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = "/"
	cmd.Env = variables
	for _, name := range passedOn {
		if value := r.Getenv(name); value != "" {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	out, said := &limited{room: maxAnswer}, &tail{}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(string(input)), out, said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	procgroup.Lead(cmd, syscall.SIGTERM)
	cmd.WaitDelay = endGrace
	// The signal comes at the end of the thread that started the program.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		if at, ok := errors.AsType[*fs.PathError](err); ok {
			err = at.Err
		}
		return p, fmt.Errorf("%s cannot be run: %w", argv[0], err)
	}
	err = procgroup.Wait(cmd)
	p = program{out.b, said.b, cmd.ProcessState.ExitCode()}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return p, ended(ctx)
	case out.over:
		return p, errTooMuch
	case errors.As(err, &exit):
		return p, errors.New("it ended with " + exit.String())
	case errors.Is(err, exec.ErrWaitDelay), err == nil, errors.Is(err, syscall.EPIPE): // it need not read all
		return p, nil
	}
	return p, err
}

// ended explains why a call was given up.
func ended(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), errCallLimit) || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return context.Cause(ctx)
	}
	return errors.New("its time was over")
}

// limited keeps what is written up to a limit, and refuses more.
type limited struct {
	b    []byte
	room int
	over bool // there was more
}

func (w *limited) Write(p []byte) (int, error) {
	n := min(w.room-len(w.b), len(p))
	w.b = append(w.b, p[:n]...)
	if w.over = n < len(p); w.over {
		return n, errTooMuch // the program gets SIGPIPE
	}
	return n, nil
}

// tail keeps the end of what is written.
type tail struct{ b []byte }

func (w *tail) Write(p []byte) (int, error) {
	w.b = append(w.b, p[max(0, len(p)-maxShown):]...)
	if over := len(w.b) - maxShown; over > 0 {
		w.b = slices.Delete(w.b, 0, over)
	}
	return len(p), nil
}
