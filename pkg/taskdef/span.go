package taskdef

import (
	"math"
	"time"
)

// Span is n times a unit, as clients give it. What is too long for a Duration is the longest or the shortest one, which no
// limit lets pass.
func Span[N int | int64](n N, unit time.Duration) time.Duration {
	switch most := N(math.MaxInt64 / unit); {
	case n > most:
		return math.MaxInt64
	case n < -most:
		return math.MinInt64
	}
	return time.Duration(n) * unit
}
