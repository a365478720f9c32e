package install_test

import (
	"testing"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
)

// If a run installs the operator, connected gateways are not enough: pods on a node without an agent don't
// reach the peer.
func TestConnectingWaitsForTheAgentsThatItBrings(t *testing.T) {
	nodes := func(f *flows.ClusterFacts) {
		f.Nodes = []flows.NodeFacts{{Name: "node-1", Ready: true}, {Name: "node-2", Ready: true}, {Name: "old", Ready: false}, {Name: "win", Ready: true, Excluded: "runs windows"}}
	}
	for name, test := range map[string]struct {
		change func(*flows.ClusterFacts)
		status flows.Status
		says   string
	}{
		"one is missing": {func(f *flows.ClusterFacts) { f.Agents = []string{"node-1"} }, flows.Waiting, "1 of 2 nodes have no agent yet: node-2"},
		"all that can": {
			func(f *flows.ClusterFacts) { f.Agents = []string{"node-1", "node-2"} }, flows.Done,
			"on 2 of 4 nodes; not on old (not ready), win (runs windows)",
		},
		"nodes may not be read":        {func(f *flows.ClusterFacts) { f.Nodes, f.Agents = nil, nil }, flows.Done, "not known: nodes or InternalNodes may not be read"},
		"what they say may not either": {func(f *flows.ClusterFacts) { f.Agents, f.AgentsUnknown = nil, true }, flows.Done, "not known: nodes or InternalNodes may not be read"},
		"every node has one":           {func(f *flows.ClusterFacts) { f.Nodes = f.Nodes[:2]; f.Agents = []string{"node-1", "node-2"} }, flows.Done, ""},
	} {
		pair := flowtest.NewPair()
		f := flows.Facts{Sides: [2]flows.ClusterFacts{pair.A.Facts(), pair.B.Facts()}, At: pair.Now()}
		nodes(&f.Sides[flows.B])
		test.change(&f.Sides[flows.B])
		p := installing(t)
		s, ok := flows.PlanConnect(p, f).Step("agents-b")
		if !ok || s.Status != test.status || s.Reason != test.says {
			t.Errorf("%s: got %v %s %q, want %s %q", name, ok, s.Status, s.Reason, test.status, test.says)
		}
		p.Install[flows.B] = nil
		if _, ok := flows.PlanConnect(p, f).Step("agents-b"); ok {
			t.Errorf("%s: waits, although it has not brought the operator", name)
		}
	}
}
