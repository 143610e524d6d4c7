package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/podtask/podtask/pkg/cgroups"
	"github.com/podtask/podtask/pkg/libpod"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/state"
)

// stateDirLabel tells whose pods are: those of the tasks recorded in this
// directory. It is on the pod and its infra container.
const stateDirLabel = "podtask.state-dir"

// sweepPace is how long owners leave between two sweeps.
const sweepPace = 10 * time.Minute

// Orphan is something of ours that belonged to no task and was removed.
type Orphan struct {
	// Kind is pod, network or record.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Task is the id it was made for.
	Task string `json:"task"`
}

// Sweep removes what dead owners have left behind: pods and networks with the label of
// this state directory, and records whose first write never ended, each of a task that has no
// record. With a record a thing is the task's and whoever owns the task next adopts
// it.
//
// It goes by locks, not by age: an owner makes things only while it holds the lock
// of its task, and after the record. So where the lock is free and there is no
// record, nobody is about to make one. What a killed owner had asked Podman for may
// still come into being afterwards; the next sweep finds it. Sockets on which nobody
// listens any more go without a word. The error holds all
// problems; what could be removed is returned beside it.
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
	abandoned, err := c.tasks.Store.Abandoned()
	errs = append(errs, err)
	for _, id := range abandoned {
		sweep(Orphan{Kind: "record", Name: id, Task: id}, func() error { return c.tasks.Store.Delete(id) })
	}
	errs = append(errs, c.sweepSockets(ctx))
	return removed, errors.Join(errs...)
}

// sweepOne removes a thing of a task if nobody owns the task and there is no record
// of it.
func (c *Orphans) sweepOne(id string, remove func() error) (gone bool, err error) {
	lock, err := c.tasks.Locks.Lock(id)
	if errors.Is(err, state.ErrLocked) || errors.Is(err, state.ErrBadKey) {
		return false, nil // it has an owner, or is no task of ours
	}
	if err != nil {
		return false, err
	}
	if _, err := c.tasks.Store.Get(id); !errors.Is(err, fs.ErrNotExist) {
		return false, lock.Unlock() // a record that cannot be read is one
	}
	err = remove()
	return err == nil, errors.Join(err, lock.Remove())
}

// leftovers are the pods made for tasks of this state directory, and then the
// networks, those of living tasks among them.
func (c *Orphans) leftovers(ctx context.Context) ([]libpod.Found, error) {
	podman, err := c.podman(ctx)
	if err != nil {
		return nil, err
	}
	found, err := podman.List(ctx)
	if err != nil {
		return nil, err
	}
	var ours []libpod.Found
	for _, f := range found {
		if (f.Kind == libpod.KindPod || f.Kind == libpod.KindNetwork) && f.Labels[stateDirLabel] == c.stateDir {
			ours = append(ours, f)
		}
	}
	return ours, nil
}

// removeOrphan removes a pod or a network of a task nobody knows any more, with a pod
// what was made for its containers.
func (c *Orphans) removeOrphan(ctx context.Context, f libpod.Found) error {
	podman, err := c.podman(ctx)
	if err != nil {
		return err
	}
	if f.Kind == libpod.KindNetwork {
		return persistent(podman.RemoveNetwork(ctx, f.Name, f.TaskID))
	}
	if err := c.runtime.RemovePod(ctx, f.Name, f.TaskID); err != nil {
		return err
	}
	return persistent(errors.Join(podman.RemoveVolumes(ctx, f.TaskID), podman.RemoveSecrets(ctx, secretPrefix(f.TaskID), f.TaskID)))
}

// RemovePod removes a pod and its task's slice.
func (r *Runtime) RemovePod(ctx context.Context, name, id string) error {
	podman, err := r.podman(ctx)
	if err != nil {
		return err
	}
	if err := podman.RemovePod(ctx, name, id); err != nil {
		return persistent(err)
	}
	r.fail.effect(midEffect, lifecycle.RemoveSandbox{})
	return r.slices.remove(ctx, id)
}

// remove removes the slice of the task with the id.
func (c *Slices) remove(ctx context.Context, id string) error {
	user, err := c.user.Get(ctx)
	if err != nil {
		return nil // without a user manager no slice was made
	}
	slice, err := cgroups.SliceName(id)
	if err != nil {
		return err
	}
	return user.StopSlice(ctx, slice)
}

// sweepLimit is how long an owner whose task has ended waits for its sweep.
const sweepLimit = 30 * time.Second

// SweepIsDue tells whether nobody has swept for a while, and notes that we do now.
func (l *Ledger) SweepIsDue(ctx context.Context) (due bool) {
	isDue := func(l ledger, now time.Time) bool {
		pace := sweepPace
		if now.Before(l.SuspectUntil) {
			pace = suspectPace
		}
		return now.Sub(l.SweptAt) >= pace || now.Before(l.SweptAt) // a clock was set back
	}
	if l, err := l.Read(); err == nil && !l.SweptAt.IsZero() && !isDue(l, time.Now()) {
		return false // mostly so, and seen without the lock
	}
	err := l.Change(ctx, func(l *ledger) {
		if now := time.Now().UTC(); isDue(*l, now) {
			l.SweptAt, due = now, true
		}
	})
	if err != nil {
		l.log.Debug("whether a sweep is due is not known", "error", err)
	}
	return due && err == nil
}

// SweepAndLog sweeps, and logs what comes of it.
func (c *Orphans) SweepAndLog(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, sweepLimit)
	defer cancel()
	removed, err := c.Sweep(ctx)
	for _, o := range removed {
		c.log.Warn("removed what a dead owner has left behind", "kind", o.Kind, "name", o.Name, "task", o.Task)
	}
	if err != nil && ctx.Err() == nil {
		c.log.Warn("what dead owners have left behind is not all removed", "error", err)
	}
}

// suspectFor is how long Podman may take to finish what a dead owner has asked for:
// the time limit of making a pod. Meanwhile sweeps come at suspectPace.
const (
	suspectFor  = 4 * time.Minute
	suspectPace = 10 * time.Second
)

// RequestSweep makes the next owner sweep.
func (l *Ledger) RequestSweep(ctx context.Context) error {
	return l.Change(ctx, func(l *ledger) {
		l.SweptAt, l.SuspectUntil = time.Time{}, time.Now().UTC().Add(suspectFor)
	})
}
