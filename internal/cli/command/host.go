package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/podtask/podtask/internal/connect/sshhost"
	"github.com/podtask/podtask/internal/term"
	"github.com/urfave/cli/v2"
)

// HostEnv is the variable that names the host of commands.
const HostEnv = "PODTASK_HOST"

// HostFlag returns --host, which every command has.
func HostFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "host", Usage: "work on another `HOST` through ssh: ssh://[USER@]HOST[:PORT], the name of a context, or local (" + HostEnv + ")"}
}

// ChosenHost is the host of a command line.
type ChosenHost struct {
	sshhost.Host
	// Asked: the command line has --host, so that a command that cannot work there is an error.
	Asked bool
	// Word is the URL or the name of a context that the user gave.
	Word string
}

// Name returns a short name for people: that of the context, or the host without the scheme.
func (h ChosenHost) Name() string { return strings.TrimPrefix(h.Word, "ssh://") }

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
	return ChosenHost{Host: h, Asked: flag != "", Word: chosen}, nil
}

// AllHostsFlag is the flag of commands that show this machine and the hosts of all contexts.
const AllHostsFlag = "all-hosts"

// FindHosts returns the hosts of a command that shows several; none if that is this machine alone.
func (p *Program) FindHosts(c *cli.Context) ([]ChosenHost, error) {
	words := c.StringSlice("host")
	switch {
	case p.Caller != nil:
		return nil, nil
	case c.Bool(AllHostsFlag) && len(words) > 0:
		return nil, Usagef(Path(c), "--host and --%s exclude each other", AllHostsFlag)
	case !c.Bool(AllHostsFlag) && len(words) < 2:
		h, err := p.FindHost(strings.Join(words, ""))
		if err != nil || !h.Remote() {
			return nil, err
		}
		return []ChosenHost{h}, nil
	}
	contexts, err := sshhost.LoadContexts(p.Getenv)
	if err != nil {
		return nil, err
	}
	if c.Bool(AllHostsFlag) {
		words = []string{sshhost.Local}
		for _, x := range contexts.Contexts {
			words = append(words, x.Name)
		}
	}
	var hosts []ChosenHost
	var errs []error
	for _, word := range words {
		h, err := contexts.Find(word)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("--host: %w", err))
		case !slices.ContainsFunc(hosts, func(have ChosenHost) bool { return have.Word == word }):
			hosts = append(hosts, ChosenHost{Host: h, Asked: true, Word: word})
		}
	}
	return hosts, errors.Join(errs...)
}

// FindOneHost is FindHost for a command that works on one host.
func (p *Program) FindOneHost(c *cli.Context) (ChosenHost, error) {
	words := c.StringSlice("host")
	if len(words) > 1 {
		return ChosenHost{}, OneHostError(words)
	}
	return p.FindHost(strings.Join(words, ""))
}

// OneHostError is the error for a command that does not work on several hosts.
func OneHostError(words []string) error {
	return Usagef("", "%d hosts (%s): only top and ui show several; to place tasks on several hosts is what Kubernetes and ECS do; run the command once for each host", len(words), strings.Join(words, ", "))
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

// SentDir returns where the files are that another machine sends with a command, below the directory of sockets or of state.
func SentDir(dir string) string { return filepath.Join(dir, "sessions") }

// maxAnswer limits the answer of another host, in bytes.
const maxAnswer = 1 << 20

// Answer collects what a command prints on another host. A write beyond one MiB is an error.
type Answer struct{ bytes.Buffer }

// Write implements io.Writer.
func (a *Answer) Write(p []byte) (int, error) {
	if a.Len()+len(p) > maxAnswer {
		return 0, fmt.Errorf("the host answers with more than %d bytes", maxAnswer)
	}
	return a.Buffer.Write(p)
}

// AnswerOf returns what a command prints on another host. What it prints to stderr goes to errOut. The error of a command that fails
// there is an ExitStatus.
func AnswerOf(ctx context.Context, link *sshhost.Link, errOut io.Writer, args ...string) ([]byte, error) {
	var out Answer
	code, err := link.Run(ctx, sshhost.Request{Args: args}, sshhost.Streams{Out: &out, Err: term.NewScreen(errOut)})
	if err != nil {
		return nil, err
	}
	return out.Bytes(), ExitWith(code)
}
