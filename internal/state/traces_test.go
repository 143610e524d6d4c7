package state_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/state"
)

func traceOf(t *testing.T, traces *state.Traces, key string) bool {
	t.Helper()
	has, err := traces.Has(key)
	if err != nil {
		t.Fatal(err)
	}
	return has
}

func TestTraces(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "removed")
	traces := state.OpenTraces(dir)
	one, two := strings.Repeat("1", 32), strings.Repeat("2", 32)
	if traceOf(t, traces, one) {
		t.Error("there is a trace before the first")
	}
	day := time.Date(2026, 11, 1, 23, 59, 0, 0, time.UTC)
	if err := traces.Leave(one, day); err != nil {
		t.Fatal(err)
	}
	if again := state.OpenTraces(dir); !traceOf(t, again, one) || traceOf(t, again, two) {
		t.Error("another process does not see the trace, or sees another")
	}

	// It lasts at least as long as it says, and not for ever.
	if err := traces.Leave(two, day.Add(state.TraceAge)); err != nil {
		t.Fatal(err)
	}
	if !traceOf(t, traces, one) {
		t.Error("the trace is gone too early")
	}
	if err := traces.Leave(two, day.Add(state.TraceAge+25*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if traceOf(t, traces, one) || !traceOf(t, traces, two) {
		t.Error("an old trace stays, or a new one is gone")
	}
	if err := traces.Leave("../../etc/passwd", day); err == nil {
		t.Error("what is no key has a trace")
	}
}

// What a power loss has left of a line hides neither the lines before nor those after it.
func TestATornTrace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	traces, now := state.OpenTraces(dir), time.Now()
	before, after := strings.Repeat("a", 32), strings.Repeat("b", 32)
	if err := traces.Leave(before, now); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, now.UTC().Format(time.DateOnly))
	text, err := os.ReadFile(name)
	if err == nil {
		err = os.WriteFile(name, append(text, "cccc\x00"...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := traces.Leave(after, now); err != nil {
		t.Fatal(err)
	}
	if !traceOf(t, traces, before) || !traceOf(t, traces, after) {
		t.Error("a trace is lost")
	}
}

func TestTracesAtTheSameTime(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "removed")
	now := time.Now()
	var wg sync.WaitGroup
	for n := range 16 {
		wg.Go(func() {
			if err := state.OpenTraces(dir).Leave(strings.Repeat(string("0123456789abcdef"[n]), 32), now); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for n := range 16 {
		if !traceOf(t, state.OpenTraces(dir), strings.Repeat(string("0123456789abcdef"[n]), 32)) {
			t.Errorf("trace %d is lost", n)
		}
	}
}
