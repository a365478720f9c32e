package check

import (
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/view"
)

// podTraffic asks for more than that the gateways reach each other.
func (in diagnosis) podTraffic(flows.Side) Result {
	var ends [2]view.End
	for side, r := range in.readings {
		ends[side] = view.End{ID: in.cluster(flows.Side(side)).ID, Chosen: true, Reading: r}
	}
	state, how := view.FromPodToPod(ends, nil, in.facts.At)
	if state == view.Connected {
		return pass(how)
	}
	return result(Inconclusive, how+": the gateways reach each other, of pods nothing is known", "send packets from pod to pod: liqo-tui network verify")
}
