package state

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
)

// Kind describes a type of records that have names: schedules, stacks, the scaling of services.
type Kind[T any] struct {
	Dir     string // of the records, below the state directory
	Noun    string // in errors: "schedule"
	Command string // that messages name as the holder of a lock: "podtask schedule"
	Name    func(T) string
	// Check refuses a record that cannot be used, when it is saved and when it is read.
	Check func(T) error
	// Missing returns the error for a name without a record.
	Missing func(name string) error
}

// Named has the records of a kind, as JSON, with a lock for each name. Its methods may be called concurrently.
type Named[T any] struct {
	kind    Kind[T]
	dir     string
	records *Store
	locks   *Locks
}

// OpenNamed opens the records of a kind below a state directory.
func OpenNamed[T any](dir string, fsys FS, k Kind[T]) (*Named[T], error) {
	dir = filepath.Join(dir, k.Dir)
	records, err := OpenIn(dir, fsys)
	if err != nil {
		return nil, err
	}
	locks, err := OpenLocks(dir, Holder{Command: k.Command})
	return &Named[T]{kind: k, dir: dir, records: records, locks: locks}, err
}

// Dir returns the directory of the records.
func (n *Named[T]) Dir() string { return n.dir }

// keyOf returns the key of the record and the lock of a name.
func keyOf(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:16])
}

// LockWait waits for the lock of a name. Its holder alone changes the record.
func (n *Named[T]) LockWait(ctx context.Context, name string) (*Lock, error) {
	return n.locks.LockWait(ctx, keyOf(name))
}

// Lock takes the lock of a name; if another process has it, the error is ErrLocked.
func (n *Named[T]) Lock(name string) (*Lock, error) { return n.locks.Lock(keyOf(name)) }

// Locked reports whether a process has the lock of a name.
func (n *Named[T]) Locked(name string) bool {
	_, held, err := n.locks.Holder(keyOf(name))
	return err == nil && held
}

// Get returns the record of a name; without one the error is that of the kind.
func (n *Named[T]) Get(name string) (T, error) {
	r, found, err := n.Find(name)
	if err == nil && !found {
		err = n.kind.Missing(name)
	}
	return r, err
}

// Find returns the record of a name, if there is one.
func (n *Named[T]) Find(name string) (r T, found bool, err error) {
	data, err := n.records.Get(keyOf(name))
	if errors.Is(err, fs.ErrNotExist) {
		return r, false, nil
	}
	if err == nil {
		r, err = n.parse(data)
	}
	return r, err == nil, err
}

func (n *Named[T]) parse(data []byte) (r T, err error) {
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("record is not a %s: %w", n.kind.Noun, err)
	}
	return r, n.kind.Check(r)
}

// Put saves a record. The caller holds its lock.
func (n *Named[T]) Put(r T) error {
	if err := n.kind.Check(r); err != nil {
		return err
	}
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return n.records.Put(keyOf(n.kind.Name(r)), data)
}

// Change changes the record of a name under its lock: change gets the record, or the zero value and found false. If it
// returns an error, the record stays as it is.
func (n *Named[T]) Change(ctx context.Context, name string, change func(r T, found bool) (T, error)) (r T, err error) {
	l, err := n.LockWait(ctx, name)
	if err != nil {
		return r, err
	}
	defer l.Unlock()
	r, found, err := n.Find(name)
	if err != nil {
		return r, err
	}
	if r, err = change(r, found); err != nil {
		return r, err
	}
	return r, n.Put(r)
}

// Delete removes the record of a name; without one the error is that of the kind. The caller holds its lock.
func (n *Named[T]) Delete(name string) error {
	key := keyOf(name)
	if _, err := n.records.Get(key); errors.Is(err, fs.ErrNotExist) {
		return n.kind.Missing(name)
	}
	return n.records.Delete(key)
}

// All returns all records by name, and an error for those that cannot be read.
func (n *Named[T]) All() (all []T, err error) {
	var errs []error
	for r, err := range n.records.All(nil) {
		var t T
		if err == nil {
			t, err = n.parse(r.Data)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s record %s: %w", n.kind.Noun, r.Key, err))
			continue
		}
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b T) int { return strings.Compare(n.kind.Name(a), n.kind.Name(b)) })
	return all, errors.Join(errs...)
}

// Follow calls fn now and after each change of the records until ctx ends, with whether there are any.
func (n *Named[T]) Follow(ctx context.Context, fn func(some bool)) error {
	keys := map[string]bool{}
	listing := true
	return n.records.FollowRecords(ctx, func(key string) {
		if _, err := n.records.Get(key); errors.Is(err, fs.ErrNotExist) {
			delete(keys, key)
		} else {
			keys[key] = true
		}
		if !listing {
			fn(len(keys) > 0)
		}
	}, func() { listing = false; fn(len(keys) > 0) })
}
