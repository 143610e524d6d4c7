package views

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/hostview"
	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/connect/sshhost"
	"github.com/urfave/cli/v2"
)

// ViewCommand is what `podtask top` and `podtask ui` of another machine start on this host.
func ViewCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:        "view",
		Usage:       "answer podtask top and podtask ui of another machine, on stdin and stdout",
		Description: "Examples:\n  ssh box podtask view",
		Hidden:      true,
		Action:      command.WithMachine(p, newView),
	}
}

type viewOptions struct {
	in      io.Reader
	out     io.Writer
	backend webView
}

func newView(m *command.Machine) viewOptions {
	return viewOptions{in: m.Program.Stdin, out: m.Program.Stdout, backend: newWebView(m, false)}
}

// Run implements command.Runner.
func (o viewOptions) Run(ctx context.Context, c *cli.Context) error {
	if err := command.NoArguments(c); err != nil {
		return err
	}
	if command.IsTerminal(o.in) {
		return command.Usagef("view", "view is what `podtask top` of another machine starts: its input is no terminal")
	}
	return hostview.Serve(ctx, o.in, o.out, o.backend)
}

// otherHosts opens the views of other hosts.
type otherHosts struct {
	find       func(*cli.Context) ([]command.ChosenHost, error)
	configure  func(*cli.Context) (*config.Settings, error)
	executable func() (string, error)
	environ    func() []string
	options    func() sshhost.Options
}

func newOtherHosts(p *command.Program) otherHosts {
	return otherHosts{find: p.FindHosts, configure: p.Configure, executable: p.Executable, environ: p.Environ, options: p.HostOptions}
}

// allHostsFlag is the flag of the commands that show several hosts.
func allHostsFlag() cli.Flag {
	return &cli.BoolFlag{Name: command.AllHostsFlag, Aliases: []string{"A"}, Usage: "show this machine and the hosts of all contexts; --host may also be given several times"}
}

// action returns the action of a command that shows this machine, or the hosts that the command line chooses.
func (o otherHosts) action(here cli.ActionFunc, there func(*cli.Context, *hostview.View) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		view, err := o.open(c)
		switch {
		case err != nil:
			return err
		case view == nil:
			return here(c)
		}
		defer view.Close()
		return there(c, view)
	}
}

// open returns the view of the hosts that the command line chooses; nil if that is this machine alone.
func (o otherHosts) open(c *cli.Context) (*hostview.View, error) {
	chosen, err := o.find(c)
	if err != nil || len(chosen) == 0 {
		return nil, err
	}
	settings, err := o.configure(c)
	if err != nil {
		return nil, err
	}
	args := append(settings.FlagArgs(), "view")
	words := make(map[string]string)
	var hosts []*hostview.Host
	for _, h := range chosen {
		words[h.Name()] = h.Word
		open := hostview.SSH(func(ctx context.Context, stderr io.Writer) (*sshhost.Link, error) {
			options := o.options()
			options.Stderr = stderr
			options.Ask = options.Ask && len(chosen) == 1
			return sshhost.Dial(ctx, h.Host, options)
		}, args)
		if !h.Remote() {
			open = hostview.Local(func(ctx context.Context) (*exec.Cmd, error) {
				return o.program(ctx, append([]string{"--host", sshhost.Local}, args...)...)
			})
		}
		hosts = append(hosts, &hostview.Host{Name: h.Name(), Open: open})
	}
	shellOf := func(ctx context.Context, host, id, container string) (*exec.Cmd, error) {
		args := append([]string{"--host", words[host], "exec", "-it", id, container, "--"}, command.Shell...)
		return o.program(ctx, args...)
	}
	return hostview.New(c.Context, hosts, shellOf, time.Now), nil
}

// program returns a command of this program.
func (o otherHosts) program(ctx context.Context, args ...string) (*exec.Cmd, error) {
	self, err := o.executable()
	if err != nil {
		return nil, fmt.Errorf("find the program of podtask: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = o.environ()
	return cmd, nil
}

// interrupted returns the exit code for a signal before there was a connection.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return command.ExitStatus(command.ExitInterrupted)
	}
	return err
}
