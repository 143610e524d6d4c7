package cleanup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"time"

	"github.com/podtask/podtask/internal/engine/act/effects"
	"github.com/podtask/podtask/internal/engine/act/leftover"
	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/facts/taskspec"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/state"
)

// Orphans removes what dead owners left behind.
type Orphans struct {
	Log                  *slog.Logger
	StateDir, RuntimeDir string
	Podman               func(context.Context) (Podman, error)
	Tasks                *record.Tasks
	Runtime              *effects.Interpreter
	Leftover             *leftover.Remover
}

// Orphan is something of podtask that belonged to no task and was removed.
type Orphan struct {
	// Kind is pod, network, record, leftover or corrupt record.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Task is the ID of its task.
	Task string `json:"task"`
	// Kept: it was found and not removed.
	Kept bool `json:"kept,omitempty"`
}

// Sweep removes what dead owners have left behind: pods and networks with the label of
// this state directory, and records whose first write never ended, each of a task without a
// record. If there is a record, the next owner of the task adopts the object.
//
// It decides by locks, not by age: an owner creates objects only while it holds the lock
// of its task, and after it has written the record. So if the lock is free and there is
// no record, nothing will be created. A request that a killed owner sent to Podman may
// still create something afterwards; the next sweep finds it. Sockets without a listener
// are removed silently. The error contains all problems; what could be removed is
// returned as well.
func (c *Orphans) Sweep(ctx context.Context) ([]Orphan, error) {
	var removed []Orphan
	var errs []error
	sweep := func(o Orphan, remove func() error) {
		gone, err := c.sweepOne(o.Task, remove)
		if err != nil {
			errs = append(errs, fmt.Errorf("remove %s %s, which no task is left for: %w", o.Kind, o.Name, err))
		}
		if gone {
			removed = append(removed, o)
		}
	}
	found, err := c.leftovers(ctx)
	errs = append(errs, err)
	for _, f := range found { // pods are first
		sweep(Orphan{Kind: string(f.Kind), Name: f.Name, Task: f.TaskID}, func() error { return c.removeOrphan(ctx, f) })
	}
	abandoned, err := c.Tasks.Store.Abandoned()
	errs = append(errs, err)
	for _, id := range abandoned {
		sweep(Orphan{Kind: "record", Name: id, Task: id}, func() error { return c.Tasks.Store.Delete(id) })
	}
	left, err := c.sweepInterrupted(ctx)
	removed, errs = append(removed, left...), append(errs, err, c.sweepSockets(ctx))
	return removed, errors.Join(errs...)
}

// sweepInterrupted removes what interrupted calls of Podman have left behind, also of tasks
// that still exist.
func (c *Orphans) sweepInterrupted(ctx context.Context) (removed []Orphan, err error) {
	noted, err := c.Leftover.Noted()
	errs := []error{err}
	for _, id := range noted {
		_, err := c.sweepOne(id, func() error { return c.removeOwn(ctx, id) })
		if err != nil { // the notes stay
			errs = append(errs, fmt.Errorf("remove the secrets and volumes of task %s, which has no record: %w", id, err))
			continue
		}
		_, err = c.Tasks.Store.Get(id)
		left, err := c.Leftover.Remove(ctx, id, errors.Is(err, fs.ErrNotExist) && !c.Tasks.Owned(id))
		for _, what := range left {
			removed = append(removed, Orphan{Kind: "leftover", Name: what, Task: id})
		}
		errs = append(errs, err)
	}
	return removed, errors.Join(errs...)
}

// sweepOne removes an object of a task if the task has no owner and no record.
func (c *Orphans) sweepOne(id string, remove func() error) (gone bool, err error) {
	lock, err := c.Tasks.Locks.Lock(id)
	if errors.Is(err, state.ErrLocked) || errors.Is(err, state.ErrBadKey) {
		return false, nil // it has an owner, or the ID is not a task's
	}
	if err != nil {
		return false, err
	}
	if _, err := c.Tasks.Store.Get(id); !errors.Is(err, fs.ErrNotExist) {
		return false, lock.Unlock() // an unreadable record counts too
	}
	if corrupt, err := state.CorruptKeys(c.Tasks.Store); err != nil || slices.Contains(corrupt, id) {
		return false, errors.Join(err, lock.Unlock()) // and one that was moved aside; see Corrupt
	}
	err = remove()
	return err == nil, errors.Join(err, lock.Remove())
}

// leftovers returns the pods created for tasks of this state directory, then the networks,
// including those of living tasks.
func (c *Orphans) leftovers(ctx context.Context) ([]libpod.Found, error) {
	podman, err := c.Podman(ctx)
	if err != nil {
		return nil, err
	}
	found, err := podman.List(ctx)
	if err != nil {
		return nil, err
	}
	var ours []libpod.Found
	for _, f := range found {
		if (f.Kind == libpod.KindPod || f.Kind == libpod.KindNetwork) && f.Labels[effects.StateDirLabel] == c.StateDir {
			ours = append(ours, f)
		}
	}
	return ours, nil
}

// removeOrphan removes a pod or a network of a task without a record, and with a pod what
// was created for its containers.
func (c *Orphans) removeOrphan(ctx context.Context, f libpod.Found) error {
	podman, err := c.Podman(ctx)
	if err != nil {
		return err
	}
	if f.Kind == libpod.KindNetwork {
		return effects.RetryRemoval(podman.RemoveNetwork(ctx, f.Name, f.TaskID))
	}
	if err := c.Runtime.RemovePod(ctx, f.Name, f.TaskID); err != nil {
		return err
	}
	return effects.RetryRemoval(c.removeOwn(ctx, f.TaskID))
}

// removeOwn removes the volumes and secrets of a task without a record.
func (c *Orphans) removeOwn(ctx context.Context, id string) error {
	podman, err := c.Podman(ctx)
	if err != nil {
		return err
	}
	return errors.Join(podman.RemoveVolumes(ctx, id), podman.RemoveSecrets(ctx, taskspec.SecretPrefix(id), id))
}

// sweepLimit is the time for which an owner whose task has ended waits for its sweep.
const sweepLimit = 30 * time.Second

// SweepAndLog sweeps, and logs the result.
func (c *Orphans) SweepAndLog(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, sweepLimit)
	defer cancel()
	removed, err := c.Sweep(ctx)
	for _, o := range removed {
		c.Log.Warn("removed what a dead owner has left behind", "kind", o.Kind, "name", o.Name, "task", o.Task)
	}
	if err != nil && ctx.Err() == nil {
		c.Log.Warn("what dead owners have left behind is not all removed", "error", err)
	}
}

// Podman finds and removes what is left of tasks.
type Podman interface {
	List(ctx context.Context) ([]libpod.Found, error)
	RemoveNetwork(ctx context.Context, name, taskID string) error
	RemoveVolumes(ctx context.Context, taskID string) error
	RemoveSecrets(ctx context.Context, prefix, taskID string) error
}
