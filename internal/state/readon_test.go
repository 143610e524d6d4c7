package state_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/state"
)

func TestLastIsTheNumberOfTheLastEvent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := openLog(t, dir, 64)
	for want := range uint64(12) { // the log is rotated meanwhile
		if got, err := l.Last(t.Context()); err != nil || got != want {
			t.Errorf("last %d, %v; want %d", got, err, want)
		}
		appendAll(t, l, `"some event"`)
	}
	if err := os.WriteFile(filepath.Join(dir, "events.jsonl"), nil, 0o600); err != nil {
		t.Fatal(err) // as after a rotation that was cut off
	}
	if got, err := l.Last(t.Context()); err != nil || got == 0 {
		t.Errorf("an empty newest part: last %d, %v", got, err)
	}
}

func TestSearchDecodesTheOldestAndWhatHasTheText(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := openLog(t, dir, 0)
	long := strings.Repeat("x", 200<<10) // more than a buffer
	appendAll(t, l, `"first"`, `"a"`, `"b `+long+`"`, `"c"`, `"b"`)
	var got []uint64
	if err := l.Search(t.Context(), `"b`, func(e state.Entry) { got = append(got, e.Seq) }); err != nil {
		t.Fatal(err)
	}
	if want := []uint64{1, 3, 5}; !slices.Equal(got, want) {
		t.Errorf("events %v, want %v", got, want)
	}
}

func TestReadOnReadsWhatIsNew(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := openLog(t, dir, 150)
	var place state.Place
	read := func(want ...string) {
		t.Helper()
		var got []string
		to, err := l.ReadOn(t.Context(), place, func() { got = []string{"restart"} }, func(e state.Entry) {
			got = append(got, fmt.Sprint(e.Seq))
		})
		if err != nil {
			t.Fatal(err)
		}
		place = to
		if !slices.Equal(got, want) {
			t.Errorf("read %q, want %q", got, want)
		}
	}
	read("restart")
	appendAll(t, l, `"a"`, `"b"`)
	read("restart", "1", "2")
	read()
	appendAll(t, l, `"c"`)
	read("3")
	appendAll(t, l, `"`+strings.Repeat("d", 130)+`"`) // into a new part
	read("restart", "1", "2", "3", "4")
	appendAll(t, l, `"e"`)

	// Another log in the same file, as long as the one that was read, or longer.
	if err := os.Remove(filepath.Join(dir, "events.jsonl.1")); err != nil {
		t.Fatal(err)
	}
	read("restart", "5")
	line := `{"seq":1,"data":"x"}` + "\n"
	if err := os.WriteFile(filepath.Join(dir, "events.jsonl"), []byte(strings.Repeat(line, 2)), 0o600); err != nil {
		t.Fatal(err)
	}
	read("restart", "1", "1")
}
