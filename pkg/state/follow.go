package state

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// Follow calls fn for each event numbered above after, first for those in the
// log and then for new ones as they come, until ctx ends or fn returns an
// error; that error is returned. A line that cannot be read is left out. If fn
// is so slow that two rotations pass, it sees a gap in the numbers.
//
// It sleeps on inotify between events, or where that is used up looks once a second.
// It watches the directory rather than the file, so that a rotation is seen. fn is called
// by the goroutine that called Follow.
func (l *Log) Follow(ctx context.Context, after uint64, fn func(Entry) error) error {
	w := newWatch(l.inotify, l.dir)
	defer w.close()
	f := &follower{log: l, after: after}
	defer f.close()
	for {
		if err := f.drain(ctx, fn); err != nil {
			return err
		}
		if err := w.await(ctx, filepath.Base(l.current())); err != nil {
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
