// Package kept has systemd keep the listeners of a process while that is restarted, or was killed: connections
// wait in them until the next process accepts. The unit needs FileDescriptorStoreMax=, and without systemd
// nothing is kept.
package kept

import (
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// prefix begins the names of the listeners, which systemd passes in LISTEN_FDNAMES.
const prefix = "listen-"

// Name is the name of the listeners at an address. An address has colons, which names have not.
func Name(address string) string { return prefix + hex.EncodeToString([]byte(address)) }

// Address is the address of a name of Name.
func Address(name string) (address string, is bool) {
	text, is := strings.CutPrefix(name, prefix)
	data, err := hex.DecodeString(text)
	return string(data), is && err == nil
}

// Store is the unit's store of file descriptors. A nil Store keeps nothing. Its methods may be called concurrently.
type Store struct {
	log    *slog.Logger
	socket string // of systemd; empty for none

	mu     sync.Mutex
	before map[string][]net.Listener // by address: what the process before has left
}

// New returns the store of this process's unit. It takes the listeners with names of Name out of those that
// systemd has passed.
func New(log *slog.Logger, passed map[string][]net.Listener) *Store {
	s := &Store{log: log, socket: os.Getenv("NOTIFY_SOCKET"), before: make(map[string][]net.Listener)}
	for name, all := range passed {
		if address, is := Address(name); is {
			s.before[address] = all
			delete(passed, name)
		}
	}
	return s
}

// Take returns the listeners at an address that the process before has left, once. They stay kept.
func (s *Store) Take(address string) []net.Listener {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.before[address]
	delete(s.before, address)
	return all
}

// Keep has systemd keep a listener at an address, until Forget or the end of the unit. It may be kept already.
func (s *Store) Keep(address string, l net.Listener) {
	t, ok := l.(*net.TCPListener)
	if s == nil || s.socket == "" || !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	raw, err := t.SyscallConn()
	if err == nil {
		var failed error
		err = raw.Control(func(fd uintptr) {
			failed = s.send("FDSTORE=1\nFDNAME="+Name(address), syscall.UnixRights(int(fd)))
		})
		err = errors.Join(err, failed)
	}
	if err != nil {
		s.log.Warn("systemd does not keep a listener: connections are refused while this process is restarted", "address", address, "error", err)
	}
}

// Keeps reports whether listeners outlive this process.
func (s *Store) Keeps() bool { return s != nil && s.socket != "" }

// Forget has systemd close what it keeps for an address, which this process closes or has given away.
func (s *Store) Forget(address string) {
	if s == nil {
		return
	}
	for _, l := range s.Take(address) {
		_ = l.Close()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.send("FDSTOREREMOVE=1\nFDNAME="+Name(address), nil); err != nil {
		s.log.Warn("systemd still keeps a listener that is closed", "address", address, "error", err)
	}
}

// Only forgets what the process before has left at other addresses than these.
func (s *Store) Only(addresses []string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	var others []string
	for address := range s.before {
		if !slices.Contains(addresses, address) {
			others = append(others, address)
		}
	}
	s.mu.Unlock()
	for _, address := range others {
		s.Forget(address)
	}
}

// send tells systemd something. The caller holds mu.
func (s *Store) send(state string, rights []byte) error {
	if s.socket == "" {
		return nil
	}
	// Not with a connection of package net: those that are connected write no rights (net.ErrWriteToConnected).
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Sendmsg(fd, []byte(state), rights, &unix.SockaddrUnix{Name: s.socket}, unix.MSG_NOSIGNAL)
		err = errors.Join(err, unix.Close(fd))
	}
	if err != nil {
		return fmt.Errorf("tell systemd: %w", err)
	}
	return nil
}
