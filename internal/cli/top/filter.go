package top

import (
	"strings"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
)

// filter selects lines by a part of their text, ignoring case. It is being entered while typing is set.
type filter struct {
	text   string
	typing bool
}

// edit handles a key while the filter is entered.
func (f *filter) edit(msg tea.KeyPressMsg) {
	switch keyOf(msg) {
	case "enter":
		f.typing = false
	case "esc":
		*f = filter{}
	case "backspace":
		_, n := utf8.DecodeLastRuneInString(f.text)
		f.text = f.text[:len(f.text)-n]
	default:
		f.text += msg.Text
	}
}

// fits reports whether one of the words has the text.
func (f filter) fits(words ...string) bool {
	return strings.Contains(strings.ToLower(strings.Join(words, "\n")), strings.ToLower(f.text))
}
