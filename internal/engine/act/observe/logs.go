package observe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/engine/facts/record"
	"github.com/podtask/podtask/internal/engine/facts/taskspec"
	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/internal/logs/logfiles"
	"github.com/podtask/podtask/internal/sleep"
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
	// Unended: the container ended without a newline after the text.
	Unended bool
}

// Read calls fn, never concurrently, for the lines of one container, or of all
// when container is empty; those of one container come in order, and those of several that were written before the
// call in the order of their times. It needs
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
	if !o.Follow && container == "" && len(s.Task.Containers) > 1 {
		return l.readMerged(ctx, s, o, fn)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		wg         sync.WaitGroup
		mu         sync.Mutex // guards incomplete
		incomplete error
	)
	rest := func() {}
	if container == "" && len(s.Task.Containers) > 1 {
		g := newGate(s.Task.Containers, o.Timestamps, fn, func(err error) { cancel(err) })
		o.Timestamps, fn, rest = true, g.line, g.release
	}
	for i, c := range s.Task.Containers {
		if container != "" && c.Name != container {
			continue
		}
		wg.Go(func() {
			if o.Follow && !l.awaitRun(ctx, s, i, 1) {
				return
			}
			err := l.copyOne(ctx, s, i, o, func(l libpod.LogLine) error {
				return fn(LogLine{Container: c.Name, Stream: string(l.Stream), Time: l.Time, Text: l.Text, Unended: l.Unended})
			})
			var lost *IncompleteError
			switch {
			case errors.As(err, &lost):
				mu.Lock()
				incomplete = errors.Join(incomplete, err)
				mu.Unlock()
			case err != nil:
				cancel(err)
			}
		})
	}
	wg.Wait()
	rest()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return incomplete
}

// readMerged is Read of all containers without Follow: lines come in the order of their times, those of
// the same time in the order of the definition.
func (l *Logs) readMerged(ctx context.Context, s lifecycle.State, o LogOptions, fn func(LogLine) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	defer wg.Wait()
	stamped := o
	stamped.Timestamps = true
	sources := make([]logSource, len(s.Task.Containers))
	for i, c := range s.Task.Containers {
		lines := make(chan LogLine)
		sources[i].lines = lines
		wg.Go(func() {
			defer close(lines)
			err := l.copyOne(ctx, s, i, stamped, func(l libpod.LogLine) error {
				select {
				case lines <- LogLine{Container: c.Name, Stream: string(l.Stream), Time: l.Time, Text: l.Text, Unended: l.Unended}:
					return nil
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			})
			if err != nil {
				cancel(err)
			}
		})
	}
	for i := range sources {
		sources[i].advance()
	}
	for {
		first := -1
		for i, next := range sources {
			if next.some && (first < 0 || earlier(next.head, sources[first].head)) {
				first = i
			}
		}
		if first < 0 {
			return context.Cause(ctx)
		}
		line := sources[first].head
		if !o.Timestamps {
			line.Time = time.Time{}
		}
		if err := fn(line); err != nil {
			cancel(err)
			return err
		}
		sources[first].advance()
	}
}

// logSource is the log of one container in a merge.
type logSource struct {
	lines <-chan LogLine
	head  LogLine
	some  bool // head is there
}

// advance waits for the next line.
func (s *logSource) advance() { s.head, s.some = <-s.lines }

// copyOne reads the log of one container, from its files where podtask keeps some.
func (l *Logs) copyOne(ctx context.Context, s lifecycle.State, i int, o LogOptions, fn func(libpod.LogLine) error) error {
	if files := l.Files.Of(s.ID, i); files.Placed() {
		return l.copyFile(ctx, fileLog{s, i, files}, o, fn)
	}
	return l.copyLog(ctx, s, i, o, fn)
}

// IncompleteError says that the log driver did not deliver all that a container wrote.
type IncompleteError struct{ Container string }

// Complete returns err, or nil for an *IncompleteError: for readers that show what there is.
func Complete(err error) error {
	if errors.As(err, new(*IncompleteError)) {
		return nil
	}
	return err
}

// Brief is the error without the cause and the remedy, for a line of status.
func (e *IncompleteError) Brief() string {
	return "lines of " + e.Container + " are missing in the journal"
}

func (e *IncompleteError) Error() string {
	return "lines of " + e.Container + " are missing: the journal drops what comes faster than its rate limit (RateLimitBurst= in journald.conf); the log driver json-file keeps all"
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
		if i >= len(now.Containers) { // it runs beside those of the definition, once
			begun = n == 1
			return record.ErrSeen
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

// copyLog reads one container's log, from the file that conmon writes where there is one. Following may end early, when the service goes
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
	seen, err := podman.InspectContainer(ctx, name)
	if err != nil {
		return err
	}
	if files := logfiles.At(seen.LogFile); seen.LogFile != "" && files.Placed() {
		return l.copyFile(ctx, fileLog{s, i, files}, o, fn)
	}
	cut := false
	opts := libpod.LogOptions{Since: o.Since, Until: o.Until, Tail: max(o.Tail, 0), Timestamps: o.Timestamps || o.Follow, Seen: seen}
	read := logDeduper{fromStart: o.Tail < 0}
	if o.Follow && o.Tail > 0 {
		if opts, err = readTail(ctx, containerLog{podman, name}, opts, &read, keepTimes(o, func(libpod.LogLine) bool { return true }, fn)); err != nil {
			return err
		}
	}
	runs := 1
	for {
		follow := o.Follow && opts.Seen.Status == libpod.Running
		opts.Follow = follow
		stayed, err := stream(ctx, podman, name, opts, keepTimes(o, read.resume(), fn))
		cut = cut || stayed
		if errors.Is(err, libpod.NotFound) {
			return nil // never created, or removed
		}
		if err != nil {
			return err
		}
		if !follow {
			if runs++; !o.Follow || s.Task.Containers[i].Restart == nil || !l.awaitRun(ctx, s, i, runs) {
				if cut {
					return &IncompleteError{s.Task.Containers[i].Name}
				}
				return nil
			}
		}
		if opts.Seen, err = podman.InspectContainer(ctx, name); err != nil {
			return err
		}
		if since, some := read.since(); some {
			opts.Since, opts.Tail = since, 0
		}
	}
}

// containerLog is the log of a container.
type containerLog struct {
	podman LogReader
	name   string
}

// readTail reads the last lines of a log that is to be followed, and returns the options to follow it with. Podman's own
// count takes a last line without a line feed, and the one before it, for one.
func readTail(ctx context.Context, log containerLog, o libpod.LogOptions, read *logDeduper, fn func(libpod.LogLine) error) (libpod.LogOptions, error) {
	tail, from := o.Tail, time.Time{}
	_, err := stream(ctx, log.podman, log.name, o, func(l libpod.LogLine) error {
		if from.IsZero() {
			from = l.Time
		}
		return nil
	})
	o.Tail, read.fromStart = 0, true
	if errors.Is(err, libpod.NotFound) || err == nil && from.IsZero() {
		return o, nil
	}
	if from = from.Add(-1); from.After(o.Since) { // Podman leaves out what is just as old
		o.Since = from
	} else {
		read.fromStart = false // the second of the first line may have begun before
	}
	var last []libpod.LogLine
	fresh := read.resume()
	if err == nil {
		_, err = stream(ctx, log.podman, log.name, o, func(l libpod.LogLine) error {
			if !l.Unended { // it goes on, or comes when the container has ended
				fresh(l)
				last = append(last[max(0, len(last)+1-tail):], l)
			}
			return nil
		})
	}
	read.whole = true
	for i := 0; err == nil && i < len(last); i++ {
		err = fn(last[i])
	}
	if since, some := read.since(); some {
		o.Since = since
	}
	return o, err
}

// keepTimes returns fn for lines that are fresh, without times that were not asked for.
func keepTimes(o LogOptions, fresh func(libpod.LogLine) bool, fn func(libpod.LogLine) error) func(libpod.LogLine) error {
	return func(l libpod.LogLine) error {
		if !fresh(l) {
			return nil
		}
		if !o.Timestamps {
			l.Time = time.Time{}
		}
		return fn(l)
	}
}

// stream reads a log once. An error of fn ends it and is returned. Stayed: Podman did not end a stream
// that is followed, although the container has ended.
func stream(ctx context.Context, podman LogReader, name string, o libpod.LogOptions, fn func(libpod.LogLine) error) (stayed bool, err error) {
	reading, cancel := context.WithCancelCause(ctx)
	lines, watching := make(chan struct{}, 1), func() {}
	if o.Follow {
		watching = endStream(reading, podman, name, lines, cancel)
	}
	err = podman.Logs(reading, name, o, func(l libpod.LogLine) {
		select {
		case lines <- struct{}{}:
		default:
		}
		if err := fn(l); err != nil {
			cancel(err)
		}
	})
	cause := context.Cause(reading)
	cancel(nil)
	watching()
	switch {
	case errors.Is(cause, errStreamStays):
		return true, nil
	case cause != nil:
		return false, cause
	}
	return false, err
}

// errStreamStays ends a stream that Podman keeps open although the container has ended.
var errStreamStays = errors.New("the stream does not end")

// streamGrace limits the time that a stream may be quiet after its container has ended. Podman's follower of
// the journal waits for an entry that the journal may have dropped.
const streamGrace = 3 * time.Second

// endStream ends a stream that is followed some time after its container has ended and the last of
// its lines has come. The function that it returns waits until it no longer watches.
func endStream(ctx context.Context, podman LogReader, name string, lines <-chan struct{}, end context.CancelCauseFunc) (wait func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_ = podman.WaitContainer(ctx, name) // a hint
			seen, err := podman.InspectContainer(ctx, name)
			if err == nil && seen.Status != libpod.Running {
				break
			}
			sleep.For(ctx, time.Second) // for a Podman that does not answer, or answers waits too early
		}
		quiet := time.NewTimer(streamGrace)
		defer quiet.Stop()
		for {
			select {
			case <-lines:
				quiet.Reset(streamGrace)
			case <-quiet.C:
				end(errStreamStays)
				return
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() { <-done }
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
