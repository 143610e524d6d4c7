package logroute

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 35564886, time.UTC)

// wrote is one read of conmon: what a container wrote to a stream.
type wrote struct {
	stream Stream
	text   string
}

// pieces are the lines that conmon writes for a read.
func (w wrote) pieces() (all []Piece) {
	for text := w.text; text != ""; {
		line, rest, ended := strings.Cut(text, "\n")
		all = append(all, Piece{Time: noon, Stream: w.stream, Last: ended, Text: []byte(line)})
		text = rest
	}
	return all
}

// placed is a line of a log file.
type placed struct {
	line []byte
	at   Mark
	next int64
}

// file is what conmon writes, in segments of at most segment bytes.
func file(reads []wrote, segment int64) (lines []placed) {
	at := Mark{Segment: 1}
	for _, w := range reads {
		for _, p := range w.pieces() {
			line := p.Append(nil)
			next := at.Offset + int64(len(line))
			lines = append(lines, placed{line[:len(line)-1], at, next})
			if at.Offset = next; next >= segment {
				at = Mark{Segment: at.Segment + 1}
			}
		}
	}
	return lines
}

// read joins what comes from a position on.
func read(t *testing.T, lines []placed, from Position, limit int) (all []Entry) {
	t.Helper()
	j := NewJoiner(from, limit)
	for _, l := range lines {
		if l.at.Compare(Mark{Segment: from.First().Segment, Offset: from.First().Offset}) < 0 {
			continue
		}
		p, ok := ParsePiece(l.line)
		if !ok {
			t.Fatalf("%q is no piece", l.line)
		}
		all = append(all, j.Add(p, l.at, l.next)...)
	}
	return append(all, j.Flush()...)
}

// text is what the entries of a stream say.
func text(entries []Entry, s Stream) string {
	var b strings.Builder
	for _, e := range entries {
		if e.Stream == s {
			b.WriteString(e.Text)
			if !e.More {
				b.WriteByte('\n')
			}
		}
	}
	return b.String()
}

func wanted(reads []wrote, s Stream) string {
	var b strings.Builder
	for _, w := range reads {
		if w.stream == s {
			b.WriteString(w.text)
		}
	}
	if got := b.String(); got != "" && !strings.HasSuffix(got, "\n") {
		return got + "\n"
	}
	return b.String()
}

func TestStreamsAreJoinedEachForItself(t *testing.T) {
	t.Parallel()
	lines := file([]wrote{{Stdout, "one\ntw"}, {Stderr, "er"}, {Stdout, "o\n\nth"}, {Stderr, "ror\n"}, {Stdout, "ree"}}, 1<<20)
	var got []string
	for _, e := range read(t, lines, Position{}, 100) {
		got = append(got, e.Stream.String()+":"+e.Text)
		if !e.Time.Equal(noon) {
			t.Errorf("%q has the time %s", e.Text, e.Time)
		}
	}
	if s := strings.Join(got, " "); s != "stdout:one stdout:two stdout: stderr:error stdout:three" {
		t.Errorf("got %s", s)
	}
}

func TestALongLineIsCutBetweenCharacters(t *testing.T) {
	t.Parallel()
	line := strings.Repeat("äöü€", 20)
	entries := read(t, file([]wrote{{Stdout, line[:33]}, {Stdout, line[33:] + "\nx\n"}}, 1<<20), Position{}, 10)
	for _, e := range entries {
		if len(e.Text) > 10 || !utf8.ValidString(e.Text) {
			t.Errorf("a part is %q", e.Text)
		}
	}
	if got := text(entries, Stdout); got != line+"\nx\n" {
		t.Errorf("got %q", got)
	}
}

func TestWhatIsNoPieceIsNotParsed(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"", "x", "2026-01-02T12:00:00Z", "2026-01-02T12:00:00Z stdout", "2026-01-02T12:00:00Z stdout F", "2026-01-02T12:00:00Z stdin F x",
		"2026-01-02T12:00:00Z stdout X x", "2026-01-02T12:00:00Z stdout FF x", "yesterday stdout F x", "2026-01-02T12:00:00Z  stdout F x",
		strings.Repeat("2", 50) + " stdout F x",
	} {
		if p, ok := ParsePiece([]byte(line)); ok {
			t.Errorf("%q is %+v", line, p)
		}
	}
	p, ok := ParsePiece([]byte("2026-11-22T05:31:51.035564886+01:00 stderr P a b "))
	if !ok || p.Stream != Stderr || p.Last || string(p.Text) != "a b " || p.Time.UTC().Format(time.RFC3339Nano) != "2026-11-22T04:31:51.035564886Z" {
		t.Errorf("got %+v", p)
	}
}

// FuzzReaderGoesOnWhereItStopped writes as conmon does and replaces the reader after any
// line: nothing is left out and nothing comes twice.
func FuzzReaderGoesOnWhereItStopped(f *testing.F) {
	f.Add([]byte("one\ntwo\n\x01err\x01or\n\x01three"), uint32(7|12<<8|90<<16), uint8(1))
	f.Add([]byte("a\n\x01b\x01c\x01d\n\x01e\n"), uint32(1|4<<8|1<<16), uint8(2))
	f.Add([]byte("äöü€äöü€äöü€\x01\n\n\n\x01äöü€\xff\xfe\xe2\x82"), uint32(5|6<<8|200<<16), uint8(3))
	f.Fuzz(func(t *testing.T, data []byte, sizes uint32, stop uint8) {
		most, limit, segment := uint8(sizes), uint8(sizes>>8), uint16(sizes>>16)
		if len(data) > 1000 {
			return // it takes time squared
		}
		var reads []wrote
		for i, part := range bytes.Split(data, []byte{1}) {
			for len(part) > 0 {
				n := min(len(part), max(1, int(most)))
				reads = append(reads, wrote{Stream(i % 2), string(part[:n])})
				part = part[n:]
			}
		}
		lines := file(reads, int64(segment))
		all := read(t, lines, Position{}, int(limit))
		for s := range Stream(streams) {
			if got, want := text(all, s), wanted(reads, s); got != want {
				t.Fatalf("%s is %q, want %q", s, got, want)
			}
		}
		var got []Entry
		for from := (Position{}); ; {
			rest := read(t, lines, from, int(limit))
			n := min(len(rest), 1+int(stop))
			got = append(got, rest[:n]...)
			if n == len(rest) {
				break
			}
			from = rest[n-1].Next
		}
		for s := range Stream(streams) {
			if text(got, s) != text(all, s) {
				t.Fatalf("with pauses, %s is %q, want %q", s, text(got, s), text(all, s))
			}
		}
	})
}

func FuzzParsePiece(f *testing.F) {
	f.Add([]byte("2026-11-22T05:31:51.035564886+00:00 stdout F text"))
	f.Fuzz(func(t *testing.T, line []byte) {
		p, ok := ParsePiece(line)
		if !ok || bytes.ContainsRune(line, '\n') {
			return
		}
		again, ok := ParsePiece(bytes.TrimSuffix(p.Append(nil), []byte("\n")))
		if y := p.Time.Year(); y < 0 || y > 9999 {
			return
		}
		if !ok || !again.Time.Equal(p.Time) || again.Stream != p.Stream || again.Last != p.Last || !bytes.Equal(again.Text, p.Text) {
			t.Errorf("%q is %+v, written and read again %+v", line, p, again)
		}
	})
}

func BenchmarkJoiner(b *testing.B) {
	line := Piece{Time: noon, Last: true, Text: bytes.Repeat([]byte("x"), 100)}.Append(nil)
	line = line[:len(line)-1]
	j := NewJoiner(Position{}, 256<<10)
	b.SetBytes(int64(len(line)))
	for at := int64(0); b.Loop(); at += int64(len(line)) {
		p, _ := ParsePiece(line)
		j.Add(p, Mark{Segment: 1, Offset: at}, at+int64(len(line)))
	}
}

// TestALineWithoutAnEndIsKnown: termination messages and kubectl logs have what the container wrote.
func TestALineWithoutAnEndIsKnown(t *testing.T) {
	t.Parallel()
	j := NewJoiner(Position{}, 100)
	for i, l := range []struct {
		line    string
		unended bool
	}{{"2026-01-02T03:04:05Z stdout F whole", false}, {"2026-01-02T03:04:05Z stdout P DONE", true}} {
		p, ok := ParsePiece([]byte(l.line))
		if !ok {
			t.Fatal(l.line)
		}
		entries := append(slices.Clone(j.Add(p, Mark{Segment: 1, Offset: int64(i * 100)}, int64(i*100+100))), j.Flush()...)
		if len(entries) != 1 || entries[0].Unended != l.unended {
			t.Errorf("%s: %+v", l.line, entries)
		}
	}
}
