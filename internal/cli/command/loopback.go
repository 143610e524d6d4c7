package command

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// portAttempts is how many free ports of 127.0.0.1 are tried until one is free on ::1 too.
const portAttempts = 20

// ListenLoopback listens on one port of 127.0.0.1 and, where the host has it, of ::1: a browser may try either
// for a name below localhost, and a program of another user that has the other one would get its requests.
// Port 0 takes a free one.
func ListenLoopback(port int) ([]net.Listener, error) {
	for attempt := 1; ; attempt++ {
		all, err := listenBoth(port)
		if port != 0 || attempt == portAttempts || !errors.Is(err, syscall.EADDRINUSE) {
			return all, err
		}
	}
}

func listenBoth(port int) ([]net.Listener, error) {
	four, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		return nil, err
	}
	six, err := net.ListenTCP("tcp6", &net.TCPAddr{IP: net.IPv6loopback, Port: PortOf(four)})
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		four.Close()
		return nil, fmt.Errorf("another program has this port of ::1, and would get requests of the browser: %w", err)
	case err != nil: // the host has no IPv6
		return []net.Listener{four}, nil
	}
	return []net.Listener{four, six}, nil
}

// PortOf returns the port of a TCP listener.
func PortOf(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }
