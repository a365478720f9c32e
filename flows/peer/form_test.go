package peer_test

import (
	"strings"
	"testing"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/connect"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/peer"
	"github.com/liqo-tui/liqo-tui/flows/rights"
	"github.com/liqo-tui/liqo-tui/render"
)

// answered returns the parameters after these answers in the form. The answers follow the names of their
// fields.
func answered(t *testing.T, p *flowtest.Pair, answers ...string) flows.Params {
	t.Helper()
	params := flowtest.NodePort()
	for i := 0; i < len(answers); i += 2 {
		for _, f := range peer.Form(flowtest.Facts(p), "rome", "milan") {
			if f.Name != answers[i] {
				continue
			}
			if err := f.Set(&params, answers[i+1]); err != nil {
				t.Fatal(err)
			}
			if got := f.Write(params); got != answers[i+1] {
				t.Errorf("%s is %q, want %q", f.Name, got, answers[i+1])
			}
		}
	}
	return params
}

// The answers become parameters of a plan, which only connects the clusters, or also makes a virtual node.
func TestTheFormAsksWhetherToLend(t *testing.T) {
	p := flowtest.LiqoPair()
	only := answered(t, p, "lend", "connect")
	if plan := flows.PlanConnect(only, flowtest.Facts(p)); plan.Params.Lending != nil || len(plan.Wants(flows.A)) == 0 {
		t.Errorf("connect only: got %+v", plan)
	}
	if fits := only.Uses(peer.Form(flowtest.Facts(p), "rome", "milan")[1]); fits {
		t.Error("it asks for CPUs, and nobody lends any")
	}
	params := answered(t, p, "lend", "Remote", "cpu", "3", "lend", "Local")
	plan := flows.PlanConnect(params, flowtest.Facts(p))
	for _, says := range []string{"milan will let rome ask it", "but nothing outside", "pods of rome may request on milan, in all: cpu 3"} {
		if said := strings.Join(plan.Kept, "\n"); !strings.Contains(said, says) {
			t.Errorf("the plan says\n%s\nwant %q", said, says)
		}
	}
	r := flowtest.MustRun(t, p, connect.Goal{Params: params})
	if said := strings.Join(r.Events[0].Plan.Kept, "\n"); !strings.Contains(said, "cpu 3") {
		t.Errorf("the run says\n%s", said)
	}
	if nodes := p.A.Facts().Lending.Members; len(nodes) != 1 || nodes[0].Status.Allocatable.Cpu().String() != "3" {
		t.Errorf("got %+v, want a virtual node with 3 CPUs", nodes)
	}
	p.Settle()
	p.Forget()
	flowtest.MustRun(t, p, connect.Goal{Params: params})
	if log := p.Log(); len(log) > 0 {
		t.Errorf("a second run wrote %v", log)
	}
	p.B.Be(func(f *flows.ClusterFacts) { f.Software = flows.Operator })
	if form := peer.Form(flowtest.Facts(p), "rome", "milan"); len(form) > 0 {
		t.Errorf("without Liqo it asks for %d things", len(form))
	}
}

// With our operator, each cluster has a role in lending. The form offers only the possible directions.
func TestTheFormOffersWhatTheClustersCan(t *testing.T) {
	for _, c := range []struct {
		a, b render.PeeringRole
		want string
	}{
		{"", "", ""},
		{render.PeeringConsumer, "", ""},
		{render.PeeringConsumer, render.PeeringConsumer, ""},
		{render.PeeringConsumer, render.PeeringProvider, "connect Local"},
		{render.PeeringProvider, render.PeeringConsumer, "connect Remote"},
		{render.PeeringBoth, render.PeeringProvider, "connect Local"},
		{render.PeeringBoth, render.PeeringBoth, "connect Local Remote"},
	} {
		p := flowtest.LiqoPair()
		for i, cluster := range []*flowtest.Cluster{p.A, p.B} {
			role := []render.PeeringRole{c.a, c.b}[i]
			cluster.Be(func(f *flows.ClusterFacts) { f.Software, f.Operator.Peering = flows.Operator, role })
		}
		var got []string
		if form := peer.Form(flowtest.Facts(p), "rome", "milan"); len(form) > 0 {
			for _, o := range form[0].Options {
				got = append(got, o.Value)
			}
		}
		if said := strings.Join(got, " "); said != c.want {
			t.Errorf("%q and %q: got %q, want %q", c.a, c.b, said, c.want)
		}
	}
}

// The checks before a connection name the obstacles to lending, but only if lending is wanted.
func TestPreflightOfAPeering(t *testing.T) {
	p := flowtest.LiqoPair()
	p.B.Behave(func(b *flowtest.Behaviour) { b.Lending.Known = map[string]string{"rome": "ClusterRoleBinding admins"} })
	state := func(params flows.Params) (check.Outcome, string) {
		for _, r := range check.Preflight(params, flowtest.Facts(p), [2]*rights.Review{}) {
			if r.ID == check.Lending {
				return r.State, r.Summary
			}
		}
		return check.Skipped, ""
	}
	if got, summary := state(answered(t, p)); got != check.Skipped {
		t.Errorf("connect only: got %v, %s", got, summary)
	}
	lend := answered(t, p, "lend", "Local")
	if got, summary := state(lend); got != check.Fail || !strings.Contains(summary, "ClusterRoleBinding admins") {
		t.Errorf("got %v, %s", got, summary)
	}
	p.B.Behave(func(b *flowtest.Behaviour) { b.Lending.Known = nil })
	if got, summary := state(lend); got != check.Pass {
		t.Errorf("mended: got %v, %s", got, summary)
	}
}
