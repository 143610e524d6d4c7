package libpod

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// split runs frames through a splitter.
func split(stamped bool, frames ...string) []LogLine {
	var lines []LogLine
	s := newSplitter(Stderr, stamped, func(l LogLine) { lines = append(lines, l) })
	for _, f := range frames {
		s.write(f)
	}
	s.flush()
	return lines
}

func TestSplitter(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const stamp, later = "2026-01-02T03:04:05Z ", "2026-01-02T03:04:06Z "
	tests := []struct {
		rule    string
		stamped bool
		frames  []string
		want    []LogLine
	}{
		{"a frame is a line", false, []string{"a\n", "b\n"}, []LogLine{{Stream: Stderr, Text: "a"}, {Stream: Stderr, Text: "b"}}},
		{"pieces of a line are joined", false, []string{"a", "b", "c\n"}, []LogLine{{Stream: Stderr, Text: "abc"}}},
		{"an empty line is a line", false, []string{"\n"}, []LogLine{{Stream: Stderr, Text: ""}}},
		{"the last line may lack its end", false, []string{"a\n", "b"}, []LogLine{{Stream: Stderr, Text: "a"}, {Stream: Stderr, Text: "b", Unended: true}}},
		{"a frame may hold several lines", false, []string{"a\nb\nc"}, []LogLine{{Stream: Stderr, Text: "a"}, {Stream: Stderr, Text: "b"}, {Stream: Stderr, Text: "c", Unended: true}}},
		{"a carriage return is what the program or its terminal wrote", false, []string{"10%\r20%\r\n"}, []LogLine{{Stream: Stderr, Text: "10%\r20%\r"}}},
		{"every piece has its stamp and the first counts", true, []string{stamp + "a", later + "b\n"}, []LogLine{{Stream: Stderr, Time: at, Text: "ab"}}},
		{"a time in the text is text", true, []string{stamp + stamp + "x\n"}, []LogLine{{Stream: Stderr, Time: at, Text: stamp + "x"}}},
		{"a stamp that was not asked for is text", false, []string{stamp + "x\n"}, []LogLine{{Stream: Stderr, Text: stamp + "x"}}},
		{"a stamped empty line", true, []string{stamp + "\n"}, []LogLine{{Stream: Stderr, Time: at, Text: ""}}},
	}
	for _, c := range tests {
		if got := split(c.stamped, c.frames...); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %+v", c.rule, got)
		}
	}
}

func FuzzSplitter(f *testing.F) {
	f.Add("a\nb", 1, false)
	f.Add("2026-01-02T03:04:05Z a\r\n\n", 5, true)
	f.Add(strings.Repeat("ä", maxLine), 1000, false)
	f.Add(strings.Repeat("\x80", 2*maxLine), maxLine, false)
	f.Fuzz(func(t *testing.T, text string, at int, stamped bool) {
		at = max(0, min(at, len(text)))
		lines := split(stamped, text[:at], text[at:])
		var b strings.Builder
		for _, l := range lines {
			if len(l.Text) > maxLine || strings.Contains(l.Text, "\n") {
				t.Fatalf("a line of %d bytes: %.40q", len(l.Text), l.Text)
			}
			b.WriteString(l.Text)
		}
		// Without stamps nothing is lost but line ends.
		if got, want := b.String(), strings.ReplaceAll(text, "\n", ""); !stamped && got != want {
			t.Fatalf("got %.60q, want %.60q", got, want)
		}
	})
}
