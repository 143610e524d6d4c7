package connect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/term"
	"github.com/podtask/podtask/pkg/api"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// StopTask stops a task and returns when it has stopped. A task that is removed
// meanwhile, by run --rm or rm, counts as stopped. A task that this process owned, and that
// has stopped but cannot be recorded as such on a full disk, is an error.
func (s *Connector) StopTask(ctx context.Context, id, by string, force bool, show func(api.Task)) error {
	local, unrecorded := false, false
	err := s.Ask(ctx, id,
		func(r *Task) error {
			local, r.leaves = r.Owner != nil, true
			return r.Stop(ctx, by, force)
		},
		func(t api.Task) (bool, error) {
			show(t)
			unrecorded = t.DiskFull()
			return t.Status == lifecycle.StatusStopped.String(), nil
		})
	switch {
	case IsGone(err):
		return nil
	case err == nil && local && unrecorded:
		return fmt.Errorf("task %s has stopped, but the disk of the state directory is full or read-only, so this is not recorded: free space in %s and run `podtask stop %s` again",
			lifecycle.ShortID(id), s.StateDir, lifecycle.ShortID(id))
	}
	return err
}

// Remove removes a task and returns when it is removed completely.
func (s *Connector) Remove(ctx context.Context, id, by string, force bool, show func(api.Task)) error {
	asked := false
	err := s.Ask(ctx, id,
		func(r *Task) error { return r.Remove(ctx, by, force) },
		func(t api.Task) (bool, error) {
			show(t)
			if t.Goal == lifecycle.Gone.String() {
				asked = true
			} else if asked { // it was given up
				return false, notRemoved(t)
			}
			// The record is deleted last, so its absence means that the removal is complete.
			return false, nil
		})
	if IsGone(err) {
		return s.RemoveOwnerLog(id)
	}
	if err == nil || errors.Is(err, ErrOwnersEnd) {
		err = fmt.Errorf("task %s is still there: try again", lifecycle.ShortID(id))
	}
	return err
}

func notRemoved(t api.Task) error {
	why := "Podman did not remove it"
	if n := len(t.Errors); n > 0 {
		why = term.Line(t.Errors[n-1].Message)
	}
	return fmt.Errorf("task %s cannot be removed: %s", lifecycle.ShortID(t.ID), why)
}

// OwnerLog is the path of the log of a background owner.
func (s *Connector) OwnerLog(id string) string {
	return filepath.Join(s.StateDir, "owners", id+".log")
}

// RemoveOwnerLog removes the log of a task's owner, if there is one.
func (s *Connector) RemoveOwnerLog(id string) error {
	if err := os.Remove(s.OwnerLog(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// IsGone reports whether err means that the task does not exist.
func IsGone(err error) bool {
	var missing *record.NotFoundError
	return errors.As(err, &missing) || api.Is(err, api.NotFound)
}
