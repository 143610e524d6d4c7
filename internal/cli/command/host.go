package command

import (
	"fmt"
	"os"
	"strconv"

	"github.com/podtask/podtask/internal/connect/sshhost"
	"github.com/urfave/cli/v2"
)

// HostEnv is the variable that names the host of commands.
const HostEnv = "PODTASK_HOST"

// HostFlag returns --host, which every command has.
func HostFlag() cli.Flag {
	return &cli.StringFlag{Name: "host", Usage: "work on another `HOST` through ssh: ssh://[USER@]HOST[:PORT], the name of a context, or local (" + HostEnv + ")"}
}

// ChosenHost is the host of a command line.
type ChosenHost struct {
	sshhost.Host
	// Asked: the command line has --host, so that a command that cannot work there is an error.
	Asked bool
}

// Remote reports whether it is another machine.
func (h ChosenHost) Remote() bool { return h.Host != sshhost.Host{} }

// FindHost returns the host that --host names; else the variable PODTASK_HOST; else the current context,
// which does not count for the process of a service.
// Flag is empty if the line has none.
func (p *Program) FindHost(flag string) (ChosenHost, error) {
	if p.Caller != nil {
		return ChosenHost{}, nil // this process is the one on the other host
	}
	chosen, origin := flag, "--host"
	if chosen == "" {
		chosen, origin = p.Getenv(HostEnv), HostEnv
	}
	contexts, err := sshhost.LoadContexts(p.Getenv)
	if err != nil {
		if chosen == "" && p.Getenv("HOME") == "" {
			return ChosenHost{}, nil
		}
		return ChosenHost{}, err
	}
	if chosen == "" && !p.isService() {
		chosen, origin = contexts.Current, "the current context"
	}
	if chosen == "" {
		return ChosenHost{}, nil
	}
	h, err := contexts.Find(chosen)
	if err != nil {
		return ChosenHost{}, fmt.Errorf("%s: %w", origin, err)
	}
	return ChosenHost{Host: h, Asked: flag != ""}, nil
}

// isService reports whether systemd has started this process as that of a service (systemd.exec(5),
// SYSTEMD_EXEC_PID). Services work on their own machine, whatever context the user is in.
func (p *Program) isService() bool { return p.Getenv("SYSTEMD_EXEC_PID") == strconv.Itoa(os.Getpid()) }

// HostOptions are how this process connects to hosts.
func (p *Program) HostOptions() sshhost.Options {
	return sshhost.Options{Version: p.Version, Stderr: p.Stderr, Ask: p.MayAsk()}
}

// MayAsk reports whether ssh may ask the user something: on a terminal.
func (p *Program) MayAsk() bool { return IsTerminal(p.Stdin) && IsTerminal(p.Stderr) }
