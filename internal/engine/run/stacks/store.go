package stacks

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/engine/decide/stack"
	"github.com/podtask/podtask/internal/state"
)

// Store has the records of all stacks. Its methods may be called concurrently.
type Store struct {
	dir     string
	records *state.Store
	locks   *state.Locks
}

// Open opens the records below a state directory.
func Open(dir string, fsys state.FS) (*Store, error) {
	dir = filepath.Join(dir, "stacks")
	records, err := state.OpenIn(dir, fsys)
	if err != nil {
		return nil, err
	}
	locks, err := state.OpenLocks(dir, state.Holder{Command: "podtask stack"})
	return &Store{dir: dir, records: records, locks: locks}, err
}

// NotFoundError reports that there is no stack of a name.
type NotFoundError struct{ Name string }

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("no stack %q: `podtask stack ls` lists them", e.Name)
}

func key(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:16])
}

// Lock takes the lock of a stack. Its holder alone changes the record.
func (t *Store) Lock(name string) (*state.Lock, error) {
	l, err := t.locks.Lock(key(name))
	if errors.Is(err, state.ErrLocked) {
		return nil, fmt.Errorf("another process changes the stack %s just now: %w", name, err)
	}
	return l, err
}

// Get returns a stack; without one the error is a *NotFoundError.
func (t *Store) Get(name string) (stack.State, error) {
	data, err := t.records.Get(key(name))
	if errors.Is(err, fs.ErrNotExist) {
		return stack.State{}, &NotFoundError{name}
	}
	if err != nil {
		return stack.State{}, err
	}
	return decode(data)
}

func decode(data []byte) (s stack.State, err error) {
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("record is not a stack: %w", err)
	}
	return s, stack.Check(s)
}

// Put saves a stack; one that is empty has no record. The caller holds its lock.
func (t *Store) Put(s stack.State) error {
	if s.Empty() {
		err := t.records.Delete(key(s.Name))
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return errors.Join(err, os.RemoveAll(t.Files(s.Name)))
	}
	if err := stack.Check(s); err != nil {
		return err
	}
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return t.records.Put(key(s.Name), data)
}

// Files is the directory of the files that the definitions of a stack name and that podtask wrote.
func (t *Store) Files(name string) string { return filepath.Join(t.dir, "files", name) }

// All returns all stacks by name, and an error for those whose records cannot be read.
func (t *Store) All() (all []stack.State, err error) {
	var errs []error
	for r, err := range t.records.All(nil) {
		var s stack.State
		if err == nil {
			s, err = decode(r.Data)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("stack record %s: %w", r.Key, err))
			continue
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b stack.State) int { return strings.Compare(a.Name, b.Name) })
	return all, errors.Join(errs...)
}

// Locked reports whether a process changes a stack just now.
func (t *Store) Locked(name string) bool {
	_, held, err := t.locks.Holder(key(name))
	return err == nil && held
}
