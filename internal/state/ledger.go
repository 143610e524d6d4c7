package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Ledger is one small record that all processes of the user share. It is kept as
// records are: whole and checksummed at any moment, and durable when Update
// returns nil. Its lock is held for the length of one change.
type Ledger struct {
	store *Store
	dir   string
}

// ledgerKey is the key of the one record.
var ledgerKey = strings.Repeat("0", 32)

// OpenLedger makes dir/ledger (mode 0700) where it is missing.
func OpenLedger(dir string, fsys FS) (*Ledger, error) {
	l := &Ledger{dir: filepath.Join(dir, "ledger")}
	// The lock and the watch are the kernel's, whatever the records are written to.
	if err := (OS{}).MkdirAll(l.dir); err != nil {
		return nil, fmt.Errorf("open ledger in %s: %w", dir, classify(err))
	}
	var err error
	l.store, err = OpenIn(l.dir, fsys)
	return l, err
}

// Read returns what the ledger holds, nil for nothing yet. It takes no lock, so a
// change may be under way.
func (l *Ledger) Read() ([]byte, error) {
	data, err := l.store.read(ledgerKey)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// Update replaces what the ledger holds by what change makes of it. Old is nil when
// there is nothing, which is also so after damage: the damaged file is moved aside.
// When change fails or returns what it was given, nothing is written. It waits for
// other processes as long as ctx lasts; change must be quick and may be called
// once.
func (l *Ledger) Update(ctx context.Context, change func(old []byte) ([]byte, error)) error {
	f, err := os.OpenFile(filepath.Join(l.dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = waitFlock(ctx, f, unix.LOCK_EX)
	}
	if err != nil {
		return fmt.Errorf("lock ledger: %w", classify(err))
	}
	defer letGo(f)
	old, err := l.current()
	if err != nil {
		return fmt.Errorf("read ledger: %w", err)
	}
	updated, err := change(old)
	if err != nil || bytes.Equal(old, updated) {
		return err
	}
	return l.store.Put(ledgerKey, updated)
}

// current returns the ledger that a change may build upon: after a write in doubt it is made durable first.
func (l *Ledger) current() ([]byte, error) {
	data, err := l.store.Get(ledgerKey)
	if errors.Is(err, ErrCorrupt) {
		if err = l.store.SetAside(ledgerKey); errors.Is(err, ErrCorrupt) {
			return nil, nil
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// Follow calls fn at once and then after each change, several of which may come
// as one, until ctx ends; it returns why. It sleeps on inotify between, or where that is
// used up calls fn once a second.
func (l *Ledger) Follow(ctx context.Context, fn func()) error {
	w := newWatch(l.store.inotify, l.dir)
	defer w.close()
	for {
		fn()
		if err := w.await(ctx, ledgerKey+".json"); err != nil {
			return fmt.Errorf("follow ledger: %w", err)
		}
	}
}
