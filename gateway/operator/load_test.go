package operator

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestFailuresAreTriedAgainWithinHalfAMinute(t *testing.T) {
	limiter := workers(1).RateLimiter
	for range 100 {
		if wait := limiter.When(reconcile.Request{}); wait > lastRetry {
			t.Fatalf("waits %s", wait)
		}
	}
}
