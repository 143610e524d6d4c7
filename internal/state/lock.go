package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrLocked is the error if another process holds the lock. It is wrapped in a *LockedError.
var ErrLocked = errors.New("locked")

// Holder identifies the holder of a lock. It is for messages only: the lock itself is the kernel's, and the text may be
// that of the holder before for an instant.
type Holder struct {
	PID     int       `json:"pid"` // 0: not known
	Since   time.Time `json:"since"`
	Command string    `json:"command"` // program name and verb, never arguments with secrets
}

// Process names the process: one that has just taken the lock may not have written who it is.
func (h Holder) Process() string {
	if h.PID == 0 {
		return "another process"
	}
	return fmt.Sprintf("process %d", h.PID)
}

// LockedError names who holds a lock. It satisfies errors.Is(err, ErrLocked).
type LockedError struct {
	Key    string
	Holder Holder
}

// Error names the holder.
func (e *LockedError) Error() string {
	if e.Holder.PID == 0 {
		return fmt.Sprintf("%s is in use by another process", e.Key)
	}
	return fmt.Sprintf("%s is in use by process %d (%s) since %s",
		e.Key, e.Holder.PID, e.Holder.Command, e.Holder.Since.Local().Format(time.DateTime))
}

// Unwrap returns ErrLocked.
func (e *LockedError) Unwrap() error { return ErrLocked }

// Locks hands out one lock per key. The locks are flock(2) locks on files of
// their own: the kernel drops them when the holder dies, however it dies, and
// they exclude goroutines of one process as well as processes. Child processes
// do not inherit them.
type Locks struct {
	dir    string
	holder Holder
}

// OpenLocks makes dir/locks (mode 0700) where it is missing. Holder is written
// into the locks taken; its PID may be 0 for this process's own.
func OpenLocks(dir string, holder Holder) (*Locks, error) {
	locks := filepath.Join(dir, "locks")
	if err := (OS{}).MkdirAll(locks); err != nil {
		return nil, fmt.Errorf("open lock directory %s: %w", locks, classify(err))
	}
	if holder.PID == 0 {
		holder.PID = os.Getpid()
	}
	return &Locks{dir: locks, holder: holder}, nil
}

// Lock takes the lock of key or fails at once with a *LockedError.
func (l *Locks) Lock(key string) (*Lock, error) {
	lock, err := l.take(key, func(f *os.File) error {
		ok, err := tryExclusive(f)
		if err == nil && !ok {
			err = &LockedError{Key: key, Holder: readHolder(f)}
		}
		if err != nil {
			f.Close()
		}
		return err
	})
	return lock, wrapLock(key, err)
}

// LockWait takes the lock of key and waits for it as long as ctx lasts. There is
// no order among several that wait. A wait given up costs a sleeping thread
// until the lock becomes free.
func (l *Locks) LockWait(ctx context.Context, key string) (*Lock, error) {
	lock, err := l.take(key, func(f *os.File) error {
		return waitFlock(ctx, f, unix.LOCK_EX)
	})
	return lock, wrapLock(key, err)
}

// Holder returns the holder of the lock of key. Held is false if the lock is free.
func (l *Locks) Holder(key string) (h Holder, held bool, err error) {
	if !validKey(key) {
		return Holder{}, false, wrapLock(key, ErrBadKey)
	}
	f, err := os.Open(l.path(key))
	if errors.Is(err, fs.ErrNotExist) {
		return Holder{}, false, nil
	}
	if err != nil {
		return Holder{}, false, wrapLock(key, err)
	}
	defer letGo(f)
	// A shared lock suffices to ask, so that two who ask do not see each
	// other; tryExclusive knows about those who ask.
	free, err := tryFlock(f, unix.LOCK_SH)
	if err != nil || free {
		return Holder{}, false, wrapLock(key, err)
	}
	return readHolder(f), true, nil
}

// take opens the lock file, locks it with the function given, and makes sure
// that the file locked is still the one of that name: its holder may have
// removed it between the two.
func (l *Locks) take(key string, lock func(*os.File) error) (*Lock, error) {
	if !validKey(key) {
		return nil, ErrBadKey
	}
	for {
		f, err := os.OpenFile(l.path(key), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, classify(err)
		}
		if err := lock(f); err != nil {
			return nil, err
		}
		same, err := stillNamed(f, l.path(key))
		if err != nil {
			letGo(f)
			return nil, err
		}
		if !same {
			letGo(f)
			continue
		}
		l.sign(f)
		return &Lock{f: f}, nil
	}
}

// sign writes who holds the lock. A failure, for example on a full disk, only means that
// messages do not name the holder.
func (l *Locks) sign(f *os.File) {
	h := l.holder
	h.Since = time.Now().UTC().Truncate(time.Second)
	text, err := json.Marshal(h)
	if err != nil {
		return
	}
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt(append(text, '\n'), 0)
	}
}

func stillNamed(f *os.File, path string) (bool, error) {
	held, err := f.Stat()
	if err != nil {
		return false, err
	}
	named, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return os.SameFile(held, named), nil
}

// readHolder returns the zero Holder when the content does not tell.
func readHolder(f *os.File) Holder {
	buf := make([]byte, 4096)
	n, _ := f.ReadAt(buf, 0)
	var h Holder
	if json.Unmarshal([]byte(strings.TrimSpace(string(buf[:n]))), &h) != nil {
		return Holder{}
	}
	return h
}

func wrapLock(key string, err error) error {
	var locked *LockedError
	if err == nil || errors.As(err, &locked) {
		return err
	}
	return fmt.Errorf("lock %q: %w", key, err)
}

func (l *Locks) path(key string) string { return filepath.Join(l.dir, key) }

// Lock is a lock that is held. Its methods are for one goroutine.
type Lock struct{ f *os.File }

// Unlock releases the lock. The file stays for later use. A second Unlock does nothing.
func (k *Lock) Unlock() error {
	if k.f == nil {
		return nil
	}
	err := letGo(k.f)
	k.f = nil
	return err
}

// Remove removes the lock's file and releases the lock, for a key that was deleted. A
// process that waits for the lock notices that and retries with a new file.
func (k *Lock) Remove() error {
	if k.f == nil {
		return nil
	}
	err := os.Remove(k.f.Name())
	return errors.Join(err, k.Unlock())
}
