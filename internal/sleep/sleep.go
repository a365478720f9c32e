// Package sleep lets time pass that a context can end.
package sleep

import (
	"context"
	"time"
)

// For lets time pass; false if ctx has ended before.
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
