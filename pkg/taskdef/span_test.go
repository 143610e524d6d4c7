package taskdef

import (
	"math"
	"testing"
	"time"
)

func TestSpanNeverBecomesAnotherOne(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]time.Duration{
		0: 0, 90: 90 * time.Second, -1: -time.Second, 9223372036: 9223372036 * time.Second, 9223372037: math.MaxInt64, -9223372037: math.MinInt64,
		18446744074: math.MaxInt64, math.MaxInt64: math.MaxInt64, math.MinInt64: math.MinInt64,
	} {
		if got := Span(n, time.Second); got != want {
			t.Errorf("%d seconds are %s, not %s", n, got, want)
		}
	}
}
