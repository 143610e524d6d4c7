package state

import (
	"context"
	"fmt"
	"strings"

	"github.com/fsnotify/fsnotify"
)

// FollowRecords calls fn with the key of every record, then listed once, and then fn
// with a key whenever its record has been written or removed, until ctx ends; the
// context's cause is returned. A key may come more often than its record changes. It
// sleeps on inotify, or where that is used up calls fn for every key once a second. Both
// functions are called by the goroutine that called it.
func (s *Store) FollowRecords(ctx context.Context, fn func(key string), listed func()) error {
	w := newWatch(s.inotify, s.dir)
	defer w.close()
	keys, err := s.eachKey(nil, fn)
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
			if keys, err = s.eachKey(keys, fn); err != nil {
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
func (s *Store) eachKey(before map[string]bool, fn func(key string)) (keys map[string]bool, err error) {
	names, err := s.fs.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("list records in %s: %w", s.dir, err)
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
