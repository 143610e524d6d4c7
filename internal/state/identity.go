package state

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// Identity tells the versions of a record apart without reading it: each write makes another file.
type Identity struct {
	Inode uint64
	Size  int64
	// Changed is the time of the last write of the file, by the clock of the file system.
	Changed time.Time
}

// coarse is more than the clock of a file system jumps by.
const coarse = time.Second

// Unique reports whether no later version of the record can have this identity: that is so
// if the file system's clock has moved on since. Now is the time at which the identity was read.
func (id Identity) Unique(now time.Time) bool { return now.Sub(id.Changed) > coarse }

// identifier is an FS that has identities; others are read each time.
type identifier interface {
	Identify(name string) (Identity, error)
}

// Identify returns the identity of a file.
func (OS) Identify(name string) (Identity, error) {
	info, err := os.Lstat(name)
	if err != nil {
		return Identity{}, err
	}
	id := Identity{Size: info.Size(), Changed: info.ModTime()}
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		id.Inode = s.Ino
	}
	return id, nil
}

// Identity returns the identity of the record of key. The error satisfies errors.ErrUnsupported if the
// file system has none, and fs.ErrNotExist if there is no record.
func (s *Store) Identity(key string) (Identity, error) {
	if !validKey(key) {
		return Identity{}, fmt.Errorf("read record %q: %w", key, ErrBadKey)
	}
	f, ok := s.fs.(identifier)
	if !ok {
		return Identity{}, errors.ErrUnsupported
	}
	return f.Identify(s.path(key))
}

// DirectoryIdentity returns the identity of the directory of all records, which is another one after each write, removal and
// move of a record. The error satisfies errors.ErrUnsupported if the file system has none.
func (s *Store) DirectoryIdentity() (Identity, error) {
	f, ok := s.fs.(identifier)
	if !ok {
		return Identity{}, errors.ErrUnsupported
	}
	return f.Identify(s.dir)
}

// Keys returns the keys of all records, in order.
func (s *Store) Keys() ([]string, error) {
	names, err := s.fs.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("list records in %s: %w", s.dir, err)
	}
	keys := make([]string, 0, len(names))
	for _, name := range names {
		if key, ok := recordKey(name); ok {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// Load reads the record of key as All does: a corrupt record may be moved aside.
func (s *Store) Load(key string, locks *Locks) ([]byte, error) {
	data, err := s.read(key)
	if errors.Is(err, ErrCorrupt) && locks != nil {
		err = s.setAsideLocked(key, locks, err)
	}
	return data, err
}
