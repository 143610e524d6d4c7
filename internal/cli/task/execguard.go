package task

import (
	"context"
	"io"
	"os"
	"os/exec"
	"syscall"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/urfave/cli/v2"
)

const execGuard = "exec-guard"

// releaseMessage tells the helper not to end the command.
const releaseMessage = "released\n"

// ExecGuardCommand is the helper that ends the command of a `podtask exec` that is killed; Podman
// would let it run.
func ExecGuardCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      execGuard,
		Usage:     "end the command of an exec session when stdin breaks off",
		ArgsUsage: "SESSION",
		Hidden:    true,
		Action: func(c *cli.Context) error {
			word, err := io.ReadAll(p.Stdin)
			if string(word) == releaseMessage || err != nil {
				return err
			}
			e, err := p.OpenEngine(c)
			if err != nil {
				return err
			}
			defer e.Close()
			x, err := e.Exec.Session(c.Context, c.Args().First())
			if err != nil {
				return err
			}
			return x.End(context.WithoutCancel(c.Context))
		},
	}
}

// guardScript waits for the word that releases the guard, and becomes the helper if the input ends without it.
// A shell starts in a tenth of the time of podtask and needs a tenth of its memory, for as long as the command runs.
const guardScript = `read -r word && [ "$word" = released ] || exec "$0" ` + execGuard + ` "$1"`

// guard starts a shell that becomes the helper, in a session of its own so that neither Ctrl-C nor the end
// of the terminal reaches it. Release tells it that the program ended normally.
func (x *execution) guard() (release func()) {
	read, write, err := os.Pipe()
	if err != nil {
		x.log.Debug("no guard for the command", "error", err)
		return func() {}
	}
	defer read.Close()
	self, err := x.executable()
	if err == nil {
		cmd := exec.Command("/bin/sh", "-c", guardScript, self, x.ID)
		cmd.Stdin, cmd.Env = read, x.environ()
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err = cmd.Start(); err == nil {
			go func() { _ = cmd.Wait() }()
		}
	}
	if err != nil {
		x.log.Debug("no guard for the command", "error", err)
	}
	return func() {
		_, _ = io.WriteString(write, releaseMessage)
		_ = write.Close()
	}
}
