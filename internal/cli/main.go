// Package cli is the command line of podtask.
//
// A command parses its part of the line, finds the process that owns a task or becomes its owner,
// sends requests and shows what changes.
package cli

import (
	"context"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/buildversion"
	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/heap"
	"github.com/podtask/podtask/internal/cli/part"
)

// Main runs the command line of this process and returns its exit code. Version is the version of
// the program; if it is empty, that of the main module. Build has the parts that are linked.
func Main(ctx context.Context, args []string, version string, build part.Build) int {
	completeLogin()
	heap.SaveLater()
	p := &command.Program{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Getenv: os.Getenv, Environ: os.Environ, Executable: os.Executable,
		Notify: signal.Notify, Version: buildversion.Of(version),
		Patience: 10 * time.Second,
	}
	p.Stdout, p.Stderr = command.ToTerminal(p.Stdout), command.ToTerminal(p.Stderr)
	defer command.ResetTerminal(p.Stdout)
	defer command.ResetTerminal(p.Stderr)
	return runLine(ctx, p, build, args)
}

// completeLogin sets the variables of a login that a process of cron, su or sudo lacks, so that it finds the agent and
// Podman. Podman takes the same directory.
func completeLogin() {
	if _, set := os.LookupEnv("XDG_RUNTIME_DIR"); set {
		return
	}
	environ := os.Environ()
	for _, e := range sessionEnviron(environ)[len(environ):] {
		name, value, _ := strings.Cut(e, "=")
		_ = os.Setenv(name, value) // it cannot fail for these names
	}
}
