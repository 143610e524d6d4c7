package services

import (
	"testing"
	"time"
)

func TestJump(t *testing.T) {
	t.Parallel()
	now := time.Now()
	if by := jump(time.Time{}, now); by != 0 {
		t.Errorf("at first: %s", by)
	}
	if by := jump(now, now.Add(time.Hour)); by != 0 {
		t.Errorf("an hour later: %s", by)
	}
	// Without a monotonic reading there is nothing to compare with.
	if by := jump(now.Round(0), now.Add(time.Hour).Round(0)); by != 0 {
		t.Errorf("without a monotonic reading: %s", by)
	}
}
