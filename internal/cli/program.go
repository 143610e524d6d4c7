package cli

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/part"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/internal/userfile"
)

// runLine runs one command line and returns the exit code.
func runLine(ctx context.Context, p *command.Program, build part.Build, args []string) int {
	p.BeforeCleanUp, p.Convert, p.Beside = build.BeforeCleanUp(), build.Convert(), build.Beside()
	app := newApp(p, build)
	arranged, err := arrange(app, build, args)
	if err != nil {
		return report(p, err)
	}
	if path, all, asked := requestedHelp(app, arranged); asked {
		return report(p, printHelp(p, app, path, all))
	}
	switch call, err := remoteLine(ctx, p, build, arranged); {
	case err != nil:
		return report(p, err)
	case call != nil:
		return report(p, call.run())
	}
	return report(p, app.RunContext(ctx, arranged))
}

// report prints an error and returns the exit code for it.
func report(p *command.Program, err error) int {
	var status command.ExitStatus
	var usage *command.UsageError
	var failed *command.ExitError
	var interrupted *userfile.InterruptedError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &status):
		return int(status)
	case errors.As(err, &interrupted):
		if s, ok := interrupted.Signal.(syscall.Signal); ok {
			return 128 + int(s)
		}
		return command.ExitInterrupted
	case errors.As(err, &usage):
		fmt.Fprintf(p.Stderr, "Error: %s\n%s\n", term.Lines(usage.What), term.Lines(usage.Do))
	case errors.As(err, &failed):
		fmt.Fprintln(p.Stderr, command.OnTerminal(p.Stderr, "Error: ", term.Lines(err.Error())))
		return failed.Code
	default:
		fmt.Fprintln(p.Stderr, command.OnTerminal(p.Stderr, "Error: ", term.Lines(err.Error())))
	}
	return command.ExitOwnFailure
}
