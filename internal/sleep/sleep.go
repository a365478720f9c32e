// Package sleep has a sleep that a context can end.
package sleep

import (
	"context"
	"time"
)

// For sleeps; it returns false if ctx has ended before.
func For(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
