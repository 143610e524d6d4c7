package stacks

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/podtask/podtask/internal/engine/decide/stack"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/images/imageage"
)

// Store has the records of all stacks. Its methods may be called concurrently.
type Store struct{ *state.Named[stack.State] }

// Open opens the records below a state directory.
func Open(dir string, fsys state.FS) (*Store, error) {
	named, err := state.OpenNamed(dir, fsys, state.Kind[stack.State]{
		Dir: "stacks", Noun: "stack", Command: "podtask stack",
		Name:    func(s stack.State) string { return s.Name },
		Check:   stack.Check,
		Missing: func(name string) error { return &NotFoundError{name} },
	})
	return &Store{named}, err
}

// NotFoundError reports that there is no stack of a name.
type NotFoundError struct{ Name string }

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("no stack %q: `podtask stack ls` lists them", e.Name)
}

// Lock takes the lock of a stack. Its holder alone changes the record.
func (t *Store) Lock(name string) (*state.Lock, error) {
	l, err := t.Named.Lock(name)
	if errors.Is(err, state.ErrLocked) {
		return nil, fmt.Errorf("another process changes the stack %s just now (%w): `podtask stack why %s` shows how far it is; try again when it has ended", name, err, name)
	}
	return l, err
}

// Put saves a stack; one that is empty has no record. The caller holds its lock.
func (t *Store) Put(s stack.State) error {
	if !s.Empty() {
		return t.Named.Put(s)
	}
	err := t.Delete(s.Name)
	if errors.As(err, new(*NotFoundError)) {
		err = nil
	}
	return errors.Join(err, os.RemoveAll(t.Files(s.Name)))
}

// Recount writes down when a preview ends by the clocks as they are now. The error wraps state.ErrLocked if another process changes it.
func (t *Store) Recount(name string, now imageage.Moment) error {
	lock, err := t.Lock(name)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	s, err := t.Get(name)
	if err != nil || s.Preview == nil {
		return err
	}
	s.Preview = s.Preview.Ending(s.Preview.Left(now), now)
	return t.Put(s)
}

// Files is the directory of the files that the definitions of a stack name and that podtask wrote.
func (t *Store) Files(name string) string { return filepath.Join(t.Dir(), "files", name) }

// Status returns what becomes of a stack in a word: complete, changing, unfinished, or none if none of its changes was completed.
func (t *Store) Status(s stack.State) string {
	switch {
	case s.Change != nil && t.Locked(s.Name):
		return "changing"
	case s.Change != nil:
		return "unfinished"
	case s.Current.Number == 0:
		return "none"
	}
	return "complete"
}
