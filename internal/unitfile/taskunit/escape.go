package taskunit

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Escape returns text as the value of an assignment that systemd reads back as text: it
// doubles the % of specifiers. It fails where CheckValue does. Text that its author did
// not write as part of a unit, such as a path or a value of another format, must pass
// through it.
func Escape(text string) (string, error) {
	if err := CheckValue(text); err != nil {
		return "", err
	}
	return noSpecifiers(text), nil
}

// CheckValue returns an error if text cannot be the value of an assignment. systemd ends
// a line at a line feed, a carriage return and a NUL byte, continues it after a backslash
// at its end, and drops blanks around the value (config_parse in systemd 257).
func CheckValue(text string) error {
	switch {
	case !utf8.ValidString(text):
		return errors.New("the value is not valid UTF-8")
	case strings.ContainsFunc(text, isControl):
		return fmt.Errorf("the value %q has a control character", text)
	case strings.HasSuffix(text, `\`):
		return fmt.Errorf("the value %q ends with a backslash, which would join the next line to it", text)
	case strings.TrimSpace(text) != text:
		return fmt.Errorf("the value %q begins or ends with white space", text)
	}
	return nil
}

// isControl reports characters that end a line for systemd or for a reader, and those
// that hide or reorder text. A tab is an ordinary blank.
func isControl(r rune) bool {
	return r != '\t' && unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || r == '\ufeff'
}

// noSpecifiers keeps systemd from expanding specifiers.
func noSpecifiers(s string) string { return strings.ReplaceAll(s, "%", "%%") }
