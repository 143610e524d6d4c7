package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/fsnotify/fsnotify"
	"github.com/podtask/podtask/pkg/transient"
)

// Errors of the store. Use errors.Is.
var (
	// ErrNoSpace: the disk or the quota is full, or the file system is read-only. The record
	// before is intact.
	ErrNoSpace = transient.Mark(errors.New("no disk space left for state: free some and try again"))
	// ErrInDoubt: an earlier write of this key may or may not survive a power
	// loss, because the directory could not be synced. Get settles it.
	ErrInDoubt = transient.Mark(errors.New("an earlier write is in doubt: read the record again before writing"))
	// ErrBadKey: the key is not 32 lower-case hexadecimal digits.
	ErrBadKey = errors.New("key is not 32 lower-case hexadecimal digits")
)

// Record is one stored record.
type Record struct {
	Key  string
	Data []byte
}

// Store holds one record per key. See the package documentation for what the
// caller owes.
type Store struct {
	fs      FS
	dir     string
	inotify func() (*fsnotify.Watcher, error) // fsnotify's, but in tests

	mu sync.Mutex
	// doubt holds the keys whose last rename or removal may be undone by a
	// power loss.
	doubt map[string]bool
}

// Open makes the directories under dir where they are missing (mode 0700) and
// returns the store of tasks. It reads no record.
func Open(dir string, fsys FS) (*Store, error) { return OpenIn(filepath.Join(dir, "tasks"), fsys) }

// OpenIn is Open for a store of something else, whose records are right in dir.
func OpenIn(dir string, fsys FS) (*Store, error) {
	if err := fsys.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("open state directory %s: %w", dir, classify(err))
	}
	return &Store{fs: fsys, dir: dir, inotify: fsnotify.NewWatcher, doubt: make(map[string]bool)}, nil
}

// Put stores data under key. When it returns nil, the record survives a power
// loss. After an error the record is either the one before or the new one,
// whole in both cases. If the error is ErrInDoubt (the directory could not be
// synced), every further Put and Delete of this key fails with ErrInDoubt until
// Get has succeeded: a caller must not act on what may be undone.
//
// Besides, Put fails with ErrBadKey and, on a full disk, ErrNoSpace.
func (s *Store) Put(key string, data []byte) error {
	if !validKey(key) {
		return fmt.Errorf("write record %q: %w", key, ErrBadKey)
	}
	if s.inDoubt(key) {
		return fmt.Errorf("write record %s: %w", key, ErrInDoubt)
	}
	if err := s.put(key, data); err != nil {
		return fmt.Errorf("write record %s: %w", key, err)
	}
	return nil
}

func (s *Store) put(key string, data []byte) error {
	tmp := s.tempPath(key)
	if err := writeTemp(s.fs, tmp, encode(data)); err != nil {
		return errors.Join(classify(err), discard(s.fs, tmp))
	}
	if err := s.fs.Rename(tmp, s.path(key)); err != nil {
		return errors.Join(classify(err), discard(s.fs, tmp))
	}
	return s.settle(key)
}

func writeTemp(fsys FS, name string, content []byte) error {
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	if _, err := f.Write(content); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Sync(); err != nil {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}

// discard removes a temporary file; one that is not there is no error.
func discard(fsys FS, name string) error {
	if err := fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// settle syncs the directory after a change to key, and notes a doubt if that
// fails.
func (s *Store) settle(key string) error {
	err := s.fs.SyncDir(s.dir)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.doubt[key] = true
		return fmt.Errorf("%w: sync %s: %w", ErrInDoubt, s.dir, classify(err))
	}
	delete(s.doubt, key)
	return nil
}

func (s *Store) inDoubt(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.doubt[key]
}

// Get returns the data stored under key. Where there is none the error
// satisfies errors.Is(err, fs.ErrNotExist); a bad record gives a *CorruptError
// or a *FutureError and is left where it is.
//
// If a write of key is in doubt, Get first writes what it read once more, so
// that what it returns survives a power loss, and fails if that fails. Only in
// this case the caller must hold the key's lock.
func (s *Store) Get(key string) ([]byte, error) {
	if !validKey(key) {
		return nil, fmt.Errorf("read record %q: %w", key, ErrBadKey)
	}
	data, err := s.read(key)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if s.inDoubt(key) {
		if again := s.repeat(key, data, err); again != nil {
			return nil, fmt.Errorf("settle record %s: %w", key, again)
		}
	}
	return data, err
}

// repeat makes the present state of key durable. Syncing the directory alone
// would not do for a record: after a failed sync the kernel may take the old
// change for written, so a new one is made.
func (s *Store) repeat(key string, data []byte, readErr error) error {
	if readErr != nil {
		return s.settle(key)
	}
	return s.put(key, data)
}

func (s *Store) read(key string) ([]byte, error) {
	path := s.path(key)
	file, err := s.fs.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read record %s: %w", key, err)
	}
	data, version, reason := decode(file)
	switch {
	case version > formatVersion:
		return nil, &FutureError{Key: key, Path: path, Version: version}
	case reason != "":
		return nil, &CorruptError{Key: key, Path: path, Reason: reason}
	}
	return data, nil
}

// Delete removes the record of key and a leftover of a write that never ended.
// When it returns nil, they are gone for good; none being there is success. The
// error may be ErrInDoubt as with Put.
func (s *Store) Delete(key string) error {
	if !validKey(key) {
		return fmt.Errorf("delete record %q: %w", key, ErrBadKey)
	}
	if s.inDoubt(key) {
		return fmt.Errorf("delete record %s: %w", key, ErrInDoubt)
	}
	for _, name := range []string{s.tempPath(key), s.path(key)} {
		if err := discard(s.fs, name); err != nil {
			return fmt.Errorf("delete record %s: %w", key, classify(err))
		}
	}
	if err := s.settle(key); err != nil {
		return fmt.Errorf("delete record %s: %w", key, err)
	}
	return nil
}

// All walks the records in the order of their keys. A bad record is yielded as
// a Record with only its Key and an error, *CorruptError or *FutureError, and
// does not end the walk. An error with an empty Key ends it.
//
// With locks, a corrupt record whose lock is free is moved aside (CorruptError
// then has MovedTo) and so is reported once. With nil, and for a record that
// has an owner, it is only reported. A record of a newer version is never
// moved.
func (s *Store) All(locks *Locks) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		keys, err := s.Keys()
		if err != nil {
			yield(Record{}, err)
			return
		}
		for _, key := range keys {
			data, err := s.Load(key, locks)
			if errors.Is(err, fs.ErrNotExist) {
				continue // deleted since the directory was read
			}
			if !yield(Record{Key: key, Data: data}, err) {
				return
			}
		}
	}
}

func (s *Store) setAsideLocked(key string, locks *Locks, cause error) error {
	lock, err := locks.Lock(key)
	if err != nil {
		return cause // owned, or no lock to be had: report only
	}
	err = s.SetAside(key)
	return errors.Join(err, lock.Unlock())
}

// SetAside moves the record of key to KEY.corrupt-N, N being the first free
// number, if it is corrupt. The caller holds the key's lock. It returns the
// *CorruptError with MovedTo set; nil means that there is a good record or none.
func (s *Store) SetAside(key string) error {
	if !validKey(key) {
		return fmt.Errorf("set record %q aside: %w", key, ErrBadKey)
	}
	_, err := s.read(key)
	var bad *CorruptError
	if !errors.As(err, &bad) {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	to, err := freeName(s.fs, s.dir, key)
	if err == nil {
		err = s.fs.Rename(bad.Path, to)
	}
	if err != nil {
		return errors.Join(bad, fmt.Errorf("set record %s aside: %w", key, err))
	}
	bad.MovedTo = to
	if err := s.settle(key); err != nil {
		return errors.Join(bad, err)
	}
	return bad
}

// freeName finds the first unused KEY.corrupt-N.
func freeName(fsys FS, dir, key string) (string, error) {
	names, err := fsys.ReadDir(dir)
	if err != nil {
		return "", err
	}
	used := make(map[string]bool, len(names))
	for _, n := range names {
		used[n] = true
	}
	for n := 1; ; n++ {
		name := fmt.Sprintf("%s.corrupt-%d", key, n)
		if !used[name] {
			return filepath.Join(dir, name), nil
		}
	}
}

// CorruptKeys returns the keys of which corrupt records were moved aside, each once, in
// order.
func CorruptKeys(s *Store) ([]string, error) {
	names, err := s.fs.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("list records in %s: %w", s.dir, err)
	}
	var keys []string
	for _, name := range names {
		if key, ok := setAsideKey(name); ok && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys, nil
}

// setAsideKey is the key of the record in a file, if it is one that was moved aside.
func setAsideKey(name string) (key string, ok bool) {
	key, _, ok = strings.Cut(name, ".corrupt-")
	return key, ok && validKey(key)
}

// DeleteCorrupt removes what was moved aside of a key. The caller holds the key's lock.
func DeleteCorrupt(s *Store, key string) error {
	names, err := s.fs.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("list records in %s: %w", s.dir, err)
	}
	for _, name := range names {
		if of, ok := setAsideKey(name); ok && of == key {
			if err := discard(s.fs, filepath.Join(s.dir, name)); err != nil {
				return fmt.Errorf("remove corrupt record %s: %w", name, classify(err))
			}
		}
	}
	return nil
}

// Abandoned returns the keys for which a first write was begun and never ended,
// so that there is a temporary file and no record. The caller that gets the
// lock of such a key may Delete it; without the lock it may be a write under way.
func (s *Store) Abandoned() ([]string, error) {
	names, err := s.fs.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("list records in %s: %w", s.dir, err)
	}
	recorded := make(map[string]bool)
	var begun []string
	for _, name := range names {
		if key, ok := strings.CutSuffix(name, ".json"); ok {
			recorded[key] = true
		}
		if key, ok := strings.CutSuffix(strings.TrimPrefix(name, "."), ".tmp"); ok && validKey(key) {
			begun = append(begun, key)
		}
	}
	var keys []string
	for _, key := range begun {
		if !recorded[key] {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

func (s *Store) path(key string) string     { return filepath.Join(s.dir, key+".json") }
func (s *Store) tempPath(key string) string { return filepath.Join(s.dir, "."+key+".tmp") }

// readOnlyError is the ErrNoSpace of a read-only file system.
type readOnlyError struct{ cause error }

func (e readOnlyError) Error() string {
	return "the state is on a read-only file system: dmesg and findmnt tell why (" + e.cause.Error() + ")"
}

func (e readOnlyError) Is(target error) bool { return target == ErrNoSpace }

func (e readOnlyError) Unwrap() error { return e.cause }

// classify marks the errors that mean a full disk or quota, or a read-only file system.
func classify(err error) error {
	if errors.Is(err, syscall.EROFS) {
		return readOnlyError{err}
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w (%w)", ErrNoSpace, err)
	}
	return err
}

// FollowRecords calls fn with the key of every record, then listed once, and then fn
// with a key whenever its record has been written or removed, until ctx ends; the
// context's cause is returned. A key may come more often than its record changes. It
// sleeps on inotify, or where that is used up calls fn for every key once a second. Both
// functions are called by the goroutine that called it.
func (s *Store) FollowRecords(ctx context.Context, fn func(key string), listed func()) error {
	w := newWatch(s.inotify, s.dir)
	defer w.close()
	keys, err := eachKey(s.fs, s.dir, nil, fn)
	if err != nil {
		return err
	}
	listed()
	for {
		change, err := w.next(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return fmt.Errorf("follow records: %w", err)
		case change.Name == "":
			if keys, err = eachKey(s.fs, s.dir, keys, fn); err != nil {
				return err
			}
		case change.Has(fsnotify.Create) || change.Has(fsnotify.Remove):
			if key, ok := recordKey(change.Name); ok {
				keys[key] = true
				fn(key)
			}
		}
	}
}

// eachKey calls fn with the key of every record, and of those of before that are gone. It
// returns the keys there are.
func eachKey(fsys FS, dir string, before map[string]bool, fn func(key string)) (keys map[string]bool, err error) {
	names, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list records in %s: %w", dir, err)
	}
	keys = map[string]bool{}
	for _, name := range names {
		if key, ok := recordKey(name); ok {
			keys[key] = true
			fn(key)
		}
	}
	for key := range before {
		if !keys[key] {
			fn(key)
		}
	}
	return keys, nil
}

// recordKey is the key of the record in a file, if it is one's name.
func recordKey(name string) (key string, ok bool) {
	key, ok = strings.CutSuffix(name, ".json")
	return key, ok && validKey(key)
}
