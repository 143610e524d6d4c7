package cli

import (
	"fmt"
)

// Exit codes as Podman has them; a task in the foreground gives its own.
const (
	exitInvalid    = 1 // validate: the file is not valid
	exitOwnFailure = 125
)

// exitStatus ends the program with a code when everything has been said.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// failedWith is a failure with an exit code of its own.
type failedWith struct {
	code int
	what string
}

func (e *failedWith) Error() string { return e.what }

// exitWith returns the error for an exit code; nil for 0.
func exitWith(code int) error {
	if code == 0 {
		return nil
	}
	return exitStatus(code)
}

// usageError is a mistake on the command line.
type usageError struct{ what, do string }

func (e *usageError) Error() string { return e.what }

// usagef makes a usageError that points to the help of a verb; empty for none.
func usagef(verb, format string, args ...any) error {
	if verb != "" {
		verb = " " + verb
	}
	return &usageError{what: fmt.Sprintf(format, args...), do: "See `podtask" + verb + " --help`."}
}
