package state_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/state"
)

func openLog(t *testing.T, dir string, size int64) *state.Log {
	t.Helper()
	l, err := state.OpenLog(dir, size)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func appendAll(t *testing.T, l *state.Log, texts ...string) uint64 {
	t.Helper()
	var entries []json.RawMessage
	for _, s := range texts {
		entries = append(entries, json.RawMessage(s))
	}
	last, err := l.Append(t.Context(), entries...)
	if err != nil {
		t.Fatal(err)
	}
	return last
}

func readAll(t *testing.T, l *state.Log, after uint64) []string {
	t.Helper()
	var got []string
	for e, err := range l.Read(t.Context(), after) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%d:%s", e.Seq, e.Data))
	}
	return got
}

func wantLog(t *testing.T, l *state.Log, after uint64, want ...string) {
	t.Helper()
	if got := readAll(t, l, after); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("log after %d is %v, want %v", after, got, want)
	}
}

func TestEventsAreNumberedInOrder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := openLog(t, dir, 0)
	wantLog(t, l, 0)
	if got := appendAll(t, l, `{"a":1}`, "[\n 2 ]"); got != 2 {
		t.Errorf("last = %d, want 2", got)
	}
	if got := appendAll(t, openLog(t, dir, 0), `"three"`); got != 3 {
		t.Errorf("last = %d, want 3", got)
	}
	if got := appendAll(t, l); got != 3 {
		t.Errorf("appending nothing returns %d, want 3", got)
	}
	wantLog(t, l, 0, `1:{"a":1}`, `2:[2]`, `3:"three"`)
	wantLog(t, l, 2, `3:"three"`)
	wantLog(t, l, 3)
	text, err := os.ReadFile(filepath.Join(dir, "events.jsonl"))
	if err != nil || !strings.HasPrefix(string(text), `{"seq":1,"data":{"a":1}}`+"\n") {
		t.Errorf("file is %q, %v", text, err)
	}
}

func TestAnAppendWithABadEntryAddsNothing(t *testing.T) {
	t.Parallel()
	l := openLog(t, t.TempDir(), 0)
	if _, err := l.Append(t.Context(), json.RawMessage(`1`), json.RawMessage(`{`)); err == nil {
		t.Error("bad JSON was accepted")
	}
	wantLog(t, l, 0)
}

func TestTornTailIsCutOff(t *testing.T) {
	t.Parallel()
	tails := map[string]string{
		"half a line":                `{"seq":3,"da`,
		"zeros after a power loss":   strings.Repeat("\x00", 5000),
		"zeros and a line end":       strings.Repeat("\x00", 70000) + "\n",
		"a line of something else":   "hello\n",
		"whole JSON without newline": `{"seq":3,"data":1}`,
	}
	for name, tail := range tails {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			l := openLog(t, dir, 0)
			appendAll(t, l, `1`, `2`)
			f, err := os.OpenFile(filepath.Join(dir, "events.jsonl"), os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				t.Fatal(err)
			}
			f.WriteString(tail)
			f.Close()
			wantLog(t, l, 0, "1:1", "2:2")
			if got := appendAll(t, l, `"new"`); got != 3 {
				t.Errorf("next number %d, want 3", got)
			}
			wantLog(t, l, 0, "1:1", "2:2", `3:"new"`)
		})
	}
}

func TestABadLineInTheMiddleIsNamedAndSkipped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "events.jsonl"), []byte(`{"seq":1,"data":1}`+"\nrubbish\n"+`{"seq":3,"data":3}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var seqs []uint64
	var errs []error
	for e, err := range openLog(t, dir, 0).Read(t.Context(), 0) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		seqs = append(seqs, e.Seq)
	}
	if fmt.Sprint(seqs) != "[1 3]" || len(errs) != 1 || !strings.Contains(errs[0].Error(), "byte 19") {
		t.Errorf("read %v with errors %v", seqs, errs)
	}
}

func TestRotationKeepsTwoPartsAndTheNumbers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := openLog(t, dir, 100) // four lines
	for i := range 30 {
		if got := appendAll(t, l, fmt.Sprint(100+i)); got != uint64(i+1) {
			t.Fatalf("number %d, want %d", got, i+1)
		}
	}
	var total int64
	files, err := filepath.Glob(filepath.Join(dir, "events.jsonl*"))
	if err != nil || len(files) != 2 {
		t.Fatalf("files %v, %v", files, err)
	}
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	if total > 200 {
		t.Errorf("%d bytes, bound is 200", total)
	}
	got := readAll(t, l, 0)
	if len(got) < 4 || got[len(got)-1] != "30:129" {
		t.Errorf("kept %v, want at least four ending in 30:129", got)
	}
	// A crash between the two steps of a rotation.
	if err := os.Rename(files[0], files[1]); err != nil {
		t.Fatal(err)
	}
	if got := appendAll(t, l, "1"); got != 31 {
		t.Errorf("number %d after a broken rotation, want 31", got)
	}
}

func TestProcessesShareOneNumbering(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := openLog(t, dir, 2000)
	first := other(t, "append", dir)
	second := other(t, "append", dir)
	if err := errors.Join(first.Start(), second.Start()); err != nil {
		t.Fatal(err)
	}
	const total = 2 * 2 * 100
	next := uint64(1)
	done := errors.New("done")
	err := l.Follow(t.Context(), 0, func(e state.Entry) error {
		if e.Seq < next {
			t.Errorf("number %d again", e.Seq)
		}
		next = e.Seq + 1 // rotations may pass faster than we read
		if e.Seq == total {
			return done
		}
		return nil
	})
	if !errors.Is(err, done) {
		t.Errorf("Follow: %v", err)
	}
	if err := errors.Join(first.Wait(), second.Wait()); err != nil {
		t.Fatal(err)
	}
	if got := appendAll(t, l, "1"); got != total+1 {
		t.Errorf("last number %d, want %d", got, total+1)
	}
	prev := uint64(0)
	for e, err := range l.Read(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if prev != 0 && e.Seq != prev+1 {
			t.Errorf("%d follows %d", e.Seq, prev)
		}
		prev = e.Seq
	}
}

func TestFollowSeesOldAndNewEventsOnce(t *testing.T) {
	t.Parallel()
	l := openLog(t, t.TempDir(), 300)
	appendAll(t, l, "1", "2")
	var got []uint64
	done := errors.New("done")
	// Each event brings the next, so none is lost to a rotation.
	err := l.Follow(t.Context(), 1, func(e state.Entry) error {
		got = append(got, e.Seq)
		if e.Seq == 60 {
			return done
		}
		appendAll(t, l, fmt.Sprint(e.Seq+1))
		return nil
	})
	if !errors.Is(err, done) {
		t.Fatalf("Follow: %v", err)
	}
	for i, seq := range got {
		if seq != uint64(i+2) {
			t.Fatalf("got %v, want 2..60 without gaps", got)
		}
	}
}

func TestFollowEndsWithItsContext(t *testing.T) {
	t.Parallel()
	l := openLog(t, t.TempDir(), 0)
	appendAll(t, l, "1")
	ctx, cancel := context.WithCancel(t.Context())
	err := l.Follow(ctx, 0, func(state.Entry) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Follow: %v, want context.Canceled", err)
	}
}

// FuzzLogFile: whatever lies in the log's file, an append heals it, and the
// numbers read never fall behind the one appended.
func FuzzLogFile(f *testing.F) {
	f.Add([]byte(`{"seq":1,"data":1}` + "\n" + `{"seq":2,`))
	f.Add([]byte("\n\n\x00\n"))
	f.Add([]byte(`{"seq":18446744073709551614,"data":1}` + "\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "events.jsonl"), content, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := state.OpenLog(dir, 0)
		if err != nil {
			t.Fatal(err)
		}
		last, err := l.Append(t.Context(), json.RawMessage(`"mark"`))
		if err != nil {
			t.Fatal(err)
		}
		var final state.Entry
		for e, err := range l.Read(t.Context(), 0) {
			if err == nil {
				final = e
			}
		}
		if final.Seq != last || string(final.Data) != `"mark"` {
			t.Fatalf("last entry is %d %s, appended %d", final.Seq, final.Data, last)
		}
	})
}

// What was read is skipped without being decoded.
func BenchmarkReadTheEndOfALongLog(b *testing.B) {
	l, err := state.OpenLog(b.TempDir(), 0)
	if err != nil {
		b.Fatal(err)
	}
	entry := json.RawMessage(`{"taskSeq":3,"task":"` + strings.Repeat("f", 32) + `","family":"web","at":"2026-01-02T03:04:05Z","status":"RUNNING"}`)
	var last uint64
	for range 20 {
		if last, err = l.Append(b.Context(), slices.Repeat([]json.RawMessage{entry}, 1000)...); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		for range l.Read(b.Context(), last) {
			b.Fatal("there is nothing new")
		}
	}
}
