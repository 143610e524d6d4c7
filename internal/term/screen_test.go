package term_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/podtask/podtask/internal/term"
)

func TestOnlyHarmlessSequencesReachTheScreen(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain\ttext\r\n":                                           "plain\ttext\r\n",
		"\x1b[31mred\x1b[0m":                                        "\x1b[31mred\x1b[0m",
		"\x1b[38;2;1;2;3;48:5:8mred\x1b[m":                          "\x1b[38;2;1;2;3;48:5:8mred\x1b[m",
		"\x1b[2K\x1b[1A\x1b[?25l\x1b[?25h":                          "\x1b[2K\x1b[1A\x1b[?25l\x1b[?25h",
		"\x1b[H\x1b[J\x1b[s\x1b[u\x1b[3;4f":                         "\x1b[H\x1b[J\x1b[s\x1b[u\x1b[3;4f",
		"a\x1b]0;title\x07b":                                        "ab",
		"a\x1b]52;c;ZXZpbA==\x1b\\b":                                "ab",
		"a\x1b]8;;http://evil\x1b\\b":                               "ab",
		"a\x1bPq\x1b\\b\x1b_x\x1b\\c\x1b^y\x1b\\d":                  "abcd",
		"a\x1b[6nb\x1b[cb\x1b[21tb\x1b[>qb\x1b[?ub\x1b[0xb\x1b[5ib": "abbbbbbb",
		// Private and intermediate bytes, and modes that stay.
		"a\x1b[&ub\x1b[1$ub\x1b[?4mb\x1b[?1;1;0Sb\x1b[>1ub\x1b[>4;2mb\x1b[?1003hb\x1b[?1049hb\x1b[?2004hb\x1b[?25;1003hb\x1b[2hb\x1b[20lb\x1b[3;4rb\x1b[1;2;3;4;5Tb\x1b[!pb\x1b[2 qb": "a" + strings.Repeat("b", 16),
		"a\x1b[99999@b\x1b[" + strings.Repeat("1;", 40) + "mb": "ab" + strings.Repeat("1;", 8)[1:] + "mb",
		"a\x1bcb\x1b(0c\x1b#8d\x1bZe\x1b=f":                    "abcdef",
		"a\u009b31mb\u009d0;x\x07c\u0085d":                     "a\x1b[31mbcd",
		"a\u009b6nb":                                           "ab",
		"a\x9b6nb\x9d0;x\x07c":                                 "a\ufffd6nb\ufffd0;xc",
		"a\xc2\xc2\x9b6nb":                                     "a\ufffdb",
		"a\xc2":                                                "a",
		"a\xe2\x80":                                            "a",
		"a\xe2\x80\x1b[6nb":                                    "a\ufffd\ufffdb",
		"größe 東京 мир שלום 😀":                                  "größe 東京 мир שלום 😀",
		"user\u202egpj\u2066\u200b":                            "usergpj",
		"line\u2028paragraph\U000e0041":                        "lineparagraph",
		"bell\x07 nul\x00 so\x0e del\x7f":                      "bell nul so del",
		"\x1b]" + strings.Repeat("x", 4096+8):                  "xxxxxxx",
		"\x1b[3\x1b[31ma":                                      "\x1b[31ma",
		"\x1b[3\nm":                                            "m",
	} {
		for _, step := range []int{1, len(in)} {
			var out bytes.Buffer
			w := term.NewScreen(&out)
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

func TestWhatStaysOnAScreenIsUndone(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain":                     "",
		"\x1b[31mred":               "\x1b[0m",
		"\x1b[31mred\x1b[0m":        "",
		"\x1b[31mred\x1b[m":         "",
		"\x1b[?25lx":                "\x1b[?25h",
		"\x1b[8m\x1b[?25lx\x1b[31m": "\x1b[0m\x1b[?25h",
		"\x1b[?25lx\x1b[?25h":       "",
	} {
		var out bytes.Buffer
		w := term.NewScreen(&out)
		if _, err := w.Write([]byte(in)); err != nil {
			t.Fatal(err)
		}
		out.Reset()
		for range 2 {
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if out.String() != want {
			t.Errorf("%q ends with %q, want %q", in, &out, want)
		}
	}
}

// JSON on a screen loses nothing, and is as it was elsewhere.
func TestJSONOnAScreen(t *testing.T) {
	t.Parallel()
	in := "a\u009b31m\u202e\u2028\U000e0041\x7f größe 😀 \x1b[6n\u200b"
	var screen, file bytes.Buffer
	if err := json.NewEncoder(term.JSON(term.NewScreen(&screen))).Encode(in); err != nil {
		t.Fatal(err)
	}
	if err := json.NewEncoder(term.JSON(&file)).Encode(in); err != nil {
		t.Fatal(err)
	}
	var got string
	if err := json.Unmarshal(screen.Bytes(), &got); err != nil || got != in {
		t.Errorf("%q %v", got, err)
	}
	if hidden := strings.ContainsFunc(strings.TrimSuffix(screen.String(), "\n"), isHidden); hidden || !strings.Contains(screen.String(), `\u009b`) || !strings.Contains(file.String(), "\u009b") {
		t.Errorf("on a screen %q, in a file %q", &screen, &file)
	}
}

func isHidden(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}

func TestLines(t *testing.T) {
	t.Parallel()
	if got, want := term.Lines("a\x1b[2K\n  b\u202e\n\nc\x1b]0;x\x07"), "a [2K\n  b\n\nc ]0;x"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// What a screen gets is text, and sequences that a second filter, or one that gets them in other pieces, passes too.
func FuzzScreen(f *testing.F) {
	for _, s := range []string{"\x1b[31m", "\x1b]0;x\x07", "\u009b6n", "\x1bP\x1b\\", "\xc2", "\x1b[?1003h", "\x9b6n", "\u202e", "\x1b[1$u"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var out, again, bytewise bytes.Buffer
		if n, err := term.NewScreen(&out).Write(in); n != len(in) || err != nil {
			t.Fatal(n, err)
		}
		_, _ = term.NewScreen(&again).Write(out.Bytes())
		w := term.NewScreen(&bytewise)
		for i := range in {
			_, _ = w.Write(in[i : i+1])
		}
		if out.String() != again.String() || out.String() != bytewise.String() {
			t.Errorf("%q became %q, then %q, and byte by byte %q", in, &out, &again, &bytewise)
		}
		text := out.String()
		if !utf8.ValidString(text) {
			t.Errorf("%q became %q", in, text)
		}
		for i, r := range text {
			switch {
			case r == 0x1b && (i+1 >= len(text) || text[i+1] != '['), isHidden(r) && !strings.ContainsRune("\x1b\n\r\t\b", r):
				t.Errorf("%q became %q", in, text)
			}
		}
	})
}
