package state_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What has been given a number is on the disk before anybody may read it, so that
// after a power loss the number is not used for something else.
func TestEventNumbersSurvivePowerLoss(t *testing.T) {
	t.Parallel()
	dir, kept := t.TempDir(), t.TempDir()
	l := openLog(t, dir, 200) // so that parts are closed on the way
	l.OnSync(func(f *os.File) error {
		for _, name := range []string{"events.jsonl", "events.jsonl.1"} {
			content, err := os.ReadFile(filepath.Join(dir, name))
			if err == nil {
				err = os.WriteFile(filepath.Join(kept, name), content, 0o600)
			}
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Error(err)
			}
		}
		hasty, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		for e, err := range openLog(t, dir, 200).Read(hasty, 0) {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("event %d is read before it is on the disk (%v)", e.Seq, err)
			}
		}
		return f.Sync()
	})
	for n := range 20 {
		last := appendAll(t, l, fmt.Sprintf("%q", strings.Repeat("x", n)))
		after := openLog(t, kept, 200) // what a power loss now would leave
		if got := readAll(t, after, last-1); len(got) != 1 {
			t.Fatalf("event %d is lost: %v", last, got)
		}
	}
	if next := appendAll(t, openLog(t, kept, 200), `"next"`); next != 21 {
		t.Errorf("the next event has number %d, want 21", next)
	}
}

func TestEventsThatCannotBeSyncedAreNotThere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := openLog(t, dir, 0)
	appendAll(t, l, `1`)
	l.OnSync(func(*os.File) error { return errors.New("disk failure") })
	if last, err := l.Append(t.Context(), json.RawMessage(`2`)); err == nil {
		t.Fatalf("event %d counts as appended", last)
	}
	again := openLog(t, dir, 0)
	wantLog(t, again, 0, "1:1")
	appendAll(t, again, `3`)
	wantLog(t, again, 0, "1:1", "2:3")
}
