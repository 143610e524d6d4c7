package task

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/cli/console"
	"github.com/podtask/podtask/internal/engine/act/observe"
)

// TestLogsContinueBehindTheirPositions: wherever the output of logs is cut, its continuation has each of the other
// lines, and once, also those with the same time and those of containers that had printed none.
func TestLogsContinueBehindTheirPositions(t *testing.T) {
	t.Parallel()
	at := func(s int) time.Time { return time.Date(2026, 3, 4, 12, 0, s, 7, time.UTC) }
	lines := []observe.LogLine{
		{Container: "a", Stream: "stdout", Time: at(5), Text: "a5"}, {Container: "b", Stream: "stdout", Time: at(1), Text: "b1"},
		{Container: "a", Stream: "stdout", Time: at(5), Text: "a5 again"}, {Container: "a", Stream: "stderr", Time: at(5), Text: "a5 error"},
		{Container: "b", Stream: "stdout", Time: at(2), Text: "b2"}, {Container: "a", Stream: "stdout", Time: at(6), Text: "a6"},
	}
	print := func(w io.Writer, positions []string, lines []observe.LogLine) {
		opts := observe.LogOptions{Follow: true, Tail: -1}
		p, err := newLogPlaces(w, positions, &opts)
		if err != nil {
			t.Fatal(err)
		}
		printer := &console.LogPrinter{Out: w, Err: w}
		for _, l := range lines {
			if l.Time.Before(opts.Since) {
				continue
			}
			if err := p.print(printer, "task", l); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := "a5\nb1\na5 again\na5 error\nb2\na6\n"
	for cut := range len(lines) + 1 {
		var positions command.Positions
		var got bytes.Buffer
		print(positions.Writer(&got), nil, lines[:cut])
		print(positions.Writer(&got), positions.List(), lines)
		if got.String() != want {
			t.Errorf("cut behind %d lines: %q", cut, got.String())
		}
	}
	for _, bad := range []string{"x", "task/a/stdout=", "task/a/stdout=2026-03-04T12:00:00Z+x"} {
		if _, err := newLogPlaces(io.Discard, []string{bad}, &observe.LogOptions{}); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
