package term_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/podtask/podtask/internal/term"
)

func TestLine(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain":                       "plain",
		" a\tb ":                      "a b",
		"a\nb\r\x1b[31mc\x07":         "a b  [31mc",
		"csi \u009b31m":               "csi  31m",
		"user\u202egpj.exe":           "usergpj.exe",
		"\u2066a\u2069b\u200b\ufeffc": "abc",
		"soft\u00adhyphen":            "softhyphen",
		"line\u2028paragraph\u2029":   "line paragraph",
		"bad \xff\xfe utf8":           "bad \ufffd utf8",
		"tag\U000e0041":               "tag",
		"filler\u3164\u115f":          "filler",
		"v\ufe0f":                     "v",
		"größe 東京 мир שלום":           "größe 東京 мир שלום",
		"e\u0301":                     "e\u0301",
	} {
		if got := term.Line(in); got != want {
			t.Errorf("Line(%q) is %q, want %q", in, got, want)
		}
	}
}

func FuzzTerm(f *testing.F) {
	for _, s := range []string{"a", "\x1b]0;x\x07", "\u202e\u2066\u200b\ufeff", "\xff\x9b", "a\r\nb", "\u2028\u3164\U000e0020"} {
		f.Add(s)
	}
	hidden := func(r rune) bool {
		return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
	}
	f.Fuzz(func(t *testing.T, s string) {
		line := term.Line(s)
		if strings.ContainsFunc(line, hidden) || !utf8.ValidString(line) || strings.TrimSpace(line) != line {
			t.Errorf("Line(%q) is %q", s, line)
		}
		if term.Line(line) != line {
			t.Errorf("%q: a second pass changes the result", s)
		}
	})
}
