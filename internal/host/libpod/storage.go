package libpod

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// If the storage becomes read-only, perhaps after an error of the disk, Podman's service
// panics where it takes a lock of the storage. It answers the request, or ends. If it goes
// on, it holds another lock for good: calls hang, also when the storage can be written again,
// until the service ends.

// storage is what is known of Podman's storage. It is safe for concurrent use.
type storage struct {
	log *slog.Logger // nil: nothing is logged
	// broken is called when the service has panicked.
	broken func()

	mu    sync.Mutex
	root  string // of the storage on this host; empty: not known yet
	why   string // a service that may hang was refused the storage for this reason; empty: none was
	calls map[*storageCall]struct{}
}

// storageCall is a call in flight.
type storageCall struct {
	late   *time.Timer
	cancel context.CancelCauseFunc
	within time.Duration
}

// hangLimit is how long a call may take after the storage was read-only. It is longer than a
// call takes unless it hangs.
const hangLimit = 10 * time.Second

// refusedLock is how Podman's panic reports that a lock of its storage cannot be opened.
var refusedLock = regexp.MustCompile(`(?i)\.lock\b.*read-only file system`)

// storageText is how Podman reports in lower case that its storage is read-only.
var storageText = regexp.MustCompile(`readonly database|(\.lock\b|/(overlay|vfs|btrfs|zfs|libpod)[a-z-]*/).*read-only file system`)

// readOnlyStorage reports whether a reply in lower case says that the storage is read-only,
// and not the file system of a container, as the OCI runtime may say.
func readOnlyStorage(text string) bool {
	return storageText.MatchString(text) && !strings.Contains(text, "oci runtime") && !strings.Contains(text, "crun: ") && !strings.Contains(text, "runc: ")
}

// within returns the context of a call that may take grace in addition to what Podman needs.
// done must be called with the call's error, and returns the one to report. A call that
// succeeds and writes proves that the service does not hang.
func (s *storage) within(ctx context.Context, grace time.Duration, writes bool) (limited context.Context, done func(error) error) {
	limited, cancel := context.WithCancelCause(ctx)
	call := &storageCall{cancel: cancel, within: grace + hangLimit}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls == nil {
		s.calls = make(map[*storageCall]struct{})
	}
	s.calls[call] = struct{}{}
	s.limit(call)
	return limited, func(err error) error {
		s.learn(err, writes)
		err = s.explain(limited, err)
		s.mu.Lock()
		delete(s.calls, call)
		if call.late != nil {
			call.late.Stop()
		}
		s.mu.Unlock()
		cancel(nil)
		return err
	}
}

// limit ends a call that hangs. The caller holds mu.
func (s *storage) limit(c *storageCall) {
	if s.why == "" || c.late != nil {
		return
	}
	hangs := &Error{Class: ReadOnly, Cause: "no answer from Podman's service since it could not write its storage (" + s.why +
		"): when the storage can be written, restart the service (systemctl --user restart podman.service, unless it was started in another way)"}
	c.late = time.AfterFunc(c.within, func() { c.cancel(hangs) })
}

// explain returns the error of a call, with the reason if that is the storage.
func (s *storage) explain(ctx context.Context, err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	said := *e
	var hangs *Error
	switch root := s.readOnlyRoot(); {
	case errors.As(context.Cause(ctx), &hangs) && hangs.Class == ReadOnly:
		said.Class, said.Cause = ReadOnly, hangs.Cause
	case root != "" && (e.Class == Temporary || e.Class == Unavailable || e.Class == Timeout):
		said.Class, said.Cause = ReadOnly, fmt.Sprintf("%s; Podman's storage %s is on a read-only file system", e.Cause, root)
	}
	return &said
}

// readOnlyRoot returns the root of the storage if it is on a read-only file system.
func (s *storage) readOnlyRoot() string {
	s.mu.Lock()
	root := s.root
	s.mu.Unlock()
	var fs unix.Statfs_t
	if root == "" || unix.Statfs(root, &fs) != nil || fs.Flags&unix.ST_RDONLY == 0 {
		return ""
	}
	return root
}

// learn takes in how a call ended.
func (s *storage) learn(err error, writes bool) {
	var e *Error
	errors.As(err, &e)
	switch {
	case err == nil && writes, e != nil && e.Status == 0 && (e.Class == Temporary || e.Class == Unavailable):
		s.recover() // a service that hangs does neither, nor does it end a connection
	case e != nil && e.Status != 0 && refusedLock.MatchString(e.Cause):
		s.refuse(e.Cause)
	}
}

// refuse notes that the service has panicked.
func (s *storage) refuse(why string) {
	s.mu.Lock()
	if s.why != "" {
		s.mu.Unlock()
		return
	}
	s.why = why
	for c := range s.calls {
		s.limit(c)
	}
	s.mu.Unlock()
	if s.log != nil {
		s.log.Error("Podman's storage is read-only, and its service may hang from now on", "error", why)
	}
	s.broken()
}

// recover notes that the service, or the next one, does not hang.
func (s *storage) recover() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why == "" {
		return
	}
	s.why = ""
	for c := range s.calls {
		if c.late != nil && c.late.Stop() {
			c.late = nil
		}
	}
	if s.log != nil {
		s.log.Info("Podman's service does not hang after all, or has ended")
	}
}

// at notes where the storage is on this host.
func (s *storage) at(root string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.root = root
}
