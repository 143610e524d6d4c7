// Package signalname has the names under which signals are recorded as the reason of a stop.
package signalname

import "syscall"

// Of returns the name of a signal in records and messages.
func Of(sig syscall.Signal) string {
	switch sig {
	case syscall.SIGINT:
		return "Ctrl-C (SIGINT)"
	case syscall.SIGTERM:
		return "SIGTERM"
	case syscall.SIGHUP:
		return "the loss of its terminal (SIGHUP)"
	}
	return sig.String()
}
