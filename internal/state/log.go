package state

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strconv"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
)

// DefaultLogSize is the size in bytes at which a part of the event log is
// closed. At most two parts are kept.
const DefaultLogSize = 4 << 20

// Entry is one event of the log.
type Entry struct {
	// Seq numbers the events of this host from 1, without gaps.
	Seq uint64 `json:"seq"`
	// Data is the appended value, without insignificant white space.
	Data json.RawMessage `json:"data"`
}

// Log is the ordered event log of the host, shared by all processes. Each line
// is an Entry in JSON.
//
// An append is synced to disk before its lock is dropped, and reading takes the lock: so
// what has been read survives a power loss, with its number. An owner that restarts
// appends what its record says and the log lacks. A process that dies while it appends
// leaves whole lines and perhaps a torn one, which the next append cuts off.
type Log struct {
	dir     string
	maxSize int64
	// sync makes a file's content durable.
	sync    func(*os.File) error
	inotify func() (*fsnotify.Watcher, error) // fsnotify's, but in tests
}

// OpenLog makes dir (mode 0700) where it is missing. When an append would make
// the newest part larger than maxSize bytes, that part becomes the older one
// and the older one is dropped; 0 stands for DefaultLogSize.
func OpenLog(dir string, maxSize int64) (*Log, error) {
	if err := (OS{}).MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("open event log in %s: %w", dir, classify(err))
	}
	if maxSize <= 0 {
		maxSize = DefaultLogSize
	}
	return &Log{dir: dir, maxSize: maxSize, sync: (*os.File).Sync, inotify: fsnotify.NewWatcher}, nil
}

// Mark is a state of the log: two are equal as long as nothing was appended between
// them. The zero value stands for a log that cannot be read.
type Mark struct {
	inode uint64
	size  int64
}

// Mark returns the present one.
func (l *Log) Mark() Mark {
	var st unix.Stat_t
	if err := unix.Stat(l.current(), &st); err != nil {
		return Mark{}
	}
	return Mark{inode: st.Ino, size: st.Size}
}

// Append adds the entries, each a JSON value, with consecutive numbers and
// returns the number of the last. All are added or, on an error, none; nothing
// is added twice. When it returns nil they survive a power loss. It waits for other processes as long as ctx lasts.
func (l *Log) Append(ctx context.Context, entries ...json.RawMessage) (lastSeq uint64, err error) {
	for i, e := range entries {
		if !json.Valid(e) {
			return 0, fmt.Errorf("append event %d of %d: it is not JSON", i+1, len(entries))
		}
	}
	unlock, err := l.lock(ctx, unix.LOCK_EX)
	if err != nil {
		return 0, err
	}
	defer unlock()
	lastSeq, err = l.append(entries)
	if err != nil {
		return 0, fmt.Errorf("append to event log: %w", classify(err))
	}
	return lastSeq, nil
}

func (l *Log) append(entries []json.RawMessage) (uint64, error) {
	f, err := os.OpenFile(l.current(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { f.Close() }()
	end, seq, err := l.heal(f)
	if err != nil || len(entries) == 0 {
		return seq, err
	}
	lines, last, err := encodeLines(seq, entries)
	if err != nil {
		return 0, err
	}
	if end > 0 && end+int64(len(lines)) > l.maxSize {
		next, err := l.rotate()
		if err != nil {
			return 0, err
		}
		f.Close()
		f, end = next, 0
	}
	_, err = f.WriteAt(lines, end)
	if err == nil {
		err = l.sync(f)
	}
	if err == nil && end == 0 {
		err = (OS{}).SyncDir(l.dir) // the name is new
	}
	if err != nil {
		return 0, errors.Join(err, f.Truncate(end))
	}
	return last, nil
}

// heal cuts off what a crashed writer left behind the last good line of f and
// returns where that line ends and the last number of the log.
func (l *Log) heal(f *os.File) (end int64, seq uint64, err error) {
	size, err := fileSize(f)
	if err != nil {
		return 0, 0, err
	}
	end, seq, err = lastLine(f, size)
	if err != nil {
		return 0, 0, err
	}
	if end < size {
		if err := f.Truncate(end); err != nil {
			return 0, 0, err
		}
	}
	if end > 0 {
		return end, seq, nil
	}
	older, err := os.Open(l.older())
	if errors.Is(err, fs.ErrNotExist) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	defer older.Close()
	if size, err = fileSize(older); err != nil {
		return 0, 0, err
	}
	_, seq, err = lastLine(older, size)
	return 0, seq, err
}

// rotate makes the newest part the older one and returns a new, empty newest.
func (l *Log) rotate() (*os.File, error) {
	if err := os.Rename(l.current(), l.older()); err != nil {
		return nil, err
	}
	return os.OpenFile(l.current(), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}

// encodeLines returns the lines for the entries that follow seq.
func encodeLines(seq uint64, entries []json.RawMessage) (lines []byte, last uint64, err error) {
	for _, data := range entries {
		seq++
		line, err := json.Marshal(Entry{Seq: seq, Data: data})
		if err != nil {
			return nil, 0, err
		}
		lines = append(append(lines, line...), '\n')
	}
	return lines, seq, nil
}

// Read walks the events numbered above after that are in the log when it is
// called, in order. The first may be higher than after+1 when older parts were
// dropped. A line that cannot be read is yielded as an error and skipped; an
// error with which nothing more can be read ends the walk.
func (l *Log) Read(ctx context.Context, after uint64) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		parts, err := l.open(ctx)
		if err != nil {
			yield(Entry{}, err)
			return
		}
		defer closeParts(parts)
		for _, p := range parts {
			if after > 0 && p.last <= after {
				continue
			}
			for e, err := range p.entries(newer(after)) {
				if err == nil && e.Seq <= after {
					continue
				}
				if !yield(e, err) {
					return
				}
			}
		}
	}
}

// Last returns the number of the last event, 0 if there is none. It reads the end of the
// log only.
func (l *Log) Last(ctx context.Context) (seq uint64, err error) {
	parts, err := l.open(ctx)
	if err != nil {
		return 0, err
	}
	defer closeParts(parts)
	for _, p := range parts {
		seq = max(seq, p.last)
	}
	return seq, nil
}

// Search calls fn for the oldest event of the log, and for each one whose line has the
// text. The others are not decoded, which makes it some ten times faster than Read. A line
// that cannot be read is left out.
func (l *Log) Search(ctx context.Context, text string, fn func(Entry)) error {
	parts, err := l.open(ctx)
	if err != nil {
		return err
	}
	defer closeParts(parts)
	oldest := true
	want := func(line []byte) bool { return oldest || bytes.Contains(line, []byte(text)) }
	for _, p := range parts {
		for e, err := range p.entries(want) {
			if err == nil {
				fn(e)
				oldest = false
			}
		}
	}
	return nil
}

// Place is a position in the log, up to which it was read. The zero value is its beginning.
type Place struct {
	inode uint64 // of the newest part
	end   int64  // of what was read of it
	seq   uint64 // of the last event
}

// ReadOn calls fn for the events after a place and returns the next place. If the place is no
// longer in the newest part, it calls restart, and then fn for all events. A line that
// cannot be read is left out.
func (l *Log) ReadOn(ctx context.Context, from Place, restart func(), fn func(Entry)) (Place, error) {
	parts, err := l.open(ctx)
	if err != nil {
		return Place{}, err
	}
	defer closeParts(parts)
	to := Place{}
	if n := len(parts); n > 0 {
		var st unix.Stat_t
		if err := unix.Fstat(int(parts[n-1].f.Fd()), &st); err != nil {
			return Place{}, fmt.Errorf("read event log: %w", err)
		}
		to.inode, to.end = st.Ino, parts[n-1].end
		if from.seq > 0 && from.inode == to.inode && from.end <= to.end {
			to.seq = from.seq
			if readNext(part{f: parts[n-1].f, from: from.end, end: to.end}, &to.seq, fn) {
				return to, nil
			}
		}
	}
	to.seq = 0
	restart()
	for _, p := range parts {
		for e, err := range p.entries(nil) {
			if err == nil {
				fn(e)
				to.seq = e.Seq
			}
		}
	}
	return to, nil
}

// readNext reads a part that must continue after seq without a gap, and reports whether it
// did: else it is not the file that it was.
func readNext(p part, seq *uint64, fn func(Entry)) bool {
	for e, err := range p.entries(nil) {
		if err != nil || e.Seq != *seq+1 {
			return false
		}
		fn(e)
		*seq = e.Seq
	}
	return true
}

// part is one file of the log, opened. What lies in [from, end) is whole lines
// and never changes again, so it is read without the lock.
type part struct {
	f         *os.File
	from, end int64
	last      uint64 // the number of its last event
}

// open opens both parts, the older first, under the lock, so that no rotation
// falls between them.
func (l *Log) open(ctx context.Context) (parts []part, err error) {
	unlock, err := l.lock(ctx, unix.LOCK_SH)
	if err != nil {
		return nil, err
	}
	defer unlock()
	for _, name := range []string{l.older(), l.current()} {
		f, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			parts = append(parts, part{f: f})
			p := &parts[len(parts)-1]
			p.end, p.last, err = wholeLines(f)
		}
		if err != nil {
			closeParts(parts)
			return nil, fmt.Errorf("read event log: %w", err)
		}
	}
	return parts, nil
}

func closeParts(parts []part) {
	for _, p := range parts {
		p.f.Close()
	}
}

// newer wants the lines of events above after, and those of which it cannot tell.
func newer(after uint64) func(line []byte) bool {
	return func(line []byte) bool {
		rest, ok := bytes.CutPrefix(line, []byte(`{"seq":`)) // as encodeLines writes it
		digits, _, found := bytes.Cut(rest, []byte{','})
		seq, err := strconv.ParseUint(string(digits), 10, 64)
		return !ok || !found || err != nil || seq > after
	}
}

// entries walks the lines of the part that are wanted; all of them if want is nil.
func (p part) entries(want func(line []byte) bool) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		r := bufio.NewReaderSize(io.NewSectionReader(p.f, p.from, p.end-p.from), 64<<10)
		for at := p.from; ; {
			line, err := r.ReadSlice('\n')
			if errors.Is(err, bufio.ErrBufferFull) {
				long := bytes.Clone(line)
				line, err = r.ReadBytes('\n')
				line = append(long, line...)
			}
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(Entry{}, fmt.Errorf("read event log: %w", err))
				return
			}
			if want != nil && !want(line) {
				at += int64(len(line))
				continue
			}
			e, ok := parseLine(line)
			if !ok {
				err = fmt.Errorf("event log %s has a bad line at byte %d: skipped", filepath.Base(p.f.Name()), at)
			}
			at += int64(len(line))
			if !yield(e, err) {
				return
			}
		}
	}
}

// maxSeq keeps damage from driving the numbers over their end.
const maxSeq = 1 << 62

func parseLine(line []byte) (Entry, bool) {
	var e Entry
	if json.Unmarshal(line, &e) != nil || e.Seq == 0 || e.Seq > maxSeq {
		return Entry{}, false
	}
	return e, true
}

func wholeLines(f *os.File) (end int64, last uint64, err error) {
	size, err := fileSize(f)
	if err != nil {
		return 0, 0, err
	}
	return lastLine(f, size)
}

// lastLine finds the last good line in the first size bytes of r and returns
// where it ends and its number; 0 and 0 when there is none.
func lastLine(r io.ReaderAt, size int64) (end int64, seq uint64, err error) {
	for window := int64(64 << 10); size > 0; window *= 4 {
		from := max(0, size-window)
		buf := make([]byte, size-from)
		if _, err := r.ReadAt(buf, from); err != nil && !errors.Is(err, io.EOF) {
			return 0, 0, err
		}
		if at, seq := lastGood(buf, from == 0); at > 0 {
			return from + int64(at), seq, nil
		}
		if from == 0 {
			break
		}
	}
	return 0, 0, nil
}

// lastGood searches buf backwards for a whole good line. Unless buf is the
// start of the file, its first line may be cut and does not count.
func lastGood(buf []byte, start bool) (end int, seq uint64) {
	for end = bytes.LastIndexByte(buf, '\n') + 1; end > 0; {
		begin := bytes.LastIndexByte(buf[:end-1], '\n') + 1
		if begin == 0 && !start {
			return 0, 0
		}
		if e, ok := parseLine(buf[begin:end]); ok {
			return end, e.Seq
		}
		end = begin
	}
	return 0, 0
}

// lock takes the log's lock; it is held for one append or for opening the files.
func (l *Log) lock(ctx context.Context, how int) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(l.dir, "events.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = waitFlock(ctx, f, how)
	}
	if err != nil {
		return nil, fmt.Errorf("lock event log: %w", classify(err))
	}
	return func() { letGo(f) }, nil
}

func fileSize(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (l *Log) current() string { return filepath.Join(l.dir, "events.jsonl") }
func (l *Log) older() string   { return filepath.Join(l.dir, "events.jsonl.1") }

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
	seen  *os.File // part read last, kept open so that its inode is not reused
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
	if p.last <= f.after {
		return nil
	}
	for e, err := range p.entries(newer(f.after)) {
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
