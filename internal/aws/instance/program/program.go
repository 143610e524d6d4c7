package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/aws/instance"
	"github.com/podtask/podtask/internal/buildversion"
)

// Exit codes. ExitRefused is for what only the user can mend: another start meets the same, so systemd
// does not try it (docs/ecs-anywhere.md).
const (
	exitFailed  = 125
	exitRefused = 5
)

// command is one of the commands of the program.
type command struct {
	name, usage string
	run         func(ctx context.Context, o *options, stdout, stderr io.Writer) error
	// flags are the groups of flags that it takes, with blanks between them: region, account, agent, cluster, host.
	flags string
}

// takes reports whether the command has a group of flags.
func (c command) takes(group string) bool { return slices.Contains(strings.Fields(c.flags), group) }

var commands = []command{
	{"join", "register this host, and run the tasks that ECS places on it, until it is ended", join, "region account agent cluster host"},
	{"activate", "make this host a managed instance of Systems Manager, which gives it credentials", activate, "region"},
	{"status", "show the instance, its links and its tasks", status, ""},
	{"drain", "have ECS place no more tasks here and move those of services; --undo ends it", drain, "region account"},
	{"leave", "deregister the instance and forget it; with --force also while tasks run, which are stopped", leave, "region account agent"},
	{"check", "try what can be tried without changing anything, before and after joining, and print what AWS answers", check, "region account agent cluster host"},
}

// Main runs the program with the streams and the environment of this process, and returns the exit code.
// Version is the version of the program; if it is empty, that of the main module.
func Main(ctx context.Context, args []string, version string) int {
	return run(ctx, args[1:], streams{os.Stdout, os.Stderr}, os.Getenv, buildversion.Of(version))
}

// streams are those of a process that it writes to.
type streams struct{ stdout, stderr io.Writer }

func run(ctx context.Context, args []string, to streams, getenv func(string) string, version string) int {
	stdout, stderr := to.stdout, to.stderr
	if len(args) > 0 && (args[0] == "--version" || args[0] == "-version") {
		fmt.Fprintln(stdout, "podtask-ecs version "+version)
		return 0
	}
	if len(args) == 0 || args[0] == "--help" || args[0] == "-h" || args[0] == "help" {
		printUsage(stderr)
		if len(args) == 0 {
			return exitFailed
		}
		return 0
	}
	for _, c := range commands {
		if c.name != args[0] {
			continue
		}
		o := newOptions(c, stderr, getenv, version)
		switch err := o.parse(args[1:]); {
		case errors.Is(err, errHelp):
			return 0
		case err != nil:
			return report(stderr, err)
		}
		return report(stderr, c.run(ctx, o, stdout, stderr))
	}
	return report(stderr, fmt.Errorf("%q is no command: use join, activate, status, drain, leave or check", args[0]))
}

// report prints an error and returns the exit code.
func report(stderr io.Writer, err error) int {
	var fatal *instance.FatalError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &fatal):
		fmt.Fprintln(stderr, "Error: "+err.Error())
		return exitRefused
	case !errors.Is(err, errPrinted):
		fmt.Fprintln(stderr, "Error: "+err.Error())
	}
	return exitFailed
}

// errPrinted is a failure that the user has been told of.
var errPrinted = errors.New("failed")

func printUsage(w io.Writer) {
	fmt.Fprintln(w, "Usage: podtask ecs COMMAND [flags]\n\nCommands:")
	for _, c := range commands {
		fmt.Fprintf(w, "  %-10s%s\n", c.name, c.usage)
	}
	fmt.Fprintln(w, "\n\"podtask ecs COMMAND --help\" lists the flags. This was not tried against AWS: see docs/ecs-anywhere.md.")
}
