package flows

import (
	"fmt"

	"github.com/liqo-tui/liqo-tui/internal/command"
)

// Verifiable returns the reason that packets between the clusters can't be
// measured; nil if they can be.
func Verifiable(f Facts) error {
	c := NewConnection(Params{}, f)
	if steps := Obstacles(c.Facts); len(steps) > 0 {
		facts := c.Facts.Sides[steps[0].Side]
		e := &StepError{Cluster: facts.Name(), Step: steps[0]}
		if facts.Problem != nil {
			e.Cause = facts.Problem
		}
		return e
	}
	for _, side := range []Side{A, B} {
		if end := c.Ends[side]; end.Configuration == nil || end.Server == nil && end.Client == nil {
			return &StepError{Cluster: c.Facts.Sides[side].Name(), Step: Refuse(side, CodeVerification, "connection", FailedPreflight,
				fmt.Sprintf("there is none with %s", c.Facts.Sides[side.Other()].Name()), command.Hintf("connect them first: %s", f.Ours("network", "connect")))}
		}
	}
	return nil
}
