package scaling

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/pkg/scaling"
)

// Store has the records of all services that scale. Its methods may be called concurrently.
type Store struct{ *state.Named[scaling.State] }

// Open opens the records below a state directory.
func Open(dir string, fsys state.FS) (*Store, error) {
	named, err := state.OpenNamed(dir, fsys, state.Kind[scaling.State]{
		Dir: "scaling", Noun: "scaling", Command: "podtask service scaling",
		Name:    func(s scaling.State) string { return s.Service },
		Check:   func(s scaling.State) error { return s.Config.Check() },
		Missing: func(service string) error { return &NotFoundError{service} },
	})
	return &Store{named}, err
}

// NotFoundError reports that a service does not scale.
type NotFoundError struct{ Service string }

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("the service %q does not scale by itself: `podtask service scaling set %s --max NUMBER --cpu PERCENT` makes it", e.Service, e.Service)
}

// Configure changes the configuration of a service; found is false, and the configuration zero, if the service did not
// scale. The change is made whole or not at all.
func (t *Store) Configure(ctx context.Context, service string, now time.Time, change func(c scaling.Config, found bool) (scaling.Config, error)) (scaling.State, error) {
	return t.Change(ctx, service, func(s scaling.State, found bool) (scaling.State, error) {
		if !found {
			s = scaling.State{Service: service, Created: now}
		}
		c, err := change(s.Config, found)
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
	missing := &NotFoundError{service}
	_, err := t.Change(ctx, service, func(s scaling.State, found bool) (scaling.State, error) {
		if !found {
			return s, missing
		}
		return change(s), nil
	})
	if err == error(missing) { //nolint:errorlint // this one
		return nil
	}
	return err
}

// End ends the scaling of a service; without a record the error is a *NotFoundError.
func (t *Store) End(ctx context.Context, service string) error {
	l, err := t.LockWait(ctx, service)
	if err != nil {
		return err
	}
	return errors.Join(t.Delete(service), l.Unlock())
}
