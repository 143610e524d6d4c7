package observe

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// holedLog is a Podman that leaves out lines when it follows: each reading has the
// next of the texts, and the container runs while there are more than one.
type holedLog struct {
	lines []libpod.LogLine
	reads []string
}

func (c *holedLog) Logs(_ context.Context, _ string, o libpod.LogOptions, fn func(libpod.LogLine)) error {
	texts := "abcdefghi"
	if o.Follow {
		texts, c.reads = c.reads[0], c.reads[1:]
	}
	for _, l := range c.lines {
		if !l.Time.After(o.Since) || !strings.Contains(texts, l.Text) {
			continue
		}
		if !o.Timestamps {
			l.Time = time.Time{}
		}
		fn(l)
	}
	return nil
}

func (c *holedLog) WaitContainer(context.Context, string) error { return nil }

func (c *holedLog) InspectContainer(context.Context, string) (libpod.Observed, error) {
	if len(c.reads) > 0 {
		return libpod.Observed{Status: libpod.Running}, nil
	}
	return libpod.Observed{Status: libpod.Exited}, nil
}

func TestFollowingMissesNoLine(t *testing.T) {
	t.Parallel()
	s := lifecycle.State{ID: strings.Repeat("a", 32), Task: taskdef.Task{Family: "web", Containers: []taskdef.Container{{Name: "a"}}}}
	for _, tc := range []struct {
		reads []string
		tail  int
		want  string
	}{
		{nil, -1, "abcdefghi"},
		{[]string{"abcdefghi"}, -1, "abcdefghi"},
		{[]string{""}, -1, "abcdefghi"},
		{[]string{"abcde"}, -1, "abcdefghi"},
		{[]string{"abcghi"}, -1, "abcghidef"},
		{[]string{"cdei"}, -1, "cdeiabfgh"},
		{[]string{"ab", "abcd"}, -1, "abcdefghi"},
		{[]string{"abcd", "ab"}, -1, "abcdefghi"},
		{[]string{"bd", "bcde"}, -1, "bdceafghi"},
		{[]string{"efgi"}, 5, "efgih"}, // what is before the tail stays out
	} {
		engine := &holedLog{reads: tc.reads}
		for i, text := range strings.Split("abcdefghi", "") {
			engine.lines = append(engine.lines, libpod.LogLine{Text: text, Time: fixed.Add(time.Duration(i/3) * time.Second)})
		}
		got := ""
		logs := &Logs{Podman: func(context.Context) (LogReader, error) { return engine, nil }}
		err := logs.copyLog(t.Context(), s, 0, LogOptions{Follow: true, Tail: tc.tail}, func(l libpod.LogLine) error {
			if !l.Time.IsZero() {
				t.Error("a time that was not requested")
			}
			got += l.Text
			return nil
		})
		if err != nil || got != tc.want {
			t.Errorf("%q: %q, %v; want %q", tc.reads, got, err, tc.want)
		}
	}
}

func TestLogDeduperIsBounded(t *testing.T) {
	t.Parallel()
	var r logDeduper
	r.fromStart = true
	fresh := r.resume()
	const lines = 5 * maxDedupLines
	line := func(i int) libpod.LogLine {
		return libpod.LogLine{Text: strconv.Itoa(i), Time: fixed.Add(time.Duration(i/100) * time.Second)}
	}
	for i := range lines {
		if !fresh(line(i)) {
			t.Fatalf("line %d is not new", i)
		}
	}
	if len(r.lines) > 2*maxDedupLines {
		t.Errorf("%d lines are remembered", len(r.lines))
	}
	since, _ := r.since()
	fresh = r.resume()
	for i := range lines + 2 {
		if l := line(i); l.Time.After(since) && fresh(l) != (i >= lines) {
			t.Fatalf("line %d: new is wrong", i)
		}
	}
}

var fixed = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
