package state

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/fsnotify/fsnotify"
)

// Follow calls fn for each event numbered above after, first for those in the
// log and then for new ones as they come, until ctx ends or fn returns an
// error; that error is returned. A line that cannot be read is left out. If fn
// is so slow that two rotations pass, it sees a gap in the numbers.
//
// It sleeps on inotify between events. fn is called by the goroutine that
// called Follow.
func (l *Log) Follow(ctx context.Context, after uint64, fn func(Entry) error) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("follow event log: %w; fs.inotify.max_user_instances may have to be raised", err)
	}
	defer watcher.Close()
	// The directory rather than the file, so that a rotation is seen; and
	// before the first read, so that nothing falls between.
	if err := watcher.Add(l.dir); err != nil {
		return fmt.Errorf("follow event log: %w; fs.inotify.max_user_watches may have to be raised", err)
	}
	f := &follower{log: l, after: after}
	defer f.close()
	for {
		if err := f.drain(ctx, fn); err != nil {
			return err
		}
		if err := l.awaitChange(ctx, watcher); err != nil {
			return err
		}
	}
}

func (l *Log) awaitChange(ctx context.Context, w *fsnotify.Watcher) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case ev, open := <-w.Events:
			if !open {
				return errors.New("follow event log: the watch ended")
			}
			if strings.HasPrefix(filepath.Base(ev.Name), "events.jsonl") {
				return nil
			}
		case err, open := <-w.Errors:
			if !open {
				return errors.New("follow event log: the watch ended")
			}
			if errors.Is(err, fsnotify.ErrEventOverflow) {
				return nil // what was lost can only mean: look again
			}
			return fmt.Errorf("follow event log: %w", err)
		}
	}
}

// follower remembers how far it has read, so that a wake-up costs only what is
// new.
type follower struct {
	log   *Log
	after uint64
	seen  *os.File // part read last, kept open: its inode cannot be used anew
	upTo  int64    // bytes read of it
}

func (f *follower) close() {
	if f.seen != nil {
		f.seen.Close()
	}
}

// drain passes on all that is new.
func (f *follower) drain(ctx context.Context, fn func(Entry) error) error {
	parts, err := f.log.open(ctx)
	if err != nil {
		return err
	}
	for _, p := range f.unread(parts) {
		if err := f.pass(p, fn); err != nil {
			closeParts(parts)
			return err
		}
	}
	if newest := len(parts) - 1; newest >= 0 {
		f.close()
		f.seen, f.upTo = parts[newest].f, parts[newest].end
		closeParts(parts[:newest])
	}
	return nil
}

func (f *follower) pass(p part, fn func(Entry) error) error {
	for e, err := range p.entries() {
		if err != nil || e.Seq <= f.after {
			continue
		}
		if err := fn(e); err != nil {
			return err
		}
		f.after = e.Seq
	}
	return nil
}

// unread leaves out what was read at the last wake-up.
func (f *follower) unread(parts []part) []part {
	for i, p := range parts {
		if f.seen != nil && sameFile(f.seen, p.f) {
			// A heal may have cut lines that a power loss had spoilt.
			parts[i].from = min(f.upTo, p.end)
			return parts[i:]
		}
	}
	return parts
}

func sameFile(a, b *os.File) bool {
	x, errX := a.Stat()
	y, errY := b.Stat()
	return errX == nil && errY == nil && os.SameFile(x, y)
}
