package board

import (
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
)

// A diagnosis that was opened long ago does not judge by what moved since then.
func TestADiagnosisComparesWithARecentLook(t *testing.T) {
	start := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	var l looks
	for after := time.Duration(0); after < 10*time.Minute; after += time.Second {
		l = l.with(flows.Facts{At: start.Add(after)})
		now := start.Add(after)
		if age := now.Sub(l.last.At); age >= diagnosisGap {
			t.Fatalf("after %s: the last look is %s old", after, age)
		}
		if age := now.Sub(l.before.At); after >= diagnosisGap && (age < diagnosisGap || age >= 2*diagnosisGap) {
			t.Fatalf("after %s: the look to compare with is %s old", after, age)
		}
	}
}
