// Package sleep provides a sleep that a context can end.
package sleep

import (
	"context"
	"time"
)

// For sleeps for the time d. It returns false if ctx has ended before.
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
