package flows

import "fmt"

// Verifiable says why there is nothing to measure between the clusters.
func Verifiable(f Facts) error {
	c := newConnection(Params{}, f)
	if steps := Unfit(c.facts); len(steps) > 0 {
		facts := c.facts.Side(steps[0].Side)
		e := &StepError{Cluster: facts.Name(), Step: steps[0]}
		if facts.Problem != nil {
			e.Cause = facts.Problem
		}
		return e
	}
	for _, side := range []Side{A, B} {
		if peer := c.peers[side]; peer.Configuration == nil || peer.Server == nil && peer.Client == nil {
			return &StepError{Cluster: c.facts.Side(side).Name(), Step: Refuse(side, CodeVerification, "connection", FailedPreflight,
				fmt.Sprintf("there is none with %s", c.facts.Side(side.Other()).Name()), "connect them first: liqo-tui network connect")}
		}
	}
	return nil
}
