package check

import (
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
)

// A screen that was opened long ago compares with a recent observation, not with its first one.
func TestADiagnosisComparesWithARecentLook(t *testing.T) {
	start := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	var l Looks
	for after := time.Duration(0); after < 10*time.Minute; after += time.Second {
		now := start.Add(after)
		l = l.With(flows.Facts{At: now})
		if age := now.Sub(l.latest.At); age >= Movement {
			t.Fatalf("after %s: the latest look is %s old", after, age)
		}
		if age := now.Sub(l.former.At); after >= Movement && (age < Movement || age >= 2*Movement) {
			t.Fatalf("after %s: the look to compare with is %s old", after, age)
		}
	}
}
