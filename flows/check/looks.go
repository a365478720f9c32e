package check

import (
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
)

// Movement is the least time between two looks at a connection of which the difference
// tells which way packets move: gateways report every 10 s.
const Movement = 11 * time.Second

// Looks are two earlier looks at a connection: the latest, and one before for as long as
// that is too young to compare with. Neither gets older than needed: what moved long ago
// says nothing about now.
type Looks struct{ former, latest flows.Facts }

// With takes in another look.
func (l Looks) With(now flows.Facts) Looks {
	if now.At.Sub(l.latest.At) >= Movement {
		return Looks{l.latest, now}
	}
	return l
}

// Diagnose is [Diagnose], compared with an earlier look if one is old enough.
func (l Looks) Diagnose(now flows.Facts) []Result {
	for _, f := range []*flows.Facts{&l.latest, &l.former} {
		if !f.At.IsZero() && now.At.Sub(f.At) >= Movement {
			return Diagnose(now, f)
		}
	}
	return Diagnose(now, nil)
}
