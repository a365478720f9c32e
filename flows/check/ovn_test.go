package check_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/install"
	"github.com/liqo-tui/liqo-tui/flows/rights"
	"github.com/liqo-tui/liqo-tui/render"
)

// With a shared gateway of OVN-Kubernetes, packets to peers don't use our agents' routes, and leave the
// cluster unencrypted. Both catalogues judge the same nodes.
func TestAGatewayPastTheNodesRoutesIsFound(t *testing.T) {
	const shared, local = `{"default":{"mode":"shared","next-hops":["192.0.2.1"]}}`, `{"default":{"mode":"local"}}`
	for name, c := range map[string]struct {
		annotations []string // of the nodes m1, m2, …
		software    flows.Software
		want        check.Outcome
		says        string // "": no finding
	}{
		"no OVN-Kubernetes":           {[]string{"", ""}, flows.Operator, check.Pass, ""},
		"nodes may not be read":       {nil, flows.Operator, check.Skipped, ""},
		"shared":                      {[]string{shared, shared}, flows.Operator, check.Fail, "OVN-Kubernetes of milan has a shared gateway on m1, m2: pods' packets to peers leave the cluster unencrypted, under the node's address"},
		"one node is shared":          {[]string{local, shared, "{", ""}, flows.Operator, check.Fail, "shared gateway on m2:"},
		"local":                       {[]string{local, local}, flows.Operator, check.Warn, "traced with an imitation, not run"},
		"one node says nothing":       {[]string{local, ""}, flows.Operator, check.Inconclusive, "not known of m2 (no annotation)"},
		"no JSON":                     {[]string{local, "{"}, flows.Operator, check.Inconclusive, "not known of m2 (unreadable)"},
		"another type":                {[]string{`{"default":{"mode":1}}`}, flows.Operator, check.Inconclusive, "not known of m1 (unreadable)"},
		"an unknown mode":             {[]string{`{"default":{"mode":"bridged"}}`, ""}, flows.Operator, check.Inconclusive, "not known of m1 (bridged), m2 (no annotation)"},
		"a gateway that is disabled":  {[]string{`{"default":{"mode":""}}`}, flows.Operator, check.Inconclusive, "not known of m1 (no mode)"},
		"no default network":          {[]string{`{}`}, flows.Operator, check.Inconclusive, "not known of m1 (no mode)"},
		"Liqo's agents are not ours":  {[]string{shared}, flows.Liqo, check.Pass, ""},
		"of Liqo's, nothing is known": {nil, flows.Liqo, check.Pass, ""},
	} {
		pair := flowtest.NewPair()
		connectPair(t, pair)
		f := factsOf(pair)
		b := &f.Sides[flows.B]
		b.Software, b.Nodes = c.software, nil
		for i, text := range c.annotations {
			n := machine("m"+string(rune('1'+i)), "6.1.0", 4000, 8e9)
			n.Gateway = flows.ParseGatewayMode(text)
			b.Nodes = append(b.Nodes, n)
		}
		for id, results := range map[flows.Code][]check.Result{
			flows.CodeGatewayMode: check.Preflight(nodePort(), f, [2]*rights.Review{}), check.PodsWay: check.Diagnose(f, nil),
		} {
			i := slices.IndexFunc(results, func(r check.Result) bool { return r.ID == id && r.Sides[0] == flows.B })
			if id == flows.CodeGatewayMode && c.annotations == nil { // LT-P008 says that nodes may not be read
				if i >= 0 || c.software == flows.Operator && !strings.Contains(text(results), "nodes can run the agent: nodes may not be read") {
					t.Errorf("%s: got\n%s", name, text(results))
				}
				continue
			}
			switch {
			case i < 0 && c.says != "":
				t.Errorf("%s: no %s in\n%s", name, id, text(results))
			case i >= 0 && c.says == "":
				t.Errorf("%s: got %s", name, text(results[i:i+1]))
			case i >= 0 && (results[i].State != c.want || !strings.Contains(results[i].Summary, c.says)):
				t.Errorf("%s: got %s, want %s and %q", name, text(results[i:i+1]), c.want, c.says)
			}
		}
	}
}

// Pods on a node without our programs reach no peer, so the node's mode does not matter.
func TestExcludedNodesNeedNoGatewayMode(t *testing.T) {
	pair := flowtest.NewPair()
	pair.B.Be(func(f *flows.ClusterFacts) {
		n := machine("m1", "6.1.0", 4000, 8e9)
		n.Gateway = flows.LocalGateway
		f.Nodes = []flows.NodeFacts{n, {Name: "win", Ready: true, Excluded: "runs windows"}}
	})
	r := find(t, slices.DeleteFunc(check.Preflight(nodePort(), factsOf(pair), [2]*rights.Review{}), func(r check.Result) bool { return r.Sides[0] == flows.A }), flows.CodeGatewayMode)
	if r.State != check.Warn {
		t.Errorf("got %s", text([]check.Result{r}))
	}
}

// If packets would leave the cluster unencrypted, no plan for a connection applies anything, also if it
// installs the operator. An installation alone and the removal of a connection are allowed.
func TestSharedGatewaysStopBeforeAnythingIsApplied(t *testing.T) {
	pair := flowtest.NewPair()
	pair.B.Be(func(f *flows.ClusterFacts) {
		n := machine("m1", "6.1.0", 4000, 8e9)
		n.Gateway = flows.SharedGateway
		f.Nodes = []flows.NodeFacts{n}
	})
	f := factsOf(pair)
	bare := f
	bare.Sides[flows.B].Software, bare.Sides[flows.B].HasCRDs, bare.Sides[flows.B].ID = flows.NoSoftware, false, ""
	installs := nodePort()
	installation := render.InstallParams{ClusterID: "milan", Image: "registry.example/gw:1"}
	i, err := install.New(installation)
	if err != nil {
		t.Fatal(err)
	}
	installs.Install[flows.B] = i
	for name, plan := range map[string]flows.Plan{
		"connect":           flows.PlanConnect(nodePort(), f),
		"init":              flows.PlanInit(nodePort(), f),
		"connect --install": flows.PlanConnect(installs, bare),
	} {
		if s := plan.Failure(); s == nil || s.Code != flows.CodeGatewayMode || len(plan.Steps) != 1 || len(s.Fix) == 0 || !strings.Contains(s.Fix[0].String(), "routingViaHost") {
			t.Errorf("%s: got %+v", name, plan.Steps)
		}
	}
	alone := flows.Facts{Sides: [2]flows.ClusterFacts{bare.Sides[flows.B]}, At: f.At}
	if s := install.Plan(installation, alone).Failure(); s != nil {
		t.Errorf("install is refused: %+v", s)
	}
	if s := flows.PlanReset(flows.RemoveOptions{}, f).Failure(); s != nil {
		t.Errorf("reset is refused: %+v", s)
	}
}
