// Package transient marks errors that may go away: the same operation may succeed if it is tried again
// later, without any change. Whether an error is transient is decided where the error is created.
package transient

import "errors"

// Err matches every transient error. Error types of their own match it by their method Is.
var Err = errors.New("may succeed later")

// Is reports whether err is transient.
func Is(err error) bool { return errors.Is(err, Err) }

// Error is an error that is transient whatever its cause is.
type Error struct{ Cause error }

// Mark returns err as a transient error; nil stays nil.
func Mark(err error) error {
	if err == nil {
		return nil
	}
	return &Error{Cause: err}
}

func (e *Error) Error() string { return e.Cause.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Is reports that the error is transient.
func (e *Error) Is(target error) bool { return target == Err }
