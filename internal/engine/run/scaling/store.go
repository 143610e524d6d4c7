package scaling

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
	"time"

	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/scaling"
)

// Store has the records of all services that scale. Its methods may be called concurrently.
type Store struct {
	records *state.Store
	locks   *state.Locks
}

// Open opens the records below a state directory.
func Open(dir string, fsys state.FS) (*Store, error) {
	dir = filepath.Join(dir, "scaling")
	records, err := state.OpenIn(dir, fsys)
	if err != nil {
		return nil, err
	}
	locks, err := state.OpenLocks(dir, state.Holder{Command: "podtask service scaling"})
	return &Store{records: records, locks: locks}, err
}

// NotFoundError reports that a service does not scale.
type NotFoundError struct{ Service string }

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("the service %q does not scale by itself: `podtask service scaling set %s --max NUMBER --cpu PERCENT` makes it", e.Service, e.Service)
}

func key(service string) string {
	sum := sha256.Sum256([]byte(service))
	return hex.EncodeToString(sum[:16])
}

// Get returns the record of a service; without one the error is a *NotFoundError.
func (t *Store) Get(service string) (scaling.State, error) {
	data, err := t.records.Get(key(service))
	if errors.Is(err, fs.ErrNotExist) {
		return scaling.State{}, &NotFoundError{service}
	}
	if err != nil {
		return scaling.State{}, err
	}
	return decode(data)
}

func decode(data []byte) (s scaling.State, err error) {
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("record is not that of a service that scales: %w", err)
	}
	return s, s.Config.Check()
}

// Configure changes the configuration of a service; found is false, and the configuration zero, if the service did not
// scale. The change is made whole or not at all.
func (t *Store) Configure(ctx context.Context, service string, now time.Time, change func(c scaling.Config, found bool) (scaling.Config, error)) (scaling.State, error) {
	return t.change(ctx, service, func(s scaling.State, found bool) (scaling.State, error) {
		if !found {
			s = scaling.State{Service: service, Created: now}
		}
		c, err := change(s.Config, found)
		if err == nil {
			err = c.Check()
		}
		s.Config, s.Decided = c, now
		return s, err
	})
}

// Replace replaces the record of a service that scales.
func (t *Store) Replace(ctx context.Context, s scaling.State) error {
	return t.update(ctx, s.Service, func(scaling.State) scaling.State { return s })
}

// update changes the record of a service, if it has one.
func (t *Store) update(ctx context.Context, service string, change func(scaling.State) scaling.State) error {
	_, err := t.change(ctx, service, func(s scaling.State, found bool) (scaling.State, error) {
		if !found {
			return s, &NotFoundError{service}
		}
		return change(s), nil
	})
	if missing := (*NotFoundError)(nil); errors.As(err, &missing) {
		return nil
	}
	return err
}

func (t *Store) change(ctx context.Context, service string, change func(s scaling.State, found bool) (scaling.State, error)) (s scaling.State, err error) {
	l, err := t.locks.LockWait(ctx, key(service))
	if err != nil {
		return s, err
	}
	defer l.Unlock()
	s, err = t.Get(service)
	missing := (*NotFoundError)(nil)
	if err != nil && !errors.As(err, &missing) {
		return s, err
	}
	if s, err = change(s, missing == nil); err != nil {
		return s, err
	}
	data, err := json.Marshal(s)
	if err != nil {
		return s, err
	}
	return s, t.records.Put(key(service), data)
}

// Delete ends the scaling of a service; without a record the error is a *NotFoundError.
func (t *Store) Delete(ctx context.Context, service string) error {
	l, err := t.locks.LockWait(ctx, key(service))
	if err != nil {
		return err
	}
	defer l.Unlock()
	if _, err := t.records.Get(key(service)); errors.Is(err, fs.ErrNotExist) {
		return &NotFoundError{service}
	}
	return t.records.Delete(key(service))
}

// All returns all records by the name of the service, and an error for those that cannot be read.
func (t *Store) All() (all []scaling.State, err error) {
	var errs []error
	for r, err := range t.records.All(nil) {
		var s scaling.State
		if err == nil {
			s, err = decode(r.Data)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("scaling record %s: %w", r.Key, err))
			continue
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b scaling.State) int { return strings.Compare(a.Service, b.Service) })
	return all, errors.Join(errs...)
}

// Follow calls fn now and after each change of the records until ctx ends, with whether there are any.
func (t *Store) Follow(ctx context.Context, fn func(some bool)) error {
	keys := map[string]bool{}
	listing := true
	return t.records.FollowRecords(ctx, func(k string) {
		if _, err := t.records.Get(k); errors.Is(err, fs.ErrNotExist) {
			delete(keys, k)
		} else {
			keys[k] = true
		}
		if !listing {
			fn(len(keys) > 0)
		}
	}, func() { listing = false; fn(len(keys) > 0) })
}
