package libpod

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podtask/podtask/internal/lazy"
)

// If the storage becomes read-only, for example after a disk error, Podman's service panics when
// it takes a lock of the storage. It may answer the request or end. If it continues, it never
// releases another lock, so calls hang until the service ends, even when the storage can be
// written again.

// storage tracks whether Podman's storage is read-only, and ends calls that hang because of that.
// It is safe for concurrent use.
type storage struct {
	log *slog.Logger // may be nil
	// broken is called when the service has panicked.
	broken func()

	mu    sync.Mutex
	root  string // directory of the storage on this host; empty if not known yet
	why   string // error of the panic after which the service may hang; empty if there was none
	calls map[*storageCall]struct{}
}

// storageCall is a call in flight.
type storageCall struct {
	late   *time.Timer
	cancel context.CancelCauseFunc
	within time.Duration
}

// hangLimit bounds a call after a panic of the service. Only a call that hangs takes longer.
const hangLimit = 10 * time.Second

// refusedLock matches the panic of Podman when it cannot open a lock of its storage.
var refusedLock = lazy.MustCompile(`(?i)\.lock\b.*read-only file system`)

// storageText matches Podman's errors, in lower case, about a read-only storage.
var storageText = lazy.MustCompile(`readonly database|(\.lock\b|/(overlay|vfs|btrfs|zfs|libpod)[a-z-]*/).*read-only file system`)

// readOnlyStorage reports whether a reply in lower case is about a read-only storage. Errors of
// the OCI runtime are about the file system of a container instead.
func readOnlyStorage(text string) bool {
	return storageText.MatchString(text) && !strings.Contains(text, "oci runtime") && !strings.Contains(text, "crun: ") && !strings.Contains(text, "runc: ")
}

// within returns the context of a call that may take grace in addition to hangLimit. done must
// be called with the error of the call and returns the error to report. writes says that the
// call writes to the storage, so that its success proves that the service does not hang.
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

// limit limits the time of a call if the service may hang. The caller holds mu.
func (s *storage) limit(c *storageCall) {
	if s.why == "" || c.late != nil {
		return
	}
	hangs := &Error{Class: ReadOnly, Cause: "no answer from Podman's service since it could not write its storage (" + s.why +
		"): when the storage can be written, restart the service (systemctl --user kill -s KILL podman.service, unless it was started in another way)"}
	c.late = time.AfterFunc(c.within, func() { c.cancel(hangs) })
}

// explain returns the error of a call, with class ReadOnly if the storage is the reason.
func (s *storage) explain(ctx context.Context, err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	reported := *e
	var hangs *Error
	switch root := s.readOnlyRoot(); {
	case errors.As(context.Cause(ctx), &hangs) && hangs.Class == ReadOnly:
		reported.Class, reported.Cause = ReadOnly, hangs.Cause
	case root != "" && (e.Class == Temporary || e.Class == Unavailable || e.Class == Timeout):
		reported.Class, reported.Cause = ReadOnly, fmt.Sprintf("%s; Podman's storage %s is on a read-only file system", e.Cause, root)
	}
	return &reported
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

// learn updates the state from the error of a call.
func (s *storage) learn(err error, writes bool) {
	var e *Error
	errors.As(err, &e)
	switch {
	case err == nil && writes, e != nil && e.Status == 0 && (e.Class == Temporary || e.Class == Unavailable):
		s.recover() // a hanging service neither answers nor ends a connection
	case e != nil && e.Status != 0 && refusedLock.MatchString(e.Cause):
		s.refuse(e.Cause)
	}
}

// refuse records a panic of the service.
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

// recover records that the service, or the next one, does not hang.
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
		s.log.Info("Podman's service works again")
	}
}

// at sets the directory of the storage on this host.
func (s *storage) at(root string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.root = root
}
