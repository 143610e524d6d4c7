package schedule

import (
	"errors"
	"fmt"

	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// Store has the records of all schedules. Its methods may be called concurrently.
type Store struct{ *state.Named[State] }

// Open opens the records below a state directory.
func Open(dir string, fsys state.FS) (*Store, error) {
	named, err := state.OpenNamed(dir, fsys, state.Kind[State]{
		Dir: "schedules", Noun: "schedule", Command: "podtask schedule",
		Name:    func(s State) string { return s.Name },
		Check:   Check,
		Missing: func(name string) error { return &NotFoundError{name} },
	})
	return &Store{named}, err
}

// NotFoundError says that there is no schedule of a name.
type NotFoundError struct{ Name string }

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("no schedule %q: `podtask schedule ls` lists them", e.Name)
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
	l, err := t.Lock(name)
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
