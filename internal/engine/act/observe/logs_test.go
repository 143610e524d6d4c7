package observe

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podtask/podtask/internal/host/libpod"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// holedLog is a Podman that leaves out lines when it follows: each reading has the
// next of the texts, and the container runs while there are more than one.
type holedLog struct {
	lines []libpod.LogLine

	mu    sync.Mutex // the container is inspected while its log is read
	reads []string
}

func (c *holedLog) Logs(_ context.Context, _ string, o libpod.LogOptions, fn func(libpod.LogLine)) error {
	texts := "abcdefghi"
	if o.Follow {
		c.mu.Lock()
		texts, c.reads = c.reads[0], c.reads[1:]
		c.mu.Unlock()
	}
	lines := c.lines
	if o.Tail > 0 { // one more, as Podman's reader of the journal
		lines = lines[max(0, len(lines)-o.Tail-1):]
	}
	for _, l := range lines {
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
	c.mu.Lock()
	defer c.mu.Unlock()
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
		{[]string{"efgi"}, 5, "efghi"}, // what is before the tail stays out
		{[]string{"ghi"}, 1, "i"},
		{[]string{"", "abcdefghi"}, 2, "hi"},
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

// stayingLog is a Podman whose stream does not end with its container, as that of the journal after
// the journal has dropped lines.
type stayingLog struct {
	holedLog
	ended chan struct{} // closed when the container has ended
}

func (c *stayingLog) Logs(ctx context.Context, name string, o libpod.LogOptions, fn func(libpod.LogLine)) error {
	if !o.Follow {
		return c.holedLog.Logs(ctx, name, o, fn)
	}
	fn(c.lines[0])
	close(c.ended)
	<-ctx.Done()
	return ctx.Err()
}

func (c *stayingLog) WaitContainer(ctx context.Context, _ string) error {
	select {
	case <-c.ended:
	case <-ctx.Done():
	}
	return nil
}

func (c *stayingLog) InspectContainer(context.Context, string) (libpod.Observed, error) {
	select {
	case <-c.ended:
		return libpod.Observed{Status: libpod.Exited}, nil
	default:
		return libpod.Observed{Status: libpod.Running}, nil
	}
}

func TestAStreamThatStaysIsEndedAndTheRestIsRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := lifecycle.State{ID: strings.Repeat("a", 32), Task: taskdef.Task{Family: "web", Containers: []taskdef.Container{{Name: "app"}}}}
		podman := &stayingLog{ended: make(chan struct{})}
		for i, text := range []string{"a", "b", "c"} {
			podman.lines = append(podman.lines, libpod.LogLine{Text: text, Time: fixed.Add(time.Duration(i) * time.Second)})
		}
		logs := &Logs{Podman: func(context.Context) (LogReader, error) { return podman, nil }}
		got, began := "", time.Now()
		err := logs.copyLog(t.Context(), s, 0, LogOptions{Follow: true, Tail: -1}, func(l libpod.LogLine) error {
			got += l.Text
			return nil
		})
		var lost *IncompleteError
		if !errors.As(err, &lost) || lost.Container != "app" || got != "abc" {
			t.Errorf("%q, %v", got, err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

// The last lines of a log that is followed are as many as asked for, also if a line has begun and not ended; equal lines of
// one second are told apart.
func TestFollowingBeginsWithTheTail(t *testing.T) {
	t.Parallel()
	s := lifecycle.State{ID: strings.Repeat("a", 32), Task: taskdef.Task{Family: "web", Containers: []taskdef.Container{{Name: "a"}}}}
	for text, want := range map[string]string{"aaab": "ab", "bbab": "ab", "xy": "xy", "x": "x", "": ""} {
		podman := &begunLog{}
		for _, c := range strings.Split(text, "") {
			podman.lines = append(podman.lines, libpod.LogLine{Text: c, Time: fixed})
		}
		got := ""
		logs := &Logs{Podman: func(context.Context) (LogReader, error) { return podman, nil }}
		err := logs.copyLog(t.Context(), s, 0, LogOptions{Follow: true, Tail: 2}, func(l libpod.LogLine) error {
			got += l.Text
			return nil
		})
		if want += "begun and ended."; err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", text, got, err, want)
		}
	}
}

// begunLog has a last line without a line feed until it is followed.
type begunLog struct {
	lines    []libpod.LogLine
	followed bool
}

func (c *begunLog) Logs(_ context.Context, _ string, o libpod.LogOptions, fn func(libpod.LogLine)) error {
	begun := libpod.LogLine{Text: "begun", Time: fixed.Add(time.Second), Unended: true}
	if c.followed = c.followed || o.Follow; c.followed {
		begun.Text, begun.Unended = "begun and ended.", false
	}
	for _, l := range append(slices.Clone(c.lines), begun) {
		if l.Text != "" && l.Time.After(o.Since) {
			fn(l)
		}
	}
	return nil
}

func (c *begunLog) WaitContainer(context.Context, string) error { return nil }

func (c *begunLog) InspectContainer(context.Context, string) (libpod.Observed, error) {
	if c.followed {
		return libpod.Observed{Status: libpod.Exited}, nil
	}
	return libpod.Observed{Status: libpod.Running}, nil
}

// mergedLog has the lines of two containers.
type mergedLog struct{ holedLog }

func (c *mergedLog) Logs(_ context.Context, name string, _ libpod.LogOptions, fn func(libpod.LogLine)) error {
	for _, l := range c.lines {
		if strings.HasSuffix(name, l.Text[:1]) {
			fn(l)
		}
	}
	return nil
}

func TestLogsOfContainersAreMergedByTime(t *testing.T) {
	t.Parallel()
	s := lifecycle.State{ID: strings.Repeat("a", 32), Task: taskdef.Task{Family: "web", Containers: []taskdef.Container{{Name: "a"}, {Name: "b"}}}}
	podman := &mergedLog{}
	for i, text := range []string{"a1", "b1", "b2", "a2", "a3", "b3"} {
		podman.lines = append(podman.lines, libpod.LogLine{Text: text, Time: fixed.Add(time.Duration(i) * time.Second)})
	}
	logs := &Logs{Podman: func(context.Context) (LogReader, error) { return podman, nil }}
	for range 20 {
		got := ""
		err := logs.Read(t.Context(), s, "", LogOptions{Tail: -1}, func(l LogLine) error {
			if !l.Time.IsZero() {
				t.Error("a time that was not asked for")
			}
			got += l.Container + l.Text + " "
			return nil
		})
		if want := "aa1 bb1 bb2 aa2 aa3 bb3 "; err != nil || got != want {
			t.Fatalf("%q, %v; want %q", got, err, want)
		}
	}
	enough := errors.New("enough")
	if err := logs.Read(t.Context(), s, "", LogOptions{Tail: -1}, func(LogLine) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("%v, want the error of the reader", err)
	}
}
