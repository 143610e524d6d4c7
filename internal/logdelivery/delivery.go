package logdelivery

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/podtask/podtask/internal/logfiles"
	"github.com/podtask/podtask/internal/podspec"
	"github.com/podtask/podtask/pkg/libpod"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/state"
)

// Deliverer looks after the log files of tasks.
type Deliverer struct {
	Log    *slog.Logger
	Files  logfiles.Dir
	Locks  *state.Locks // one for each task whose files are looked after
	Podman func(context.Context) (Podman, error)
}

// Podman says where a container's conmon is to be reached.
type Podman interface {
	InspectContainer(ctx context.Context, name string) (libpod.Observed, error)
}

// Task is the state of a task.
type Task interface {
	State() lifecycle.State
	Watch(ctx context.Context, fn func(lifecycle.State) bool) error
}

// Segments are rotated at a quarter of what a log may take, within these bounds.
const (
	smallSegment = 64 << 10
	bigSegment   = 16 << 20
)

// pause is the least time between two looks at the files, so that a container that writes all
// the time does not keep the process busy.
const pause = 200 * time.Millisecond

// Run looks after the files of a task until ctx ends or the task has settled. It waits for
// another process that does.
func (d *Deliverer) Run(ctx context.Context, t Task) {
	s := t.State()
	var routed []int
	for i, c := range s.Task.Containers {
		if c.Log.Remote() {
			routed = append(routed, i)
		}
	}
	if len(routed) == 0 || s.Settled() {
		return
	}
	if err := os.MkdirAll(d.Files.Task(s.ID), 0o700); err != nil {
		d.Log.Warn("the logs of the task are not rotated", "task", s.ID, "error", err)
		return
	}
	lock, err := d.Locks.LockWait(ctx, s.ID)
	if err != nil {
		if ctx.Err() == nil {
			d.Log.Warn("the logs of the task are not rotated", "task", s.ID, "error", err)
		}
		return
	}
	defer d.release(s.ID, lock)
	all := &delivery{Deliverer: d, task: t, id: s.ID, most: s.Options.LogSize}
	for _, i := range routed {
		all.containers = append(all.containers, &container{index: i, name: podspec.ContainerName(s, i), files: d.Files.Of(s.ID, i)})
	}
	all.run(ctx)
}

// release removes the lock of a task whose files were removed.
func (d *Deliverer) release(id string, lock *state.Lock) {
	if _, err := os.Stat(d.Files.Task(id)); errors.Is(err, fs.ErrNotExist) {
		_ = lock.Remove()
		return
	}
	_ = lock.Unlock()
}

// delivery is the work for one task.
type delivery struct {
	*Deliverer
	task       Task
	id         string
	most       int64 // bytes that the files of a container may take; 0: no limit
	containers []*container
}

// container is one whose files are looked after.
type container struct {
	index  int
	name   string
	files  logfiles.Files
	sealed bool
	asked  time.Time // when conmon was told last to open its file again
	deaf   bool      // it did not, and a warning said so
}

func (a *delivery) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes := a.Files.Watch(a.id)
	defer changes.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = a.task.Watch(ctx, a.seal)
		cancel()
	}()
	defer func() { <-ended }()
	for ctx.Err() == nil {
		for _, c := range a.containers {
			a.rotate(ctx, c)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		changes.Await(ctx)
	}
}

// seal ends the unfinished lines of containers that have ended.
func (a *delivery) seal(s lifecycle.State) bool {
	for _, c := range a.containers {
		if !s.Containers[c.index].Ended || c.sealed {
			continue
		}
		if err := c.files.Seal(time.Now()); err != nil {
			a.Log.Warn("an unfinished line stays unfinished", "container", c.name, "error", err)
		}
		c.sealed = true
	}
	return !s.Settled()
}

// segmentSize is the size at which a file is rotated.
func (a *delivery) segmentSize() int64 {
	if a.most <= 0 {
		return bigSegment
	}
	return min(max(a.most/4, smallSegment), bigSegment)
}

// rotate does what is due for the files of a container.
func (a *delivery) rotate(ctx context.Context, c *container) {
	pending, err := c.files.Rotate(a.segmentSize(), func() error { return a.reopen(ctx, c) })
	if errors.Is(err, fs.ErrNotExist) || ctx.Err() != nil {
		return // it was not created yet, or is being removed
	}
	if !pending && err == nil {
		c.deaf = false
	}
	if err == nil {
		_, err = c.files.Prune(a.most, func(logfiles.Segment) bool { return true })
	}
	if err != nil && !c.deaf {
		c.deaf = true
		a.Log.Warn("the log of a container cannot be rotated; it grows until it can", "container", c.name, "error", err)
	}
}

// patience is how long conmon may take to open its file again before it is told once more.
const patience = 5 * time.Second

// reopen tells conmon to open the file again.
func (a *delivery) reopen(ctx context.Context, c *container) error {
	if time.Since(c.asked) < patience {
		return nil
	}
	podman, err := a.Podman(ctx)
	if err != nil {
		return err
	}
	seen, err := podman.InspectContainer(ctx, c.name)
	if err != nil || seen.Status != libpod.Running {
		return err // the next run goes on with the file that has two names
	}
	c.asked = time.Now()
	return logfiles.Reopen(seen.Control)
}
