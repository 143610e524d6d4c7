package logfiles

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/logs/logroute"
)

// Dir is the directory of all log files, with a directory for each task.
type Dir string

// In returns the directory of log files in a state directory.
func In(stateDir string) Dir { return Dir(filepath.Join(stateDir, "logs")) }

// Task returns the directory of a task.
func (d Dir) Task(id string) string { return filepath.Join(string(d), id) }

// Of returns the files of container i of a task.
func (d Dir) Of(id string, i int) Files {
	return Files{dir: d.Task(id), name: strconv.Itoa(i) + ".log"}
}

// Remove removes the files of a task.
func (d Dir) Remove(id string) error { return os.RemoveAll(d.Task(id)) }

// Files are the log files of one container. One process at a time may call Rotate, Prune and
// Save; any may read.
type Files struct{ dir, name string }

// At returns the log file of a container at a path that podtask did not choose. Conmon replaces it at
// its limit.
func At(path string) Files { return Files{filepath.Dir(path), filepath.Base(path)} }

// Path is the file that conmon writes.
func (f Files) Path() string { return filepath.Join(f.dir, f.name) }

// Place makes an empty file for conmon to write, unless there is one.
func (f Files) Place() error {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return fmt.Errorf("log file: %w", err)
	}
	file, err := os.OpenFile(f.Path(), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("log file: %w", err)
	}
	return file.Close()
}

// Placed reports whether the container has files here. One that an earlier podtask created
// has none.
func (f Files) Placed() bool {
	_, err := os.Lstat(f.Path())
	return err == nil
}

// Segment is one file of a container's log.
type Segment struct {
	// Number counts from 1, from the oldest that there ever was.
	Number int64
	Path   string
	Size   int64
	// Complete: conmon does not write it any more.
	Complete bool

	info fs.FileInfo
}

// Segments returns the files that there are, from the oldest. The last one is what conmon
// writes, unless it is just making a new one.
func (f Files) Segments() ([]Segment, error) {
	for {
		before, err := os.Stat(f.Path())
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		all, err := f.list()
		if err != nil {
			return nil, err
		}
		current, err := os.Stat(f.Path())
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return all, nil
		case err != nil:
			return nil, err
		case before == nil || !os.SameFile(before, current):
			continue // it was rotated between
		}
		return f.withCurrent(all, current), nil
	}
}

// list returns the files that have a number.
func (f Files) list() (all []Segment, err error) {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		digits, found := strings.CutPrefix(e.Name(), f.name+".")
		n, err := strconv.ParseInt(digits, 10, 64)
		if !found || err != nil || n < 1 {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // pruned
		}
		if err != nil {
			return nil, err
		}
		all = append(all, Segment{Number: n, Path: filepath.Join(f.dir, e.Name()), Size: info.Size(), Complete: true, info: info})
	}
	slices.SortFunc(all, func(a, b Segment) int { return cmp.Compare(a.Number, b.Number) })
	return all, nil
}

// withCurrent adds the file that conmon writes to those that have a number, of which the last
// may be the same.
func (f Files) withCurrent(all []Segment, current fs.FileInfo) []Segment {
	next := int64(1)
	if last := len(all) - 1; last >= 0 {
		if os.SameFile(current, all[last].info) {
			all[last].Complete, all[last].Size = false, current.Size()
			return all
		}
		next = all[last].Number + 1
	} else if r, err := f.Load(); err == nil {
		next = max(1, r.Position.First().Segment)
	}
	return append(all, Segment{Number: next, Path: f.Path(), Size: current.Size(), info: current})
}

// segment is the path of a complete segment.
func (f Files) segment(n int64) string { return f.Path() + "." + strconv.FormatInt(n, 10) }

// Rotate begins or continues a rotation once the file that conmon writes has at least limit
// bytes. It tells conmon by reopen to leave the file of the segment and open another one, which
// may be repeated. Pending is true until conmon has done so.
func (f Files) Rotate(limit int64, reopen func(segment int64) error) (pending bool, err error) {
	all, err := f.Segments()
	if err != nil || len(all) == 0 {
		return false, err
	}
	last := all[len(all)-1]
	switch {
	case last.Complete:
		return false, nil // the file is just being made
	case last.Path != f.Path():
		return true, reopen(last.Number) // it was linked before
	case last.Size < limit:
		return false, nil
	}
	if err := os.Link(f.Path(), f.segment(last.Number)); err != nil {
		return false, fmt.Errorf("rotate log: %w", err)
	}
	return true, reopen(last.Number)
}

// Prune removes the oldest complete segments, but never the newest one, while all that is kept
// has more than most bytes (0: no limit) and may holds for the segment.
func (f Files) Prune(most int64, may func(Segment) bool) (removed []Segment, err error) {
	all, err := f.Segments()
	if err != nil || most <= 0 {
		return nil, err
	}
	var total int64
	for _, s := range all {
		total += s.Size
	}
	for i, s := range all {
		if total <= most || i+2 >= len(all) || !s.Complete || !may(s) {
			break
		}
		if err := os.Remove(s.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return removed, err
		}
		total -= s.Size
		removed = append(removed, s)
	}
	return removed, nil
}

// Seal ends the lines that a run of the container has left unfinished, so that the output of
// the next run does not continue them. The container must not run. It may be repeated.
func (f Files) Seal(now time.Time) error {
	all, err := f.Segments()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || len(all) == 0 {
		return err
	}
	var last [2]*bool // by stream: whether its last piece ended a line
	torn := false
	for i := len(all) - 1; i >= 0 && i >= len(all)-2 && (last[0] == nil || last[1] == nil); i-- {
		ends, cut, err := lastPieces(all[i].Path)
		if err != nil {
			return fmt.Errorf("end of the log: %w", err)
		}
		torn = torn || cut && i == len(all)-1
		for s := range last {
			if last[s] == nil {
				last[s] = ends[s]
			}
		}
	}
	var add []byte
	if torn {
		add = append(add, '\n')
	}
	for s, ended := range last {
		if ended != nil && !*ended {
			add = logroute.Piece{Time: now, Stream: logroute.Stream(s), Last: true}.Append(add)
		}
	}
	if len(add) == 0 {
		return nil
	}
	file, err := os.OpenFile(f.Path(), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return fmt.Errorf("end of the log: %w", err)
	}
	_, err = file.Write(add)
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("end of the log: %w", err)
	}
	return nil
}

// lastPieces reports for each stream whether its last piece in a file ended a line, and
// whether the last line of the file is torn.
func lastPieces(path string) (ended [2]*bool, torn bool, err error) {
	file, err := os.Open(path)
	if err != nil {
		return ended, false, err
	}
	defer file.Close()
	lines := newLineReader(file)
	yes, no := true, false
	for {
		line, err := lines.next()
		if p, ok := logroute.ParsePiece(line); ok && err == nil {
			ended[p.Stream] = &no
			if p.Last {
				ended[p.Stream] = &yes
			}
		}
		if err == io.EOF {
			return ended, lines.rest() > 0, nil
		}
		if err != nil {
			return ended, false, err
		}
	}
}

// lineReader reads lines with a bounded buffer.
type lineReader struct {
	from  io.Reader
	buf   []byte
	begin int   // of what was not returned, in buf
	at    int64 // offset in the file of begin
	long  bool  // a line without an end is being left out
}

// longest is the most bytes that a line of a log file may have. conmon reads 8 KiB at once.
const longest = 64 << 10

func newLineReader(from io.Reader) *lineReader {
	return &lineReader{from: from, buf: make([]byte, 0, longest)}
}

// next returns a line without its newline; nil for one that is too long. The line is valid
// until the next call. io.EOF means that there is no whole line yet: one may come later.
func (r *lineReader) next() ([]byte, error) {
	for searched := r.begin; ; {
		if i := bytes.IndexByte(r.buf[searched:], '\n'); i >= 0 {
			line := r.buf[r.begin : searched+i]
			r.at += int64(len(line)) + 1
			r.begin = searched + i + 1
			if r.long {
				r.long, line = false, nil
			}
			return line, nil
		}
		n := copy(r.buf[:cap(r.buf)], r.buf[r.begin:])
		r.buf, r.begin = r.buf[:n], 0
		if n == cap(r.buf) {
			r.at, r.buf, r.long, n = r.at+int64(n), r.buf[:0], true, 0
		}
		searched = n
		read, err := r.from.Read(r.buf[n:cap(r.buf)])
		r.buf = r.buf[:n+read]
		if read == 0 && err != nil {
			return nil, err
		}
	}
}

// rest returns the length of an unfinished line, in bytes.
func (r *lineReader) rest() int {
	if r.long {
		return longest
	}
	return len(r.buf) - r.begin
}
