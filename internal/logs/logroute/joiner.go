package logroute

import (
	"cmp"
	"time"
	"unicode/utf8"
)

// Mark is a place in the log files of a container: the start of a piece.
type Mark struct {
	// Segment is the number of the file, from 1; Offset is in bytes.
	Segment int64 `json:"segment"`
	Offset  int64 `json:"offset"`
	// Skip counts the bytes of the piece's text that were passed on already.
	Skip int `json:"skip,omitempty"`
}

// Compare orders marks as the files are written.
func (m Mark) Compare(other Mark) int {
	return cmp.Or(cmp.Compare(m.Segment, other.Segment), cmp.Compare(m.Offset, other.Offset), cmp.Compare(m.Skip, other.Skip))
}

// Position is, for each stream, the first byte that was not passed on. The streams differ
// while a line of one is open: its pieces stand between those of the other.
type Position [streams]Mark

// First returns the mark at which a reader has to begin.
func (p Position) First() Mark {
	if p[Stderr].Compare(p[Stdout]) < 0 {
		return p[Stderr]
	}
	return p[Stdout]
}

// Entry is a line of a container, or a part of a long one.
type Entry struct {
	// Time is the time of the first piece.
	Time   time.Time
	Stream Stream
	// Text has no newline.
	Text string
	// Unended: the container ended without a newline after the text.
	Unended bool
	// More: the next entry of the stream has more of the line.
	More bool
	// Next is the position to continue at once this entry and all before it have been passed on.
	Next Position
}

// Joiner joins pieces to lines. It keeps at most one unfinished line per stream.
type Joiner struct {
	limit int
	from  Position
	open  [streams]openLine
	here  Mark // behind the last piece
	added []Entry
}

// openLine is a line whose end was not read yet.
type openLine struct {
	begun bool
	time  time.Time
	text  []byte
	start Mark
}

// NewJoiner returns a joiner that leaves out what is before from, and cuts lines that are
// longer than limit bytes, not inside a character.
func NewJoiner(from Position, limit int) *Joiner {
	return &Joiner{limit: max(limit, utf8.UTFMax), from: from, here: from.First()}
}

// Add takes in a piece that begins at a mark and ends before the offset next, and returns the
// lines that it ends. They are valid until the next call.
func (j *Joiner) Add(p Piece, at Mark, next int64) []Entry {
	j.added = j.added[:0]
	j.here = Mark{Segment: at.Segment, Offset: next}
	done := j.from[p.Stream]
	begin := Mark{Segment: at.Segment, Offset: at.Offset}
	line := &j.open[p.Stream]
	switch same := (Mark{Segment: done.Segment, Offset: done.Offset}); {
	case begin.Compare(same) < 0:
		return nil
	case begin == same:
		begin.Skip = min(done.Skip, len(p.Text))
	}
	text := p.Text[begin.Skip:]
	if !line.begun {
		line.begun, line.time, line.start = true, p.Time, begin
	}
	for len(line.text)+len(text) > j.limit {
		n := j.limit - len(line.text)
		line.text = append(line.text, text[:n]...)
		keep := wholeRunes(line.text)
		back := len(line.text) - keep
		if back > n { // the character began in an earlier piece; there is no mark inside it
			back = 0
		}
		line.text, n = line.text[:len(line.text)-back], n-back
		begin.Skip, text = begin.Skip+n, text[n:]
		j.added = append(j.added, j.cut(p.Stream, begin, true))
		line.begun, line.time, line.start = true, p.Time, begin
	}
	line.text = append(line.text, text...)
	if p.Last {
		j.added = append(j.added, j.cut(p.Stream, j.here, false))
	}
	return j.added
}

// Flush returns what is open as lines: no more pieces of it will come.
func (j *Joiner) Flush() (entries []Entry) {
	for s := range j.open {
		if j.open[s].begun {
			e := j.cut(Stream(s), j.here, false)
			e.Unended = true
			entries = append(entries, e)
		}
	}
	return entries
}

// FlushBefore is Flush for lines that were begun before a segment, and may have more.
func (j *Joiner) FlushBefore(segment int64) (entries []Entry) {
	for s := range j.open {
		if j.open[s].begun && j.open[s].start.Segment < segment {
			entries = append(entries, j.cut(Stream(s), j.here, true))
		}
	}
	return entries
}

// Skip notes that the bytes of a segment before an offset contain no piece.
func (j *Joiner) Skip(segment, offset int64) { j.here = Mark{Segment: segment, Offset: offset} }

// Open returns where the oldest unfinished line begins, else the place that was reached.
func (j *Joiner) Open() Mark {
	oldest := j.here
	for _, line := range j.open {
		if line.begun && line.start.Compare(oldest) < 0 {
			oldest = line.start
		}
	}
	return oldest
}

// cut ends an entry; what comes next of its stream begins at end.
func (j *Joiner) cut(s Stream, end Mark, more bool) Entry {
	line := &j.open[s]
	e := Entry{Time: line.time, Stream: s, Text: string(line.text), More: more}
	*line = openLine{text: line.text[:0]}
	if cap(line.text) > j.limit/2 {
		line.text = nil
	}
	for other := range e.Next {
		switch {
		case Stream(other) == s:
			e.Next[other] = end
		case j.open[other].begun:
			e.Next[other] = j.open[other].start
		default:
			e.Next[other] = later(j.here, j.from[other])
		}
	}
	return e
}

func later(a, b Mark) Mark {
	if a.Compare(b) < 0 {
		return b
	}
	return a
}

// wholeRunes returns the length of a text without a character that is cut at its end, in bytes.
func wholeRunes(text []byte) int {
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		i := len(text) - back
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRune(text[i:]) {
				return i
			}
			break
		}
	}
	return len(text)
}
