package check

import (
	"fmt"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/command"
)

// gatewayMode judges whether packets of pods to peers use the routes of the nodes. With OVN-Kubernetes, they
// may not. It passes if OVN-Kubernetes is not there; [withoutOVN] removes the result then.
func gatewayMode(f flows.Facts, side flows.Side) Result {
	c := f.Sides[side]
	if s := c.SharedGateways(side); s != nil {
		return result(Fail, s.Reason, s.Fix...)
	}
	var silent, unknown []string
	local := 0
	for _, n := range c.Nodes {
		switch {
		case n.Excluded != "": // its pods reach no peer
		case n.Gateway == "":
			silent = append(silent, n.Name+" (no annotation)")
		case n.Gateway == flows.LocalGateway:
			local++
		default:
			unknown = append(unknown, fmt.Sprintf("%s (%s)", n.Name, n.Gateway))
		}
	}
	switch {
	case !c.Can().UseOurAgents:
		return pass("Liqo has agents of its own")
	case len(c.Nodes) == 0:
		return result(Skipped, "nodes may not be read")
	case local == 0 && len(unknown) == 0:
		return pass("OVN-Kubernetes is not there")
	case len(unknown)+len(silent) > 0:
		return result(Inconclusive, fmt.Sprintf("the gateway's mode of OVN-Kubernetes is not known of %s", flows.Some(append(unknown, silent...))),
			command.Hintf("see annotation %s: %s", flows.AnnotationGateway, c.Kubectl("get", "nodes", "-o", "yaml")))
	}
	return result(Warn, "OVN-Kubernetes with a local gateway: traced with an imitation, not run",
		command.Hintf("before you rely on it: %s", f.Ours("network", "verify")))
}

func (in preflight) gatewayMode(side flows.Side) Result { return gatewayMode(in.facts, side) }

func (in diagnosis) gatewayMode(side flows.Side) Result { return gatewayMode(in.facts, side) }

// withoutOVN reports whether a result is an empty one of [gatewayMode]: OVN-Kubernetes is not there, or nodes
// may not be read. Before a connection, LT-P008 reports that nodes may not be read.
func withoutOVN(r Result) bool {
	return (r.ID == flows.CodeGatewayMode || r.ID == PodsWay) && (r.State == Pass || r.State == Skipped)
}
