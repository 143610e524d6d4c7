package catalog

import (
	"context"
	"errors"
	"slices"

	"github.com/podtask/podtask/internal/state"
)

// Reserve records an id under which secrets of a document are about to be kept outside of the
// catalog, so that they are found if the caller is killed before the document is registered.
// The caller unlocks the id when it has registered the document or has given up.
func (c *Catalog) Reserve(id string) (*state.Lock, error) {
	lock, err := c.locks.Lock(id)
	if err != nil {
		return nil, err
	}
	if err := c.kept.Put(id, []byte("{}")); err != nil {
		return nil, errors.Join(err, lock.Remove())
	}
	return lock, nil
}

// Release calls forget with each reserved id that no active revision has, that no process
// holds and that used does not name, and drops those for which it succeeds.
func (c *Catalog) Release(ctx context.Context, used func(id string) (bool, error), forget func(ctx context.Context, id string) error) error {
	var errs []error
	for r, err := range c.kept.All(nil) {
		if err == nil {
			err = c.release(ctx, r.Key, used, forget)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (c *Catalog) release(ctx context.Context, id string, used func(string) (bool, error), forget func(context.Context, string) error) error {
	lock, err := c.locks.Lock(id)
	if errors.Is(err, state.ErrLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	all, err := c.List()
	needed := slices.ContainsFunc(all, func(r Revision) bool { return r.Kept == id && r.Status == Active })
	if err == nil && !needed {
		needed, err = used(id)
	}
	if err != nil || needed {
		return errors.Join(err, lock.Unlock())
	}
	if err := forget(ctx, id); err != nil {
		return errors.Join(err, lock.Unlock())
	}
	return errors.Join(c.kept.Delete(id), lock.Remove())
}
