package check

import (
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
)

// Movement is the least time between two observations that are compared to see in which
// direction packets move. Gateways report every 10 s.
const Movement = 11 * time.Second

// Looks has two earlier observations of a connection. The older one is used until the
// latest one is old enough to compare with. Observations that are older than needed are
// dropped: packets from long ago prove nothing about now.
type Looks struct{ former, latest flows.Facts }

// With adds another observation.
func (l Looks) With(now flows.Facts) Looks {
	if now.At.Sub(l.latest.At) >= Movement {
		return Looks{l.latest, now}
	}
	return l
}

// Diagnose calls [Diagnose] with an earlier observation, if one is old enough.
func (l Looks) Diagnose(now flows.Facts) []Result {
	for _, f := range []*flows.Facts{&l.latest, &l.former} {
		if !f.At.IsZero() && now.At.Sub(f.At) >= Movement {
			return Diagnose(now, f)
		}
	}
	return Diagnose(now, nil)
}
