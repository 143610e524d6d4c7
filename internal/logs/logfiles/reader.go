package logfiles

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/podtask/podtask/internal/logs/logroute"
)

// Reader reads the lines of a container from all its files.
type Reader struct {
	// Damaged counts the lines that could not be read.
	Damaged int64

	files  Files
	joiner *logroute.Joiner
	file   *os.File
	lines  *lineReader
	number int64 // of file
	last   bool  // the file is complete, and was when it was last read to its end
	// replaced: the file was replaced by another one of the same number, without a name for it.
	replaced bool
	ready    []logroute.Entry
}

// Reader returns a reader of what comes from a position on, with lines of at most limit bytes.
// Close it.
func (f Files) Reader(from logroute.Position, limit int) *Reader {
	return &Reader{files: f, joiner: logroute.NewJoiner(from, limit), number: from.First().Segment}
}

// Close closes the file that is being read.
func (r *Reader) Close() {
	if r.file != nil {
		r.file.Close()
		r.file = nil
	}
}

// Next returns the next line. io.EOF means that there is no more for now; it may be called
// again.
func (r *Reader) Next() (logroute.Entry, error) {
	for len(r.ready) == 0 {
		if err := r.read(); err != nil {
			return logroute.Entry{}, err
		}
	}
	e := r.ready[0]
	r.ready = r.ready[1:]
	return e, nil
}

// Rest returns the lines that have no end. The container has ended.
func (r *Reader) Rest() []logroute.Entry { return r.joiner.Flush() }

// Open returns the beginning of the oldest unfinished line, or else the position up to which the files were read.
func (r *Reader) Open() logroute.Mark { return r.joiner.Open() }

// read takes in one line of a file.
func (r *Reader) read() error {
	if r.file == nil {
		if err := r.open(); err != nil || r.file == nil {
			return err
		}
	}
	at := r.lines.at
	line, err := r.lines.next()
	if err == io.EOF {
		return r.advance()
	}
	if err != nil {
		return err
	}
	r.last = false
	p, ok := logroute.ParsePiece(line)
	if !ok {
		r.Damaged++
		r.joiner.Skip(r.number, r.lines.at)
		return nil
	}
	r.ready = r.joiner.Add(p, logroute.Mark{Segment: r.number, Offset: at}, r.lines.at)
	return nil
}

// open opens the file in which the next piece is: the one of the number, or the next that
// there is.
func (r *Reader) open() error {
	all, err := r.files.Segments()
	if errors.Is(err, fs.ErrNotExist) {
		return io.EOF
	}
	if err != nil {
		return err
	}
	for _, s := range all {
		if s.Number < r.number {
			continue
		}
		file, err := os.Open(s.Path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // pruned, or just rotated: the next call finds it under its other name
		}
		if err != nil {
			return err
		}
		if info, err := file.Stat(); err != nil || !os.SameFile(info, s.info) {
			file.Close()
			return err // nil: it was just rotated, look again
		}
		var from int64
		if first := r.joiner.Open(); first.Segment == s.Number {
			from = min(first.Offset, s.Size)
		}
		if _, err := file.Seek(from, io.SeekStart); err != nil {
			file.Close()
			return err
		}
		r.file, r.lines, r.number, r.last = file, newLineReader(file), s.Number, false
		r.lines.at = from
		r.ready = r.joiner.FlushBefore(s.Number - 1)
		return nil
	}
	return io.EOF
}

// advance goes to the next file where conmon does not write this one any more. It must be
// read to its end once more after that is known.
func (r *Reader) advance() error {
	if r.last {
		if r.lines.rest() > 0 {
			r.Damaged++
		}
		r.Close()
		if !r.replaced {
			r.number++
		}
		r.replaced = false
		r.joiner.Skip(r.number, 0)
		return nil
	}
	all, err := r.files.Segments()
	if errors.Is(err, fs.ErrNotExist) {
		return io.EOF
	}
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return io.EOF
	}
	if newest := all[len(all)-1]; newest.Number <= r.number {
		info, err := r.file.Stat()
		if err != nil {
			return err
		}
		if r.replaced = newest.Number == r.number && !os.SameFile(info, newest.info); !r.replaced {
			return io.EOF
		}
	}
	r.last = true
	return nil
}

// End is the position behind all that files have.
func End(f Files) (logroute.Position, error) {
	all, err := f.Segments()
	if err != nil || len(all) == 0 {
		return logroute.Position{}, err
	}
	last := all[len(all)-1]
	end := logroute.Mark{Segment: last.Number, Offset: last.Size}
	return logroute.Position{end, end}, nil
}

// Waiting returns the number of bytes in the files from a position on.
func (f Files) Waiting(from logroute.Position) (bytes int64, err error) {
	all, err := f.Segments()
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	first := from.First()
	for _, s := range all {
		switch {
		case s.Number > first.Segment:
			bytes += s.Size
		case s.Number == first.Segment:
			bytes += max(0, s.Size-first.Offset)
		}
	}
	return bytes, err
}
