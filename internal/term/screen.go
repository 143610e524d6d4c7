package term

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// Screen is a writer to a terminal that passes text and the control sequences (CSI) that move the cursor, erase and
// paint. It leaves out all others: those that set titles and modes, write to the clipboard, lock the keyboard, or make
// the terminal answer. Characters that [Line] removes are removed, and what is no UTF-8 becomes U+FFFD. A sequence
// or character that is cut between two calls of Write is held back until it is complete.
//
// Its methods may be called concurrently.
type Screen struct {
	to io.Writer

	mu     sync.Mutex
	state  screenState
	seq    []byte // of the sequence or the character that has begun
	inked  bool   // colors or styles are set
	hidden bool   // the cursor is
}

// NewScreen returns a filter in front of a terminal.
func NewScreen(to io.Writer) *Screen { return &Screen{to: to} }

// Unwrap returns what a screen writes to, and other writers as they are.
func Unwrap(w io.Writer) io.Writer {
	if s, ok := w.(*Screen); ok {
		return s.to
	}
	return w
}

type screenState int

const (
	inText   screenState = iota
	inRune               // some bytes of a character have come
	afterESC             // ESC
	inCSI                // ESC [
	inString             // ESC ] and others, up to ST or BEL
	endOfString
)

const (
	// maxString bounds the text of a string sequence, in bytes. A longer one is left out up to there.
	maxString = 4096
	// maxParameters bounds the parameters of a control sequence, in bytes. A longer one is left out up to there.
	maxParameters = 64
)

// allowedFinals are the last bytes of the control sequences that pass: without bytes that make another function of
// them, and with numbers of at most four digits. h, l and r set modes and margins that stay, T with more parameters
// tracks the mouse.
const allowedFinals = "mKJABCDEFGHdfsuXPLM@S"

// Write implements io.Writer. It reports all of p as written unless the terminal fails.
func (s *Screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
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

// Close writes what undoes colors and shows the cursor, where they are not as they were. It does not close the
// terminal.
func (s *Screen) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := ""
	if s.inked {
		text += "\x1b[0m"
	}
	if s.hidden {
		text += "\x1b[?25h"
	}
	s.inked, s.hidden, s.state, s.seq = false, false, inText, nil
	if text == "" {
		return nil
	}
	_, err := io.WriteString(s.to, text)
	return err
}

func (s *Screen) next(out []byte, c byte) []byte {
	switch s.state {
	case inText:
		return s.text(out, c)
	case inRune:
		s.seq = append(s.seq, c)
		if !utf8.FullRune(s.seq) {
			return out
		}
		r, n := utf8.DecodeRune(s.seq)
		rest := append([]byte(nil), s.seq[n:]...)
		s.state, s.seq = inText, s.seq[:0]
		out = s.character(out, r)
		for _, c := range rest { // the first byte was of no character
			out = s.next(out, c)
		}
	case afterESC:
		s.escape(c)
	case inCSI:
		s.seq = append(s.seq, c)
		switch {
		case c == 0x1b:
			s.state = afterESC
		case c >= 0x40 && c <= 0x7e:
			s.state = inText
			return s.sequence(out)
		case c < 0x20 || c > 0x7e || len(s.seq) > maxParameters:
			s.state = inText
		}
	case inString:
		s.seq = append(s.seq, c)
		switch {
		case c == 0x07 || len(s.seq) > maxString:
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

// escape takes the byte after ESC.
func (s *Screen) escape(c byte) {
	switch {
	case c == '[':
		s.state, s.seq = inCSI, s.seq[:0]
	case strings.IndexByte("]PX^_", c) >= 0:
		s.state, s.seq = inString, s.seq[:0]
	case c == 0x1b:
	case c >= 0x20 && c < 0x30: // another byte of the same sequence follows
	default:
		s.state = inText
	}
}

// sequence passes a complete control sequence, seq, if it is one of the allowed.
func (s *Screen) sequence(out []byte) []byte {
	parameters, final := string(s.seq[:len(s.seq)-1]), s.seq[len(s.seq)-1]
	switch {
	case parameters == "?25" && (final == 'h' || final == 'l'):
		s.hidden = final == 'l'
	case strings.IndexByte(allowedFinals, final) < 0 || !areNumbers(parameters):
		return out
	case final == 'm':
		s.inked = strings.Trim(parameters, "0;") != ""
	}
	return append(append(out, 0x1b, '['), s.seq...)
}

// areNumbers reports whether parameters are numbers of at most four digits, with separators.
func areNumbers(parameters string) bool {
	digits := 0
	for _, c := range []byte(parameters) {
		switch {
		case c == ';' || c == ':':
			digits = 0
		case c < '0' || c > '9':
			return false
		default:
			if digits++; digits > 4 {
				return false
			}
		}
	}
	return true
}

func (s *Screen) text(out []byte, c byte) []byte {
	switch {
	case c == 0x1b:
		s.state = afterESC
	case c >= utf8.RuneSelf:
		s.state, s.seq = inRune, append(s.seq[:0], c)
		if utf8.FullRune(s.seq) { // it is the first byte of none
			s.state = inText
			return s.character(out, utf8.RuneError)
		}
	case c < ' ' && c != '\n' && c != '\r' && c != '\t' && c != '\b', c == 0x7f:
	default:
		out = append(out, c)
	}
	return out
}

// character passes a character that is no ASCII.
func (s *Screen) character(out []byte, r rune) []byte {
	switch {
	case r == 0x9b: // C1 controls, which some terminals take for ESC and a letter
		s.state, s.seq = inCSI, s.seq[:0]
	case r == 0x90, r == 0x98, r == 0x9d, r == 0x9e, r == 0x9f:
		s.state, s.seq = inString, s.seq[:0]
	case r < 0xa0 && r >= 0x80, breaksLine(r), isInvisible(r):
	default:
		return utf8.AppendRune(out, r)
	}
	return out
}

// JSON returns a writer for JSON to w. On a screen, characters that it would remove are written as escapes of JSON,
// so that nothing is lost; elsewhere, w is returned.
func JSON(w io.Writer) io.Writer {
	if s, ok := w.(*Screen); ok {
		return jsonScreen{s}
	}
	return w
}

type jsonScreen struct{ to *Screen }

// Write implements io.Writer. Each call must have whole characters.
func (j jsonScreen) Write(p []byte) (int, error) {
	var b strings.Builder
	for _, r := range string(p) {
		switch {
		case r < utf8.RuneSelf && r != 0x7f || r >= 0xa0 && !breaksLine(r) && !isInvisible(r):
			b.WriteRune(r)
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	if _, err := io.WriteString(j.to, b.String()); err != nil {
		return 0, err
	}
	return len(p), nil
}
