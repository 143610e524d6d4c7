package observe

import (
	"context"
	"io"
	"time"

	"github.com/podtask/podtask/internal/engine/facts/taskspec"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/logs/logfiles"
	"github.com/podtask/podtask/internal/logs/logroute"
	"github.com/podtask/podtask/internal/sleep"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// longestLine is the most bytes of a line that are shown as one.
const longestLine = 1 << 20

// fileLog is the output of a container in files.
type fileLog struct {
	task      lifecycle.State
	container int
	files     logfiles.Files
}

// copyFile is copyLog for a container whose output is in files: those that podtask places, or the one
// that Podman does. Podman only says whether the container runs; what it wrote is in the files. Podman's
// own follower of such a file leaves lines out, repeats some and changes their order.
func (l *Logs) copyFile(ctx context.Context, from fileLog, o LogOptions, fn func(libpod.LogLine) error) error {
	s, i, files := from.task, from.container, from.files
	changes := files.Watch()
	defer changes.Close()
	r := files.Reader(logroute.Position{}, longestLine)
	defer r.Close()
	out := &selection{o: o, fn: fn}
	for runs := 1; ; {
		running, err := l.follows(ctx, s, i, o)
		if err != nil {
			return err
		}
		if err := out.copy(r.Next); err != nil {
			return err
		}
		if running {
			err := out.release()
			if err == nil {
				err = l.whileRunning(ctx, taskspec.ContainerName(s, i), changes.Await, func() error { return out.copy(r.Next) })
			}
			if err != nil {
				return err
			}
			continue
		}
		if runs++; o.Follow && s.Task.Containers[i].Restart != nil && l.awaitRun(ctx, s, i, runs) {
			continue
		}
		for _, e := range r.Rest() {
			if err := out.add(e); err != nil {
				return err
			}
		}
		return out.release()
	}
}

// follows reports whether more is to be read because the container runs.
func (l *Logs) follows(ctx context.Context, s lifecycle.State, i int, o LogOptions) (bool, error) {
	if !o.Follow {
		return false, nil
	}
	podman, err := l.Podman(ctx)
	if err != nil {
		return false, err
	}
	seen, err := podman.InspectContainer(ctx, taskspec.ContainerName(s, i))
	return seen.Status == libpod.Running, err
}

// whileRunning reads at each change until the container may have ended.
func (l *Logs) whileRunning(ctx context.Context, name string, await func(context.Context), read func() error) error {
	podman, err := l.Podman(ctx)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		defer stop()
		if podman.WaitContainer(running, name) == nil { // a hint: Podman is asked again
			return
		}
		sleep.For(running, time.Second) // for a Podman that answers inspections and refuses waits
	}()
	defer func() { stop(); <-over }()
	for running.Err() == nil {
		if err := read(); err != nil {
			return err
		}
		await(running)
	}
	return context.Cause(ctx)
}

// selection passes on the lines that were asked for.
type selection struct {
	o        LogOptions
	fn       func(libpod.LogLine) error
	last     []logroute.Entry // with Tail: the latest ones so far
	released bool
}

// copy passes on what there is for now.
func (s *selection) copy(next func() (logroute.Entry, error)) error {
	for {
		e, err := next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = s.add(e)
		}
		if err != nil {
			return err
		}
	}
}

func (s *selection) add(e logroute.Entry) error {
	if e.Time.Before(s.o.Since) || !s.o.Until.IsZero() && e.Time.After(s.o.Until) {
		return nil
	}
	if s.released || s.o.Tail < 0 {
		return s.emit(e)
	}
	if len(s.last)/2 >= s.o.Tail {
		s.last = append(s.last[:0], s.last[len(s.last)-s.o.Tail+1:]...)
	}
	s.last = append(s.last, e)
	return nil
}

// release passes on the last lines of what was there at the beginning.
func (s *selection) release() error {
	last := s.last
	s.last, s.released = nil, true
	for _, e := range last[max(0, len(last)-max(s.o.Tail, 0)):] {
		if err := s.emit(e); err != nil {
			return err
		}
	}
	return nil
}

func (s *selection) emit(e logroute.Entry) error {
	line := libpod.LogLine{Stream: libpod.Stdout, Text: e.Text, Unended: e.Unended}
	if e.Stream == logroute.Stderr {
		line.Stream = libpod.Stderr
	}
	if s.o.Timestamps {
		line.Time = e.Time
	}
	return s.fn(line)
}
