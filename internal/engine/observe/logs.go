package observe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/engine/record"
	"github.com/podtask/podtask/internal/engine/taskspec"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/logs/logfiles"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// Logs reads what containers have written.
type Logs struct {
	Podman func(context.Context) (LogReader, error)
	Files  logfiles.Dir
	Tasks  *record.Tasks
	Events *record.Events
}

// LogOptions select what Logs reads.
type LogOptions struct {
	// Follow continues until the containers have ended.
	Follow bool
	// Since leaves out what is older; zero: from the beginning.
	Since time.Time
	// Until leaves out what is younger; zero: to the end. Not with Follow.
	Until time.Time
	// Tail is the number of last lines of each container to begin with, of those until
	// Until; negative: all.
	Tail int
	// Timestamps fills LogLine.Time.
	Timestamps bool
}

// LogLine is a line a container wrote.
type LogLine struct {
	Container, Stream string
	Time              time.Time
	Text              string
}

// Read calls fn, never concurrently, for the lines of one container, or of all
// when container is empty; those of one container come in order. It needs
// only Podman, so any process can do it. With Follow it also waits for containers that
// have not started yet.
func (l *Logs) Read(ctx context.Context, s lifecycle.State, container string, o LogOptions, fn func(LogLine) error) error {
	if container != "" {
		if _, ok := s.Task.Index(container); !ok {
			return fmt.Errorf("task %s has no container %q", s.ID[:12], container)
		}
	}
	if o.Tail == 0 {
		return nil
	}
	if _, err := l.Podman(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		wg sync.WaitGroup
		mu sync.Mutex // serialises fn
	)
	for i, c := range s.Task.Containers {
		if container != "" && c.Name != container {
			continue
		}
		wg.Go(func() {
			if o.Follow && !l.awaitRun(ctx, s, i, 1) {
				return
			}
			read := l.copyLog
			if l.Files.Of(s.ID, i).Placed() {
				read = l.copyFile
			}
			err := read(ctx, s, i, o, func(l libpod.LogLine) error {
				mu.Lock()
				defer mu.Unlock()
				return fn(LogLine{Container: c.Name, Stream: string(l.Stream), Time: l.Time, Text: l.Text})
			})
			if err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// awaitRun returns true once the container has been started n times, false if it has
// ended for good before. Events say when to look; the record has the answer.
func (l *Logs) awaitRun(ctx context.Context, s lifecycle.State, i, n int) (begun bool) {
	name := s.Task.Containers[i].Name
	look := func() error {
		data, err := l.Tasks.Store.Get(s.ID)
		if err != nil {
			return err
		}
		now, err := record.Decode(data)
		if err != nil {
			return err
		}
		c := now.Containers[i]
		if begun = !c.StartedAt.IsZero() && c.Restarts+1 >= n; begun || c.Ended {
			return record.ErrSeen
		}
		return nil
	}
	after := l.Events.Last(ctx) // what was recorded before is seen by the look
	if look() != nil {
		return begun
	}
	_ = l.Events.Read(ctx, after, true, func(e record.Event) error {
		if e.Task != s.ID || e.Container != name || e.Status != lifecycle.StatusRunning.String() && e.Status != lifecycle.StatusStopped.String() {
			return nil
		}
		return look()
	})
	return begun
}

// copyLog reads one container's log. Following may end early, when the service goes
// away, and leave out lines: Podman 4.3.1 drops some at random of those it has not
// sent yet when the container ends. So the container is asked whether it still runs,
// and the end of the log is read once more for what is missing. One that may be
// restarted is followed through its runs.
func (l *Logs) copyLog(ctx context.Context, s lifecycle.State, i int, o LogOptions, fn func(libpod.LogLine) error) error {
	podman, err := l.Podman(ctx)
	if err != nil {
		return err
	}
	name := taskspec.ContainerName(s, i)
	opts := libpod.LogOptions{Since: o.Since, Until: o.Until, Tail: max(o.Tail, 0), Timestamps: o.Timestamps || o.Follow}
	read := logDeduper{fromStart: o.Tail < 0}
	runs := 1
	for follow := o.Follow; ; {
		if follow {
			seen, err := podman.InspectContainer(ctx, name)
			if err != nil {
				return err
			}
			follow = seen.Status == libpod.Running
		}
		opts.Follow = follow
		reading, cancel := context.WithCancelCause(ctx)
		fresh := read.resume()
		err := podman.Logs(reading, name, opts, func(l libpod.LogLine) {
			if !fresh(l) {
				return
			}
			if !o.Timestamps {
				l.Time = time.Time{}
			}
			if err := fn(l); err != nil {
				cancel(err)
			}
		})
		cause := context.Cause(reading)
		cancel(nil)
		if cause != nil {
			return cause
		}
		if errors.Is(err, libpod.NotFound) {
			return nil // never created, or removed
		}
		if err != nil {
			return err
		}
		if !follow {
			if runs++; !o.Follow || s.Task.Containers[i].Restart == nil || !l.awaitRun(ctx, s, i, runs) {
				return nil
			}
			follow = true
		}
		if since, some := read.since(); some {
			opts.Since, opts.Tail = since, 0
		}
	}
}

// ContainerReader inspects containers.
type ContainerReader interface {
	InspectContainer(ctx context.Context, name string) (libpod.Observed, error)
}

// LogReader reads logs.
type LogReader interface {
	ContainerReader
	Logs(ctx context.Context, name string, o libpod.LogOptions, fn func(libpod.LogLine)) error
	WaitContainer(ctx context.Context, name string) error
}
