package agent

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/libpod"
	"github.com/podtask/podtask/pkg/lifecycle"
)

// cutLog is a Podman whose following breaks off after so many lines of what is
// left, with a container that runs for the first of its lives.
type cutLog struct {
	Engine
	lines   []libpod.LogLine
	cuts    []int
	running int
}

func (c *cutLog) Logs(_ context.Context, _ string, o libpod.LogOptions, fn func(libpod.LogLine)) error {
	var left []libpod.LogLine
	for _, l := range c.lines {
		if !l.Time.Before(o.Since) {
			left = append(left, l)
		}
	}
	if o.Follow && len(c.cuts) > 0 {
		left = left[:min(c.cuts[0], len(left))]
		c.cuts = c.cuts[1:]
	}
	for _, l := range left {
		if !o.Timestamps {
			l.Time = time.Time{}
		}
		fn(l)
	}
	return nil
}

func (c *cutLog) InspectContainer(context.Context, string) (libpod.Observed, error) {
	if c.running--; c.running >= 0 {
		return libpod.Observed{Status: libpod.Running}, nil
	}
	return libpod.Observed{Status: libpod.Exited}, nil
}

func TestFollowingSurvivesEarlyEnds(t *testing.T) {
	t.Parallel()
	h, reg := testHost(t)
	s := create(t, h, testTask(t, reg.Ref("none:1")), "")
	var lines []libpod.LogLine
	for i, text := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		lines = append(lines, libpod.LogLine{Text: text, Time: fixed.Add(time.Duration(i/3) * time.Second)})
	}
	for _, cuts := range [][]int{nil, {0}, {1}, {2}, {3}, {5}, {6}, {7}, {2, 3}, {4, 1}, {4, 2, 3}} {
		engine := &cutLog{lines: lines, cuts: slices.Clone(cuts), running: len(cuts) - 1}
		got := ""
		err := h.copyLog(t.Context(), engine, lifecycle.State{ID: s.ID, Task: s.Task}, 0, LogOptions{Follow: true, Tail: -1}, func(l libpod.LogLine) error {
			if !l.Time.IsZero() {
				t.Error("a time nobody asked for")
			}
			got += l.Text
			return nil
		})
		if err != nil || got != "abcdefg" {
			t.Errorf("cut after %v: %q, %v", cuts, got, err)
		}
	}
}
