package sshhost

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/podtask/podtask/internal/term"
)

// process is a running ssh.
type process struct {
	cmd   *exec.Cmd
	in    *os.File // to the other host
	out   *os.File // from the other host
	ended chan struct{}

	closing sync.Once
}

// shield starts ssh with Ctrl-C and Ctrl-\ ignored: the terminal sends them to ssh too, and they are for
// the command on the other host. ssh leaves them ignored, except while it asks for a password.
const shield = `trap "" INT QUIT; exec "$0" "$@"`

// startSSH starts ssh with a command for the other host's shell. Its messages go to stderr.
func startSSH(h Host, ask bool, command string, stderr io.Writer, options ...string) (*process, error) {
	ssh, err := exec.LookPath("ssh")
	if err != nil {
		return nil, fmt.Errorf("ssh is not installed here: %w", err)
	}
	childIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		childIn.Close()
		in.Close()
		return nil, err
	}
	p := &process{in: in, out: out, ended: make(chan struct{})}
	p.cmd = exec.Command("sh", slices.Concat([]string{"-c", shield, ssh}, options, h.Arguments(ask, command))...)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = childIn, childOut, stderr
	p.cmd.WaitDelay = time.Second // a master connection that ssh leaves in the background keeps stderr open
	err = p.cmd.Start()
	childIn.Close()
	childOut.Close()
	if err != nil {
		in.Close()
		out.Close()
		return nil, fmt.Errorf("start ssh: %w", err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // the state says how it ended
	}()
	return p, nil
}

// Read implements io.Reader.
func (p *process) Read(b []byte) (int, error) { return p.out.Read(b) }

// Write implements io.Writer.
func (p *process) Write(b []byte) (int, error) { return p.in.Write(b) }

// closeLimit bounds the end of ssh after its input has ended, and after SIGTERM.
const closeLimit = 3 * time.Second

// Close ends ssh and returns when it has ended.
func (p *process) Close() error {
	p.closing.Do(func() {
		p.in.Close()
		for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGKILL} {
			if p.await(closeLimit) {
				break
			}
			_ = p.cmd.Process.Signal(sig)
		}
		<-p.ended
		p.out.Close()
	})
	return nil
}

// await reports whether ssh has ended within a time.
func (p *process) await(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.ended:
		return true
	case <-timer.C:
		return false
	}
}

// Exit codes of ssh: that of the command, or 255 for an error of its own. A shell reports 126 and 127 for
// a program that it cannot run.
const (
	sshFailed        = 255
	shellCannotRun   = 126
	shellHasNoSuch   = 127
	notInstalledText = "podtask is not installed on %s, or not in the PATH of commands by ssh: `podtask host setup %s` installs it"
)

// unreachableError reports an ssh that has failed.
type unreachableError struct{ host Host }

func (e *unreachableError) Error() string {
	return fmt.Sprintf("ssh cannot connect to %s; ssh says above why", e.host)
}

// Passing reports whether a later Dial may succeed where this error came: the connection broke or could not be made.
func Passing(err error) bool {
	return errors.As(err, new(*LostError)) || errors.As(err, new(*unreachableError))
}

// failure returns the error for an ssh that ended before it was used.
func (p *process) failure(h Host) error {
	if !p.await(closeLimit) {
		return fmt.Errorf("%s does not answer as podtask does", h)
	}
	switch code := p.cmd.ProcessState.ExitCode(); code {
	case sshFailed:
		return &unreachableError{h}
	case shellCannotRun, shellHasNoSuch:
		return fmt.Errorf(notInstalledText, h, h)
	case 125: // what an older podtask answers to an unknown command
		return fmt.Errorf("podtask on %s is too old to be used through ssh: `podtask host setup %s` copies this one there", h, h)
	default:
		return fmt.Errorf("ssh to %s ended with %s before podtask answered there", h, p.cmd.ProcessState)
	}
}

// silenceOptions let ssh end when the other host is silent; a Link finds that out itself.
var silenceOptions = []string{"-oServerAliveInterval=5", "-oServerAliveCountMax=4"}

// ShellCommand is a command line of another host's shell.
type ShellCommand struct {
	Host Host
	Ask  bool // ssh may ask on the terminal
	Line string

	Stdin          io.Reader // nil: none
	Stdout, Stderr io.Writer
}

// Run runs the command and returns when it has ended. Its exit code is that of the *exec.ExitError.
func (c ShellCommand) Run(ctx context.Context) error {
	p, err := startSSH(c.Host, c.Ask, c.Line, term.NewScreen(c.Stderr), silenceOptions...)
	if err != nil {
		return err
	}
	defer p.Close()
	stop := context.AfterFunc(ctx, func() { _ = p.cmd.Process.Kill() })
	defer stop()
	var wg sync.WaitGroup
	var sent error
	wg.Go(func() {
		if c.Stdin != nil {
			_, sent = io.Copy(p.in, c.Stdin)
		}
		p.in.Close()
	})
	_, err = io.Copy(term.NewScreen(c.Stdout), p.out)
	<-p.ended
	p.in.Close()
	wg.Wait()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case p.cmd.ProcessState.ExitCode() == sshFailed:
		return &unreachableError{c.Host}
	case !p.cmd.ProcessState.Success():
		return &exec.ExitError{ProcessState: p.cmd.ProcessState}
	case errors.Is(sent, syscall.EPIPE):
		sent = nil // the command did not read all of it
	}
	return errors.Join(err, sent)
}
