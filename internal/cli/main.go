// Package cli is the command line of podtask.
//
// A command parses its part of the line, finds the process that owns a task or becomes its owner,
// sends requests and shows what changes.
package cli

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
)

// Main runs the command line of this process and returns its exit code. Version is the version of
// the program; if it is empty, that of the main module.
func Main(ctx context.Context, args []string, version string) int {
	p := &command.Program{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Getenv: os.Getenv, Environ: os.Environ, Executable: os.Executable,
		Notify: signal.Notify, Version: buildVersion(version),
		Patience: 3 * time.Second,
	}
	return runLine(ctx, p, args)
}

// buildVersion returns the version that the linker set, else that of the main module.
func buildVersion(linked string) string {
	if linked != "" {
		return linked
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
