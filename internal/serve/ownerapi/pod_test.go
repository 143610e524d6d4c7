package ownerapi

import (
	"testing"
	"time"

	"github.com/podtask/podtask/pkg/lifecycle"
)

// The log of a run begins after the run before it, and not at the start that Podman notes.
func TestLogOfARunBeginsAfterTheRunBefore(t *testing.T) {
	t.Parallel()
	at := func(second int64) time.Time { return time.Unix(1_800_000_000+second, 0) }
	runs := []lifecycle.Run{{StartedAt: at(0), FinishedAt: at(1)}, {StartedAt: at(11), FinishedAt: at(12)}}
	for _, tt := range []struct {
		rule string
		c    lifecycle.Container
		want time.Time
	}{
		{"the first run", lifecycle.Container{StartedAt: at(0)}, time.Time{}},
		{"a run that continues", lifecycle.Container{StartedAt: at(30), Runs: runs}, at(12)},
		{"a run that has ended and waits for its restart", lifecycle.Container{StartedAt: at(11), Runs: runs}, at(1)},
	} {
		if got := endBefore(tt.c); !got.Equal(tt.want) {
			t.Errorf("%s: %v, want %v", tt.rule, got, tt.want)
		}
	}
}
