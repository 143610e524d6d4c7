package term

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line returns s as one line without blanks around it: control characters become blanks,
// invalid UTF-8 becomes U+FFFD, and characters are removed that have no width or that
// change the direction or order of the text around them.
func Line(s string) string {
	if isPlain(s) {
		return strings.TrimSpace(s)
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case breaksLine(r) || unicode.IsControl(r):
			return ' '
		case isInvisible(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd")))
}

// Lines is [Line] for each line of s: line breaks stay.
func Lines(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		indent := l[:len(l)-len(strings.TrimLeft(l, " "))]
		lines[i] = strings.TrimRight(indent+Line(l), " ")
	}
	return strings.Join(lines, "\n")
}

// isPlain reports whether s has printable ASCII characters only.
func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// breaksLine reports the line and the paragraph separator, which some terminals and
// browsers treat as the end of a line.
func breaksLine(r rune) bool { return r == '\u2028' || r == '\u2029' }

// isInvisible reports characters that are not shown: those of category Cf (format), which
// contains the bidirectional controls (U+202A to U+202E, U+2066 to U+2069), the
// zero-width characters (U+200B to U+200F, U+2060, U+FEFF) and tags (U+E0000), and others
// without a glyph of their own: fillers, variation selectors and the combining grapheme
// joiner. Private use and unassigned code points stay: their width is that of a glyph.
func isInvisible(r rune) bool {
	if r < utf8.RuneSelf {
		return false
	}
	return unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Variation_Selector, r) || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)
}
