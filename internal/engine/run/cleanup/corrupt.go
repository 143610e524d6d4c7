package cleanup

import (
	"context"
	"errors"

	"github.com/podtask/podtask/internal/state"
)

// Corrupt lists the tasks whose records are corrupt and were moved aside. Nothing of such a
// task is removed unless a user asks for it, because its containers may still run.
func (c *Orphans) Corrupt() (found []Orphan, err error) {
	keys, err := state.CorruptKeys(c.Tasks.Store)
	for _, id := range keys {
		found = append(found, Orphan{Kind: corruptRecord, Name: id, Task: id, Kept: true})
	}
	return found, err
}

const corruptRecord = "corrupt record"

// RemoveCorrupt removes the records that Corrupt lists, and what has the labels of their
// tasks: pods with all containers, networks, volumes and secrets. A task that has an owner is
// left out.
func (c *Orphans) RemoveCorrupt(ctx context.Context) (removed []Orphan, err error) {
	keys, err := state.CorruptKeys(c.Tasks.Store)
	if err != nil || len(keys) == 0 {
		return nil, err
	}
	var errs []error
	for _, id := range keys {
		gone, err := c.removeCorrupt(ctx, id)
		removed, errs = append(removed, gone...), append(errs, err)
	}
	return removed, errors.Join(errs...)
}

func (c *Orphans) removeCorrupt(ctx context.Context, id string) (removed []Orphan, err error) {
	lock, err := c.Tasks.Locks.Lock(id)
	if errors.Is(err, state.ErrLocked) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	found, err := c.leftovers(ctx)
	if err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	for _, f := range found { // pods are first
		if f.TaskID != id {
			continue
		}
		if err := c.removeOrphan(ctx, f); err != nil {
			return removed, errors.Join(err, lock.Unlock())
		}
		removed = append(removed, Orphan{Kind: string(f.Kind), Name: f.Name, Task: id})
	}
	if err := state.DeleteCorrupt(c.Tasks.Store, id); err != nil {
		return removed, errors.Join(err, lock.Unlock())
	}
	return append(removed, Orphan{Kind: corruptRecord, Name: id, Task: id}), lock.Remove()
}
