package state

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// TraceAge is the least time for which a trace is kept.
const TraceAge = 7 * 24 * time.Hour

// Traces remembers keys whose records were deleted, for TraceAge. Each day has a file, to which a line is
// appended for a key. Its methods may be called by several processes at the same time.
type Traces struct {
	dir string
}

// OpenTraces returns the traces in dir, which the first one makes.
func OpenTraces(dir string) *Traces { return &Traces{dir} }

// Leave leaves a trace of key. When it returns nil, the trace survives a power loss.
func (t *Traces) Leave(key string, now time.Time) error {
	if !validKey(key) {
		return fmt.Errorf("leave a trace of %q: %w", key, ErrBadKey)
	}
	if err := t.leave(key, now.UTC()); err != nil {
		return fmt.Errorf("leave a trace of %s: %w", key, classify(err))
	}
	return nil
}

func (t *Traces) leave(key string, now time.Time) error {
	if err := (OS{}).MkdirAll(t.dir); err != nil {
		return err
	}
	name := filepath.Join(t.dir, now.Format(time.DateOnly))
	_, missing := os.Stat(name)
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	// What a power loss left of an earlier line harms none: a key is found anywhere in the file.
	_, err = f.WriteString(key + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if missing == nil {
		return nil
	}
	t.expire(now)
	return OS{}.SyncDir(t.dir)
}

// expire removes the files of days that are over for longer than TraceAge. A file that cannot be removed stays
// until the next day.
func (t *Traces) expire(now time.Time) {
	names, err := OS{}.ReadDir(t.dir)
	if err != nil {
		return
	}
	for _, name := range names {
		if day, err := time.Parse(time.DateOnly, name); err == nil && now.Sub(day) > TraceAge+24*time.Hour {
			_ = os.Remove(filepath.Join(t.dir, name))
		}
	}
}

// Has reports whether key has a trace.
func (t *Traces) Has(key string) (bool, error) {
	names, err := OS{}.ReadDir(t.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	for _, name := range names {
		var text []byte
		text, err = OS{}.ReadFile(filepath.Join(t.dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			err = nil // it has expired meanwhile
		}
		if err != nil {
			break
		}
		if bytes.Contains(text, []byte(key)) {
			return true, nil
		}
	}
	if err != nil {
		return false, fmt.Errorf("look for a trace of %s: %w", key, err)
	}
	return false, nil
}
