package check_test

import (
	"strings"
	"testing"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// The client dials milan's gateway at the address of node milan-1.
func TestADeadKubeProxyIsTheCauseWhereTheClientDials(t *testing.T) {
	pair := flowtest.NewPair()
	connectPair(t, pair)
	down := func(f *flows.Facts) { counts(f, 21504, 0, 0, 0) }
	for name, c := range map[string]struct {
		change  func(*flows.Facts)
		proxies [2]wire.KubeProxy // of milan-1 and milan-2
		gone    bool              // the agent of milan-1 has ended
		want    check.Outcome
		root    flows.Code
	}{
		"all answer":                           {func(*flows.Facts) {}, [2]wire.KubeProxy{wire.KubeProxyAnswers, wire.KubeProxyAnswers}, false, check.Pass, ""},
		"nothing ever answered":                {func(*flows.Facts) {}, [2]wire.KubeProxy{}, false, check.Inconclusive, ""},
		"one node does not know":               {func(*flows.Facts) {}, [2]wire.KubeProxy{wire.KubeProxyAnswers}, false, check.Inconclusive, ""},
		"the report is of an agent that ended": {func(*flows.Facts) {}, [2]wire.KubeProxy{wire.KubeProxyAnswers, wire.KubeProxyAnswers}, true, check.Inconclusive, ""},
		"the agent ended after it":             {down, [2]wire.KubeProxy{wire.KubeProxySilent, wire.KubeProxyAnswers}, true, check.Inconclusive, check.UDPPath},
		"agents' pods may not be read":         {func(f *flows.Facts) { f.Sides[flows.B].AttendanceUnknown = true }, [2]wire.KubeProxy{wire.KubeProxyAnswers, wire.KubeProxyAnswers}, false, check.Inconclusive, ""},
		"it ended, and the tunnel works":       {func(*flows.Facts) {}, [2]wire.KubeProxy{wire.KubeProxySilent, wire.KubeProxyAnswers}, false, check.Warn, ""},
		"it ended, and the tunnel is down":     {down, [2]wire.KubeProxy{wire.KubeProxySilent, wire.KubeProxyAnswers}, false, check.Fail, check.KubeProxy},
		"it ended on another node":             {down, [2]wire.KubeProxy{wire.KubeProxyAnswers, wire.KubeProxySilent}, false, check.Warn, check.UDPPath},
		"behind a load balancer":               {func(f *flows.Facts) { down(f); f.Sides[flows.B].Nodes = nil }, [2]wire.KubeProxy{wire.KubeProxyAnswers, wire.KubeProxySilent}, false, check.Fail, check.KubeProxy},
	} {
		f := factsOf(pair)
		b := &f.Sides[flows.B]
		dialled := f.Sides[flows.A].Clients[0].Spec.Endpoint.Addresses[0]
		b.Nodes = []flows.NodeFacts{node("milan-1", dialled, ""), node("milan-2", "172.18.0.77", "")}
		b.Agents, b.AgentStatus = []string{"milan-1", "milan-2"}, map[string]wire.NodeStatus{
			"milan-1": {Level: wire.NodeLevel, KubeProxy: c.proxies[0]}, "milan-2": {Level: wire.NodeLevel, KubeProxy: c.proxies[1]},
		}
		if c.gone {
			b.Unattended = []string{"milan-1"}
		}
		c.change(&f)
		results := check.Diagnose(f, new(before(f)))
		for _, r := range results {
			if r.ID == check.KubeProxy && r.Sides[0] == flows.B && r.State != c.want {
				t.Errorf("%s: got %s: %s", name, r.State, r.Summary)
			}
			if r.ID == check.KubeProxy && r.Sides[0] == flows.B && r.State == check.Warn && !strings.Contains(r.Summary, "milan-") {
				t.Errorf("%s: no node is named: %s", name, r.Summary)
			}
			if r.Root && r.ID != c.root {
				t.Errorf("%s: %s is called the cause: %s", name, r.ID, r.Summary)
			}
		}
	}
}
