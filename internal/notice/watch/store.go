package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/podtask/podtask/internal/notice"
	"github.com/podtask/podtask/internal/state"
)

// Store has the state of the notices.
type Store struct {
	records *state.Store
	locks   *state.Locks
}

// Open opens the record below a state directory.
func Open(dir string, fsys state.FS) (*Store, error) {
	dir = filepath.Join(dir, "notices")
	records, err := state.OpenIn(dir, fsys)
	if err != nil {
		return nil, err
	}
	locks, err := state.OpenLocks(dir, state.Holder{Command: "podtask notify"})
	return &Store{records: records, locks: locks}, err
}

// key of the only record.
var key = strings.Repeat("0", 32)

// Get returns the state; found is false if there is none yet.
func (t *Store) Get() (s notice.State, found bool, err error) {
	data, err := t.records.Get(key)
	if errors.Is(err, fs.ErrNotExist) {
		return s, false, nil
	}
	if err == nil {
		if err = json.Unmarshal(data, &s); err == nil {
			err = notice.Check(s)
		}
	}
	if err != nil {
		return notice.State{}, false, fmt.Errorf("the record of the notices: %w", err)
	}
	return s, true, nil
}

// Put saves the state. The caller holds the lock.
func (t *Store) Put(s notice.State) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return t.records.Put(key, data)
}

// Lock takes the lock, or with wait waits for it. Its holder alone changes the record.
func (t *Store) Lock(ctx context.Context, wait bool) (*state.Lock, error) {
	if wait {
		return t.locks.LockWait(ctx, key)
	}
	return t.locks.Lock(key)
}
