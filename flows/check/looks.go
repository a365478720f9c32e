package check

import (
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
)

// Movement is the least time between two observations whose difference shows which way
// packets move: gateways report every 10 s.
const Movement = 11 * time.Second

// Looks are two earlier observations of a connection: the latest, and an earlier one as
// long as the latest is too young to compare with. Neither gets older than necessary:
// packets from long ago prove nothing about now.
type Looks struct{ former, latest flows.Facts }

// With adds another observation.
func (l Looks) With(now flows.Facts) Looks {
	if now.At.Sub(l.latest.At) >= Movement {
		return Looks{l.latest, now}
	}
	return l
}

// Diagnose is [Diagnose], compared with an earlier observation if one is old enough.
func (l Looks) Diagnose(now flows.Facts) []Result {
	for _, f := range []*flows.Facts{&l.latest, &l.former} {
		if !f.At.IsZero() && now.At.Sub(f.At) >= Movement {
			return Diagnose(now, f)
		}
	}
	return Diagnose(now, nil)
}
