package schedule

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// Store has the records of all schedules. Its methods may be called concurrently.
type Store struct {
	records *state.Store
	locks   *state.Locks
}

// Open opens the records below a state directory.
func Open(dir string, fsys state.FS) (*Store, error) {
	dir = filepath.Join(dir, "schedules")
	records, err := state.OpenIn(dir, fsys)
	if err != nil {
		return nil, err
	}
	locks, err := state.OpenLocks(dir, state.Holder{Command: "podtask schedule"})
	return &Store{records: records, locks: locks}, err
}

// NotFoundError says that there is no schedule of a name.
type NotFoundError struct{ Name string }

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("no schedule %q: `podtask schedule ls` lists them", e.Name)
}

// key is the key of a schedule's record and lock.
func key(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:16])
}

// Lock waits for the lock of a schedule. Its holder alone changes the record.
func (t *Store) Lock(ctx context.Context, name string) (*state.Lock, error) {
	return t.locks.LockWait(ctx, key(name))
}

// Get returns a schedule; without one the error is a *NotFoundError.
func (t *Store) Get(name string) (State, error) {
	data, err := t.records.Get(key(name))
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, &NotFoundError{name}
	}
	if err != nil {
		return State{}, err
	}
	return decode(data)
}

func decode(data []byte) (s State, err error) {
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("record is not a schedule: %w", err)
	}
	return s, Check(s)
}

// Put saves a schedule. The caller holds its lock.
func (t *Store) Put(s State) error {
	if err := Check(s); err != nil {
		return err
	}
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return t.records.Put(key(s.Name), data)
}

// Delete removes a schedule. The caller holds its lock.
func (t *Store) Delete(name string) error { return t.records.Delete(key(name)) }

// All returns all schedules by name, and an error for those whose records cannot be read.
func (t *Store) All() (all []State, err error) {
	var errs []error
	for r, err := range t.records.All(nil) {
		var s State
		if err == nil {
			s, err = decode(r.Data)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("schedule record %s: %w", r.Key, err))
			continue
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b State) int { return strings.Compare(a.Name, b.Name) })
	return all, errors.Join(errs...)
}

// Collect notes how the tasks of all schedules ended, before those tasks are removed. A schedule whose lock is
// taken is left to its holder, who does the same.
func (t *Store) Collect(find func(id string) (lifecycle.State, bool)) error {
	all, err := t.All()
	errs := []error{err}
	for _, s := range all {
		if _, changed, _ := Fold(s, find); !changed {
			continue
		}
		errs = append(errs, t.collect(s.Name, find))
	}
	return errors.Join(errs...)
}

func (t *Store) collect(name string, find func(id string) (lifecycle.State, bool)) error {
	l, err := t.locks.Lock(key(name))
	if errors.Is(err, state.ErrLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	defer l.Unlock()
	s, err := t.Get(name)
	if err != nil {
		return err
	}
	s, changed, _ := Fold(s, find)
	if !changed {
		return nil
	}
	return t.Put(s)
}
