package sshhost

import (
	"io"
	"strings"
)

// NewScreenWriter returns a writer for output of another host that is to appear on a terminal. It
// passes text, and the control sequences (CSI) that move the cursor, erase and paint. It leaves out all
// others: those that set titles, write to the clipboard, or make the terminal answer.
func NewScreenWriter(w io.Writer) io.Writer { return &screenWriter{to: w} }

type screenWriter struct {
	to    io.Writer
	state screenState
	seq   []byte // of the sequence that has begun
}

type screenState int

const (
	inText   screenState = iota
	afterESC             // ESC
	inCSI                // ESC [
	inString             // ESC ] and others, up to ST or BEL
	endOfString
	afterC2 // the first byte of a C1 control in UTF-8
)

// maxSequence bounds a sequence in bytes. A longer one is left out up to there.
const maxSequence = 4096

// allowedFinals are the last bytes of the control sequences that pass.
const allowedFinals = "mKJABCDEFGHdfhlrsuXPLM@ST"

// Write implements io.Writer.
func (s *screenWriter) Write(p []byte) (int, error) {
	out := make([]byte, 0, len(p))
	for _, c := range p {
		out = s.next(out, c)
	}
	if len(out) > 0 {
		if _, err := s.to.Write(out); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

func (s *screenWriter) next(out []byte, c byte) []byte {
	switch s.state {
	case inText:
		return s.text(out, c)
	case afterC2:
		s.state = inText
		switch {
		case c >= 0x80 && c < 0xa0: // C1
			switch c {
			case 0x9b:
				s.state, s.seq = inCSI, append(s.seq[:0], 0x1b, '[')
			case 0x90, 0x98, 0x9d, 0x9e, 0x9f:
				s.state, s.seq = inString, s.seq[:0]
			}
			return out
		case c >= 0xa0 && c < 0xc0:
			return append(out, 0xc2, c)
		}
		return s.text(out, c) // the first byte was no character
	case afterESC:
		switch {
		case c == '[':
			s.state, s.seq = inCSI, append(s.seq[:0], 0x1b, '[')
		case strings.IndexByte("]PX^_", c) >= 0:
			s.state, s.seq = inString, s.seq[:0]
		case c == 0x1b:
		case c >= 0x20 && c < 0x30: // another byte of the same sequence follows
		default:
			s.state = inText
		}
	case inCSI:
		s.seq = append(s.seq, c)
		switch {
		case c == 0x1b:
			s.state = afterESC
		case c >= 0x40 && c <= 0x7e:
			s.state = inText
			if strings.IndexByte(allowedFinals, c) >= 0 && !asks(s.seq) {
				out = append(out, s.seq...)
			}
		case c < 0x20 || c > 0x7e || len(s.seq) > maxSequence:
			s.state = inText
		}
	case inString:
		s.seq = append(s.seq, c)
		switch {
		case c == 0x07 || len(s.seq) > maxSequence:
			s.state = inText
		case c == 0x1b:
			s.state = endOfString
		}
	case endOfString:
		s.state = inText
		if c != '\\' {
			s.state = afterESC
			return s.next(out, c)
		}
	}
	return out
}

// asks reports whether the terminal would answer a sequence: CSI ? u does, CSI u does not.
func asks(seq []byte) bool { return seq[len(seq)-1] == 'u' && len(seq) > 3 && seq[2] == '?' }

func (s *screenWriter) text(out []byte, c byte) []byte {
	switch {
	case c == 0x1b:
		s.state = afterESC
	case c == 0xc2:
		s.state = afterC2
	case c < 0x20 && c != '\n' && c != '\r' && c != '\t' && c != '\b', c == 0x7f:
	default:
		out = append(out, c)
	}
	return out
}
