package logroute

import (
	"bytes"
	"time"
)

// Stream is an output of a container.
type Stream int

// The streams of a container.
const (
	Stdout Stream = iota
	Stderr
	streams = 2
)

// String returns stdout or stderr.
func (s Stream) String() string {
	if s == Stderr {
		return "stderr"
	}
	return "stdout"
}

// Piece is one line of a log file: what conmon got with one read, up to the end of a line.
type Piece struct {
	Time   time.Time
	Stream Stream
	// Last: the piece ends a line of the container.
	Last bool
	// Text has no newline. It is part of the bytes that were parsed.
	Text []byte
}

// ParsePiece reads a line of a log file, without its newline: TIME stdout|stderr F|P TEXT
// (conmon, k8s-file). It is false for anything else, such as a line of which the disk had no
// space for the rest.
func ParsePiece(line []byte) (Piece, bool) {
	stamp, rest, found := bytes.Cut(line, []byte(" "))
	if !found || len(stamp) > 40 {
		return Piece{}, false
	}
	var p Piece
	if err := p.Time.UnmarshalText(stamp); err != nil { // without a copy of the stamp
		return Piece{}, false
	}
	stream, rest, found := bytes.Cut(rest, []byte(" "))
	switch {
	case !found:
		return Piece{}, false
	case string(stream) == "stderr":
		p.Stream = Stderr
	case string(stream) != "stdout":
		return Piece{}, false
	}
	if len(rest) < 2 || rest[1] != ' ' || rest[0] != 'F' && rest[0] != 'P' {
		return Piece{}, false
	}
	p.Last, p.Text = rest[0] == 'F', rest[2:]
	return p, true
}

// Append appends the piece as a line of a log file.
func (p Piece) Append(b []byte) []byte {
	b = p.Time.AppendFormat(b, "2006-01-02T15:04:05.000000000-07:00")
	b = append(append(append(b, ' '), p.Stream.String()...), ' ')
	if p.Last {
		b = append(b, 'F')
	} else {
		b = append(b, 'P')
	}
	return append(append(append(b, ' '), p.Text...), '\n')
}
