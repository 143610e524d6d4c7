package command

import (
	"fmt"
)

// Exit codes as Podman has them; a task in the foreground gives its own.
const (
	ExitInvalid    = 1 // validate: the file is not valid
	ExitOwnFailure = 125
)

// ExitStatus ends the program with a code when all errors have been printed.
type ExitStatus int

func (e ExitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// FailedWith is a failure with an exit code of its own.
type FailedWith struct {
	Code int
	What string
}

func (e *FailedWith) Error() string { return e.What }

// ExitWith returns the error for an exit code; nil for 0.
func ExitWith(code int) error {
	if code == 0 {
		return nil
	}
	return ExitStatus(code)
}

// UsageError is a mistake on the command line.
type UsageError struct{ What, Do string }

func (e *UsageError) Error() string { return e.What }

// Usagef returns a UsageError that points to the help of a command; empty for that of the program.
func Usagef(verb, format string, args ...any) error {
	if verb != "" {
		verb = " " + verb
	}
	return &UsageError{What: fmt.Sprintf(format, args...), Do: "See `podtask" + verb + " --help`."}
}

// ExitInterrupted is the exit code after Ctrl-C before anything ran: 128 + SIGINT.
const ExitInterrupted = 130
