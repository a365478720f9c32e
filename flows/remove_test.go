package flows_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/lending"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

func TestPlanReset(t *testing.T) {
	notThere := want{status: flows.Done, reason: "does not exist"}
	for _, tc := range []planCase{
		{name: "nothing exists: nothing to do", steps: 12, want: map[flows.StepID]want{
			"gateway-client-a": notThere, "gateway-server-b": notThere, "public-key-a": notThere,
			"drained-a": {status: flows.Done}, "configuration-b": notThere, "namespace-a": notThere,
		}},
		{name: "connected: the gateways go first", past: flowtest.Connected, want: map[flows.StepID]want{
			"gateway-client-a": {status: flows.Ready},
			"gateway-server-a": notThere,
			"gateway-server-b": {status: flows.Ready},
			"public-key-b":     {status: flows.Ready},
			"drained-a":        {status: flows.Blocked, reason: "needs the gateway to be deleted"},
			"configuration-a":  {status: flows.Blocked, reason: "needs the gateway to be deleted"},
			"namespace-a":      {status: flows.Blocked, reason: "needs the other deletions"},
		}},
		{
			name: "a gateway is held by a finalizer: it is named", past: flowtest.But(flowtest.Connected, func(p *flowtest.Pair) {
				live := p.B.Facts().Servers[0]
				p.B.Terminate(&live)
			}),
			want: map[flows.StepID]want{
				"gateway-server-b": {status: flows.Waiting, reason: "being deleted, held by flowtest.liqo-tui.dev/hold"},
				"configuration-b":  {status: flows.Blocked, reason: "needs the gateway to be deleted"},
			},
		},
		{
			name: "the gateway is gone, its pod is not: the namespace waits", past: flowtest.But(flowtest.Connected, func(p *flowtest.Pair) {
				client, conf := p.A.Facts().Clients[0], p.A.Facts().Configurations[0]
				p.A.Remove(&client, &conf)
			}),
			want: map[flows.StepID]want{
				"gateway-client-a": notThere,
				"drained-a":        {status: flows.Waiting, reason: "the gateway's pod is still ending"},
				"configuration-a":  notThere,
				"namespace-a":      {status: flows.Blocked, reason: "needs the other deletions"},
			},
		},
		{
			name: "all that is left is a Connection without an owner", past: flowtest.But(flowtest.PartWay(1, flowtest.NodePort()), func(p *flowtest.Pair) {
				conn := render.Gateway{Tenant: p.A.Tenant(), Name: "milan", Owner: render.TenantNamespace(p.A.Tenant())}.Connection()
				conn.OwnerReferences = nil
				p.A.Put(conn)
			}),
			want: map[flows.StepID]want{"drained-a": {status: flows.Waiting, reason: "the Connection still exists"}},
		},
		{
			name: "only the namespaces are left", past: flowtest.PartWay(1, flowtest.NodePort()),
			want: map[flows.StepID]want{"configuration-a": notThere, "namespace-a": {status: flows.Ready}, "namespace-b": {status: flows.Ready}},
		},
		{
			name: "a namespace that Kubernetes is still deleting is not waited for", past: flowtest.But(flowtest.PartWay(1, flowtest.NodePort()), func(p *flowtest.Pair) {
				p.A.Terminate(render.TenantNamespace(p.A.Tenant()))
			}),
			want: map[flows.StepID]want{"namespace-a": {status: flows.Done, reason: "being deleted by Kubernetes"}},
		},
		{
			name: "another tool's connection goes, its namespaces stay",
			past: flowtest.But(flowtest.Nothing, func(p *flowtest.Pair) { p.ConnectByLiqoctl(flows.A) }),
			want: map[flows.StepID]want{
				"gateway-server-a": {status: flows.Ready},
				"gateway-client-b": {status: flows.Ready},
				"namespace-a":      {status: flows.Done, reason: "kept: liqo-tui did not create it"},
			},
		},
		{
			name: "a cluster that can't be used is not worked on", steps: 1, past: flowtest.But(flowtest.Connected, func(p *flowtest.Pair) {
				p.A.Be(func(f *flows.ClusterFacts) {
					f.Problem = &flows.Problem{Kind: flows.Forbidden, Message: "list Configurations: forbidden", Fix: command.Text("ask for the right")}
				})
			}),
			want: map[flows.StepID]want{"preflight-a": {flows.Failed, "list Configurations: forbidden", "ask for the right", flows.FailedAccess}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			checkPlan(t, tc, func(_ flows.Params, f flows.Facts) flows.Plan { return flows.PlanReset(flows.RemoveOptions{}, f) })
		})
	}
}

// A node whose agent does not run does not follow a removal, and nothing in the cluster waits for it.
func TestARemovalNamesTheNodesThatDontFollowIt(t *testing.T) {
	for name, plan := range map[string]flows.Planner{
		"reset":      func(f flows.Facts) flows.Plan { return flows.PlanReset(flows.RemoveOptions{}, f) },
		"disconnect": func(f flows.Facts) flows.Plan { return flows.PlanDisconnect(flows.RemoveOptions{}, f) },
		"one side":   func(f flows.Facts) flows.Plan { return flows.PlanReset(flows.RemoveOptions{LocalOnly: true}, f) },
	} {
		p := flowtest.NewPair()
		flowtest.Connected(t, p)
		f := flowtest.Facts(p)
		if kept := plan(f).Kept; len(kept) > 0 {
			t.Errorf("%s, and all agents run: got %q", name, kept)
		}
		f.Sides[flows.A].Unattended = []string{"rome-2"}
		want := fmt.Sprintf("nodes of %s without an agent that is ready keep their routes to %s until one is: rome-2", f.Sides[flows.A].ID, f.Sides[flows.B].ID)
		if kept := plan(f).Kept; !slices.Equal(kept, []string{want}) {
			t.Errorf("%s: got %q, want %q", name, kept, want)
		}
	}
	none := flowtest.Facts(flowtest.NewPair())
	none.Sides[flows.A].Unattended = []string{"rome-2"}
	if kept := flows.PlanReset(flows.RemoveOptions{}, none).Kept; len(kept) > 0 {
		t.Errorf("there is nothing to remove: got %q", kept)
	}
}

// A user who may not read virtual nodes is told that pods on them would lose the network.
func TestAResetSaysThatLendingMayBeHidden(t *testing.T) {
	p := flowtest.NewPair()
	flowtest.Connected(t, p)
	hidden, seen := &lending.Facts{Hidden: map[string]bool{"VirtualNode": true}}, &lending.Facts{}
	for name, c := range map[string]struct {
		lending [2]*lending.Facts
		local   bool
		want    bool
	}{
		"hidden on both":             {[2]*lending.Facts{hidden, hidden}, false, true},
		"read on one":                {[2]*lending.Facts{hidden, seen}, false, false},
		"read on the one that stays": {[2]*lending.Facts{hidden, seen}, true, true},
		"neither lends":              {[2]*lending.Facts{}, false, false},
	} {
		f := flowtest.Facts(p)
		f.Sides[flows.A].Lending, f.Sides[flows.B].Lending = c.lending[flows.A], c.lending[flows.B]
		if kept := flows.PlanReset(flows.RemoveOptions{LocalOnly: c.local}, f).Kept; (len(kept) > 0) != c.want {
			t.Errorf("%s: got %q", name, kept)
		}
	}
}

// What a reset counts is deletions, also of what it can't delete yet.
func TestPlanResetCountsDeletionsOnly(t *testing.T) {
	p := flowtest.NewPair()
	p.Pacing = flowtest.Manual
	flowtest.Connected(t, p)
	if got := flowtest.Reset(flowtest.Facts(p)).Changes(); got != (flows.Summary{Delete: 8}) {
		t.Errorf("got %s, want 8 to delete", got)
	}
}

func TestARemovalLooksInTheNamespaceThatIsNamed(t *testing.T) {
	p := flowtest.NewPair()
	flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort()))
	plan := flows.PlanReset(flows.RemoveOptions{Namespaces: [2]string{"", "elsewhere"}}, flowtest.Facts(p))
	if s := plan.Failure(); s == nil || s.Side != flows.B || s.Code != flows.CodeNamespace || !plan.Empty() {
		t.Errorf("got %+v, want B's namespace to be refused", plan.Steps)
	}
	plan = flows.PlanReset(flows.RemoveOptions{Namespaces: [2]string{"liqo-tenant-milan", "liqo-tenant-rome"}}, flowtest.Facts(p))
	if s := plan.Failure(); s != nil || plan.Empty() {
		t.Errorf("got %+v, want a removal", s)
	}
}

// replacing is a cluster on which somebody deletes the tenant namespace and makes
// it again, between the plan that deletes it and that deletion.
type replacing struct {
	*flowtest.Cluster

	with *corev1.Namespace
}

func (r *replacing) Delete(ctx context.Context, objects []wire.Object) ([]flows.Change, error) {
	if ns, ok := objects[0].(*corev1.Namespace); ok && r.with != nil {
		r.Remove(ns)
		r.PutAs("somebody", r.with)
		r.with = nil
	}
	return r.Cluster.Delete(ctx, objects)
}

func TestANamespaceThatWasMadeAgainIsNotDeletedForTheOneBefore(t *testing.T) {
	p := flowtest.NewPair()
	flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort()))
	tenant := p.A.Tenant()
	theirs := &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: tenant.Namespace}}
	a := &replacing{p.A, theirs}
	if err := engine.Run(t.Context(), flows.Planner(flowtest.Reset), a, p.B, func(engine.Event) {}, engine.Options{Now: p.Now}); err != nil {
		t.Fatalf("reset: %v", err)
	}
	p.Settle()
	if a.with != nil {
		t.Fatal("the namespace was never deleted, so nothing was tried")
	}
	if names := p.A.Names(); !slices.Contains(names, "Namespace "+tenant.Namespace) {
		t.Errorf("got %q, want the namespace that somebody made", names)
	}
	if names := p.B.Names(); len(names) > 0 {
		t.Errorf("on the other side: got %q, want nothing left", names)
	}
}

// A run may begin at any state of a connection. To remove what it has created leads back to that state.
func TestARemovalOfWhatARunHasCreatedKeepsTheRest(t *testing.T) {
	for rounds := range 8 { // more are connected
		p := flowtest.NewPair()
		flowtest.PartWay(rounds, flowtest.NodePort())(t, p)
		p.Settle()
		before := [2][]string{p.A.Names(), p.B.Names()}
		o := flows.RemoveOptions{Made: []flows.Change{}}
		for _, e := range flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort())).Events {
			o.Made = append(o.Made, e.Changes...)
		}
		flowtest.MustRun(t, p, removing(o))
		p.Settle()
		for _, side := range []flows.Side{flows.A, flows.B} {
			if d := diff(before[side], p.Side(side).Names()); d != "" {
				t.Errorf("after %d rounds, on %s (-before +after):\n%s", rounds, side, d)
			}
		}
	}
}
