// Package sleep has the pause that ends with a context.
package sleep

import (
	"context"
	"time"
)

// For waits for a time, and returns false if ctx ends before.
func For(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
