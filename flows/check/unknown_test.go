package check_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/rights"
	"github.com/liqo-tui/liqo-tui/render"
)

// "None", "not read" and "may not be read" are three different results.
func TestNoWarningsPassesOnlyIfSomebodyHasAsked(t *testing.T) {
	pair := flowtest.NewPair()
	connectPair(t, pair)
	warnings := func(change func(*flows.ClusterFacts)) check.Result {
		f := factsOf(pair)
		change(&f.Sides[flows.A])
		return find(t, check.Diagnose(f, nil), check.Warnings) // the result for A
	}
	for name, c := range map[string]struct {
		read    map[string]string
		state   check.Outcome
		summary string
	}{
		"asked":           {map[string]string{"liqo-tenant-milan": ""}, check.Pass, "none"},
		"not asked":       {nil, check.Inconclusive, check.NotRead},
		"others asked":    {map[string]string{"liqo": ""}, check.Inconclusive, check.NotRead},
		"may not be read": {map[string]string{"liqo-tenant-milan": "events is forbidden"}, check.Inconclusive, "they can't be read: events is forbidden"},
	} {
		r := warnings(func(f *flows.ClusterFacts) { f.EventsRead = c.read })
		if r.State != c.state || r.Summary != c.summary {
			t.Errorf("%s: got %s %q, want %s %q", name, r.State, r.Summary, c.state, c.summary)
		}
	}
	r := warnings(func(f *flows.ClusterFacts) { f.Servers, f.Clients = nil, nil })
	if r.State != check.Inconclusive || r.Summary != "there is no gateway here" {
		t.Errorf("without a gateway: got %s %q", r.State, r.Summary)
	}
}

// No check calls an object missing if the user may not see it.
func TestWhatMayNotBeReadIsNotMissing(t *testing.T) {
	pair := flowtest.NewPair()
	connectPair(t, pair)
	noPods := func(f *flows.ClusterFacts) { f.Pods = nil }
	for name, c := range map[string]struct {
		change func(*flows.ClusterFacts)
		id     flows.Code
		want   check.Outcome
	}{
		"pods may be read":        {noPods, check.GatewayPod, check.Fail},
		"pods may not":            {func(f *flows.ClusterFacts) { noPods(f); f.PodsHidden = true }, check.GatewayPod, check.Inconclusive},
		"those in another place":  {func(f *flows.ClusterFacts) { noPods(f); f.PodsHidden, f.PodsSeen = true, "liqo-tenant-other" }, check.GatewayPod, check.Inconclusive},
		"those where it would be": {func(f *flows.ClusterFacts) { noPods(f); f.PodsHidden, f.PodsSeen = true, "liqo-tenant-milan" }, check.GatewayPod, check.Fail},
		"nothing is installed":    {func(f *flows.ClusterFacts) { f.Software = flows.NoSoftware }, check.Operator, check.Fail},
		"Deployments are hidden":  {func(f *flows.ClusterFacts) { f.Software, f.ManagersHidden = flows.NoSoftware, true }, check.Operator, check.Inconclusive},
	} {
		f := factsOf(pair)
		c.change(&f.Sides[flows.A])
		r := find(t, check.Diagnose(f, nil), c.id)
		if r.State != c.want || c.want == check.Inconclusive && (!strings.Contains(r.Summary, "may not be read") || len(r.Fix) == 0) {
			t.Errorf("%s: got %s %q, want %s", name, r.State, r.Summary, c.want)
		}
	}
}

// The same holds before a connection. Nothing is installed if an existing installation could be hidden.
func TestWhatMayNotBeReadIsNotInstalledOver(t *testing.T) {
	hidden := func(f *flows.ClusterFacts) { f.Software, f.ManagersHidden = flows.NoSoftware, true }
	for name, c := range map[string]struct {
		change func(*flows.ClusterFacts)
		id     flows.Code
		want   check.Outcome
	}{
		"nothing is installed":                 {bare, flows.CodeSoftware, check.Fail},
		"Deployments are hidden":               {hidden, flows.CodeSoftware, check.Inconclusive},
		"they are, and nothing else is there":  {func(f *flows.ClusterFacts) { bare(f); hidden(f) }, flows.CodeSoftware, check.Inconclusive},
		"the API is there, and no operator":    {func(f *flows.ClusterFacts) { f.Software = flows.NoSoftware }, flows.CodeOperator, check.Fail},
		"Deployments are hidden, the operator": {hidden, flows.CodeOperator, check.Inconclusive},
		"all namespaces may be read":           {func(*flows.ClusterFacts) {}, check.Leftovers, check.Pass},
		"one namespace may be read":            {func(f *flows.ClusterFacts) { f.PeersHidden = true }, check.Leftovers, check.Inconclusive},
	} {
		f := factsOf(flowtest.NewPair())
		c.change(&f.Sides[flows.A])
		r := preflight(nodePort(), f)[string(c.id)+" A"]
		if r.State != c.want || c.want == check.Inconclusive && (!strings.Contains(r.Summary, "may not be read") || len(r.Fix) == 0) {
			t.Errorf("%s: got %s %q, want %s", name, r.State, r.Summary, c.want)
		}
		if may := strings.HasPrefix(name, "nothing is installed") || strings.HasPrefix(name, "the API is there"); f.Sides[flows.A].Installable() != may {
			t.Errorf("%s: installable is %t", name, f.Sides[flows.A].Installable())
		}
	}
	f := factsOf(flowtest.NewPair())
	bare(&f.Sides[flows.A])
	hidden(&f.Sides[flows.A])
	if failed := flows.FirstObstacle(flows.A, f.Sides[flows.A]); failed == nil || !strings.Contains(failed.Reason, "Deployments may not be read in all namespaces") {
		t.Errorf("a plan says %v", failed)
	}
}

// A hidden gateway may have the port. If this connection's own gateway has it, no other one can.
func TestANodePortIsFreeIfAllGatewaysAreSeen(t *testing.T) {
	pair := flowtest.NewPair()
	p := nodePort()
	p.NodePort = 31000
	for _, c := range []struct {
		name   string
		hidden bool
		ports  flows.PortRange
		used   []flows.UsedPort
		unread bool
		want   check.Outcome
	}{
		{"all are seen", false, flows.PortRange{From: 30000, To: 32767}, []flows.UsedPort{{Port: 31001, Namespace: "shop", Name: "web"}}, false, check.Pass},
		{"one namespace may be read", true, flows.PortRange{From: 30000, To: 32767}, nil, false, check.Inconclusive},
		{"the API server's pod may not be read", false, flows.PortRange{}, nil, false, check.Inconclusive},
		{"Services may not be read", false, flows.PortRange{From: 30000, To: 32767}, nil, true, check.Inconclusive},
		{"another program's Service has it", false, flows.PortRange{From: 30000, To: 32767}, []flows.UsedPort{{Port: 31000, Namespace: "shop", Name: "web"}}, false, check.Fail},
		{"it is this connection's", true, flows.PortRange{}, []flows.UsedPort{{Port: 31000, Namespace: "liqo-tenant-rome", Name: "gw-rome"}}, true, check.Pass},
	} {
		if c.name == "it is this connection's" {
			if _, err := flowtest.Run(t, pair, flowtest.Connect(p)); err != nil {
				t.Fatal(err)
			}
		}
		f := factsOf(pair)
		f.Sides[p.Server].PeersHidden, f.Sides[p.Server].NodePorts = c.hidden, c.ports
		f.Sides[p.Server].UsedPorts, f.Sides[p.Server].ServicesHidden = c.used, c.unread
		if r := preflight(p, f)[string(flows.CodeFreePort)+" A,B"]; r.State != c.want {
			t.Errorf("%s: got %s %q, want %s", c.name, r.State, r.Summary, c.want)
		}
	}
}

// bare removes everything that is installed on a cluster.
func bare(f *flows.ClusterFacts) {
	f.Software, f.HasCRDs, f.ID, f.Networks = flows.NoSoftware, false, "", render.Networks{}
}

func preflight(p flows.Params, f flows.Facts) map[string]check.Result {
	results := map[string]check.Result{}
	for _, r := range check.Preflight(p, f, [2]*rights.Review{{}, {}}) {
		results[string(r.ID)+" "+sideOf(r)] = r
	}
	return results
}

// A plan that is blocked needs no rights, applies nothing and interrupts nothing.
func TestNothingPassesBecauseThePlanIsBlocked(t *testing.T) {
	pair := flowtest.NewPair()
	pair.A.Be(bare)
	pair.B.Be(bare)
	f := factsOf(pair)
	f.Tried = new(flows.PlanConnect(nodePort(), f))
	results := preflight(nodePort(), f)
	for _, id := range []string{"LT-P006 A", "LT-P006 B", "LT-P016 A", "LT-P016 B"} {
		if r, ok := results[id]; !ok || r.State != check.Inconclusive {
			t.Errorf("%s: got %s %q, want inconclusive", id, r.State, r.Summary)
		}
	}
	// If a node port is outside of the range, only the plan fails.
	pair = flowtest.NewPair()
	connectPair(t, pair)
	p := nodePort()
	p.Server, p.ServiceType, p.NodePort = flows.A, corev1.ServiceTypeNodePort, 40000
	pair.A.Be(func(f *flows.ClusterFacts) { f.NodePorts = flows.PortRange{From: 30000, To: 32767} })
	f = factsOf(pair)
	f.Tried = new(flows.PlanConnect(p, f))
	for _, id := range []string{"LT-P006 A", "LT-P013 A,B", "LT-P016 B"} {
		if r := preflight(p, f)[id]; r.State != check.Inconclusive {
			t.Errorf("%s: got %s %q, want inconclusive", id, r.State, r.Summary)
		}
	}
}

func TestAdmissionPassesOnlyForWhatWasTried(t *testing.T) {
	f := factsOf(flowtest.NewPair())
	plan := flows.PlanConnect(nodePort(), f)
	for _, tried := range []bool{false, true} {
		for i := range plan.Steps {
			plan.Steps[i].Tried = tried && plan.Steps[i].Status == flows.Ready
		}
		f.Tried = &plan
		for _, id := range []string{"LT-P016 A", "LT-P016 B"} {
			if r := preflight(nodePort(), f)[id]; (r.State == check.Pass) != tried {
				t.Errorf("%s, tried %t: got %s %q", id, tried, r.State, r.Summary)
			}
		}
	}
	pair := flowtest.NewPair()
	connectPair(t, pair)
	f = factsOf(pair)
	f.Tried = new(flows.PlanConnect(nodePort(), f))
	for _, id := range []string{"LT-P006 A", "LT-P016 A"} {
		if r := preflight(nodePort(), f)[id]; r.State != check.Pass {
			t.Errorf("%s of a plan that is done: got %s %q, want pass", id, r.State, r.Summary)
		}
	}
}

// A failure of one cluster, or of the choice of clusters, hides no failure of another one.
func TestAnotherFailureHidesNone(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*flows.Facts)
		fails  []string
	}{
		"A does not answer": {func(f *flows.Facts) {
			f.Sides[flows.A].Problem = &flows.Problem{Kind: flows.Unreachable, Message: "no answer"}
			bare(&f.Sides[flows.B])
		}, []string{"LT-P001 A", "LT-P003 B"}},
		"the same cluster twice": {func(f *flows.Facts) {
			bare(&f.Sides[flows.A])
			bare(&f.Sides[flows.B])
			f.Sides[flows.B].UID = f.Sides[flows.A].UID
		}, []string{"LT-P002 A,B", "LT-P003 A", "LT-P003 B"}},
		"an ID that is none, and two operators": {func(f *flows.Facts) {
			f.Sides[flows.B].ID, f.Sides[flows.B].Operator = "007", flows.OperatorFacts{Problem: "Liqo is here", Refuses: true}
		}, []string{"LT-P004 A,B", "LT-P007 B"}},
		"one ID, and no ranges": {func(f *flows.Facts) {
			f.Sides[flows.B].ID, f.Sides[flows.B].Networks = f.Sides[flows.A].ID, render.Networks{}
		}, []string{"LT-P004 A,B", "LT-P005 B"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := factsOf(flowtest.NewPair())
			c.change(&f)
			results := preflight(nodePort(), f)
			for _, id := range c.fails {
				if r, ok := results[id]; !ok || r.State != check.Fail {
					t.Errorf("%s: got %s %q, want fail", id, r.State, r.Summary)
				}
			}
			for id, r := range results {
				if r.Root && r.ID != check.Overlaps && !slices.Contains(c.fails, id) {
					t.Errorf("%s is a root cause too: %s", id, r.Summary)
				}
			}
		})
	}
}

// The check does not warn about the suggested MTU.
func TestTheSuggestedMTUIsNotWarnedOf(t *testing.T) {
	for name, change := range map[string]func(*flows.ClusterFacts){
		"nothing is installed": bare,
		"our operator":         func(*flows.ClusterFacts) {},
		"Liqo":                 func(f *flows.ClusterFacts) { f.Software = flows.Liqo },
	} {
		pair := flowtest.NewPair()
		pair.A.Be(change)
		pair.B.Be(change)
		f, p := factsOf(pair), flows.Defaults()
		flows.Suggest(flows.ConnectionSetting{Sets: flows.FieldMTU}, &p, f)
		if r := preflight(p, f)[string(check.TunnelMTU)+" A,B"]; r.State != check.Pass {
			t.Errorf("%s: MTU %d was suggested, and the check says %s %q", name, p.MTU, r.State, r.Summary)
		}
	}
}

func TestTheZeroValueOfAStateIsNoGoodNews(t *testing.T) {
	if s := (check.Result{}).State; s != check.Inconclusive || s.String() != "inconclusive" {
		t.Errorf("got %s", s)
	}
}
