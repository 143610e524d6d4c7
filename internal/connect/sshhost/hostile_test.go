package sshhost

import (
	"bytes"
	"strings"
	"testing"
)

func TestOnlyHarmlessSequencesReachTheScreen(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain\ttext\r\n":                            "plain\ttext\r\n",
		"\x1b[31mred\x1b[0m":                         "\x1b[31mred\x1b[0m",
		"\x1b[2K\x1b[1A\x1b[?25l":                    "\x1b[2K\x1b[1A\x1b[?25l",
		"a\x1b]0;title\x07b":                         "ab",
		"a\x1b]52;c;ZXZpbA==\x1b\\b":                 "ab",
		"a\x1bPq\x1b\\b\x1b_x\x1b\\c\x1b^y\x1b\\d":   "abcd",
		"a\x1b[6nb\x1b[cb\x1b[21tb\x1b[>qb\x1b[?ub":  "abbbbb",
		"a\x1bcb\x1b(0c":                             "abc",
		"a\u009b31mb\u009d0;x\x07c":                  "a\x1b[31mbc",
		"a\xc2\xc2\x9b6nb":                           "ab",
		"größe 東京":                                   "größe 東京",
		"bell\x07 nul\x00":                           "bell nul",
		"\x1b]" + strings.Repeat("x", maxSequence+8): "xxxxxxx",
	} {
		for _, step := range []int{1, len(in)} {
			var out bytes.Buffer
			w := NewScreenWriter(&out)
			for text := in; text != ""; {
				n := min(step, len(text))
				if _, err := w.Write([]byte(text[:n])); err != nil {
					t.Fatal(err)
				}
				text = text[n:]
			}
			if got := out.String(); got != want {
				t.Errorf("%q in steps of %d: %q, want %q", in, step, got, want)
			}
		}
	}
}

func FuzzScreen(f *testing.F) {
	for _, s := range []string{"\x1b[31m", "\x1b]0;x\x07", "\u009b6n", "\x1bP\x1b\\", "\xc2"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var out bytes.Buffer
		if n, err := NewScreenWriter(&out).Write(in); n != len(in) || err != nil {
			t.Fatal(n, err)
		}
		text := out.String()
		for i, c := range []byte(text) {
			if c == 0x1b && (i+1 >= len(text) || text[i+1] != '[') || c == 0x07 {
				t.Errorf("%q became %q", in, text)
			}
		}
		if strings.Contains(text, "\u009b") || strings.Contains(text, "\u009d") {
			t.Errorf("%q became %q", in, text)
		}
	})
}
