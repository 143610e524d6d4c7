package command

import (
	"fmt"
)

// Exit codes as in Podman. A task in the foreground has its own.
const (
	ExitInvalid    = 1 // validate: the file is not valid
	ExitOwnFailure = 125
)

// ExitStatus is an error that only sets the exit code: its cause is printed already.
type ExitStatus int

func (e ExitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// ExitError is an error with a special exit code.
type ExitError struct {
	Code int
	What string
}

func (e *ExitError) Error() string { return e.What }

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

// Usagef returns a UsageError that points to the help of a command; an empty verb is the program.
func Usagef(verb, format string, args ...any) error {
	if verb != "" {
		verb = " " + verb
	}
	return &UsageError{What: fmt.Sprintf(format, args...), Do: "See `podtask" + verb + " --help`."}
}

// ExitInterrupted is the exit code after Ctrl-C before anything ran: 128 + SIGINT.
const ExitInterrupted = 130
