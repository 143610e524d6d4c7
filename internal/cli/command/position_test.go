package command

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// TestPositionsOfAnOutputThatIsCut: whatever the pieces in which an output arrives and wherever it is cut, the text
// is that of whole lines, and the positions are those behind it.
func TestPositionsOfAnOutputThatIsCut(t *testing.T) {
	t.Parallel()
	var all bytes.Buffer
	for _, line := range []struct{ source, place, text string }{
		{"first", "0", ""}, {"a", "1", "one\n"}, {"b", "1", "fake \x1e9 a=7\n\x1e\n"}, {"a", "2", "two\n"},
	} {
		if err := WritePosition(&all, line.source, line.place, []byte(line.text)); err != nil {
			t.Fatal(err)
		}
		all.WriteString("Warning: plain\n")
	}
	whole := all.String()
	for _, piece := range []int{1, 2, 3, 7, len(whole)} {
		var p Positions
		var got bytes.Buffer
		w := p.Writer(&got)
		for part := range slices.Chunk([]byte(whole), piece) {
			if _, err := w.Write(part); err != nil {
				t.Fatal(err)
			}
		}
		if text := strings.ReplaceAll(got.String(), "Warning: plain\n", ""); text != "one\nfake \x1e9 a=7\n\x1e\ntwo\n" {
			t.Errorf("pieces of %d: %q", piece, text)
		}
		if list := p.List(); !slices.Equal(list, []string{"a=2", "b=1", "first=0"}) {
			t.Errorf("pieces of %d: %q", piece, list)
		}
	}
	cut := strings.Index(whole, "two")
	var p Positions
	var got bytes.Buffer
	if _, err := p.Writer(&got).Write([]byte(whole[:cut+1])); err != nil {
		t.Fatal(err)
	}
	if list := p.List(); !slices.Contains(list, "a=1") || strings.Contains(got.String(), "t\n") {
		t.Errorf("cut: %q %q", list, got.String())
	}
}

func FuzzPositions(f *testing.F) {
	f.Add([]byte("\x1e3 a=1\nxyz"), 2)
	f.Add([]byte("\x1e-1 a=1\n\x1e99999999999999999999 a=1\n"), 1)
	f.Fuzz(func(t *testing.T, b []byte, piece int) {
		var p, q Positions
		var got, want bytes.Buffer
		if _, err := q.Writer(&want).Write(b); err != nil {
			t.Fatal(err)
		}
		w := p.Writer(&got)
		for part := range slices.Chunk(b, max(1, piece%100)) {
			if _, err := w.Write(part); err != nil {
				t.Fatal(err)
			}
		}
		if got.String() != want.String() || !slices.Equal(p.List(), q.List()) {
			t.Errorf("in pieces %q %q, at once %q %q", got.String(), p.List(), want.String(), q.List())
		}
		for _, text := range p.List() {
			if _, _, ok := ParsePosition(text); !ok {
				t.Errorf("%q", text)
			}
		}
	})
}
