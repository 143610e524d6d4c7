package images

import (
	"context"
	"time"
)

// Class says why a digest could not be had. It decides whether trying again
// makes sense and which advice a user gets.
type Class int

// The classes. The zero Class is Other, so that an unknown failure is never
// taken for a known one.
const (
	Other            Class = iota // nothing below fits
	Invalid                       // the text is not an image reference
	Unauthorized                  // no credentials, or refused ones (401)
	Denied                        // known, but not allowed to read this (403), or blocked in registries.conf
	NoSuchRepository              // the registry does not know the repository
	NoSuchTag                     // the repository has no such tag
	RateLimited                   // too many requests (429)
	TLS                           // no trust in the certificate, or no TLS at all
	DNS                           // the registry's name does not resolve
	Timeout                       // the deadline passed
	Unreachable                   // refused, reset, no route
	Server                        // the registry failed (5xx)
	Canceled                      // the caller gave up
	WrongPlatform                 // the image is there, but not for the platform wanted

	numClasses
)

var classNames = [numClasses]string{
	"other", "invalid", "unauthorized", "denied", "no such repository", "no such tag",
	"rate limited", "tls", "dns", "timeout", "unreachable", "server", "canceled", "wrong platform",
}

// String is the class in lower-case words.
func (c Class) String() string {
	if c < 0 || c >= numClasses {
		return "unknown class"
	}
	return classNames[c]
}

// Error is the only kind of error this package returns. Its texts name neither
// passwords nor tokens and carry URLs without user information and query; the
// error it was made from is dropped for the same reason.
type Error struct {
	Class    Class
	Ref      string // the image, normalised where it could be parsed
	Registry string // host, with port if any; empty for class Invalid
	Message  string // what went wrong and why
	Hint     string // what to do about it; may be empty
	// RetryAfter is how long the registry asks to be left alone; 0 if it does not.
	RetryAfter time.Duration

	transient bool
}

// Error is one line: the image, the message, the hint.
func (e *Error) Error() string {
	s := "image " + e.Ref + ": " + e.Message
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

// Temporary reports whether the same request may succeed later without anybody
// mending anything. It does not say when: podtask's own back-off decides. A
// registry that said when, and that it is longer than anybody here waits, is not
// asked again.
func (e *Error) Temporary() bool {
	switch e.Class {
	case RateLimited, Server:
		return e.RetryAfter == 0
	case Timeout, Unreachable:
		return true
	case DNS, Other:
		return e.transient
	default:
		return false
	}
}

// Unwrap lets errors.Is find context.Canceled and context.DeadlineExceeded.
func (e *Error) Unwrap() error {
	switch e.Class {
	case Canceled:
		return context.Canceled
	case Timeout:
		return context.DeadlineExceeded
	default:
		return nil
	}
}
