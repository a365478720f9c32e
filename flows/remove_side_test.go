package flows_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/render"
)

func removing(o flows.RemoveOptions) flows.Goal {
	return flows.Removal{RemoveOptions: o}
}

// With the other cluster gone, one side is cleaned up alone, and what is left
// to do there is said.
func TestResetOfOneSide(t *testing.T) {
	lost := func(b *flowtest.Behaviour) { b.Unreachable = []flowtest.Window{{From: 1}} }
	p := flowtest.NewPair()
	flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort()))
	p.B.Behave(lost)
	before := p.B.Names()

	_, err := flowtest.Run(t, p, flows.Planner(flowtest.Reset))
	var failed *flows.StepError
	if !errors.As(err, &failed) || failed.Step.Kind != flows.FailedUnreachable || failed.Changed {
		t.Fatalf("without --local-only: got %v", err)
	}
	const hint = "check the server in the kubeconfig, and firewall or VPN on the way; or, if the cluster is gone for good: liqo-tui network reset --context kind-rome --local-only"
	if failed.Step.Hint().String() != hint {
		t.Errorf("hint: got %s", failed.Step.Hint())
	}

	r := flowtest.MustRun(t, p, removing(flows.RemoveOptions{LocalOnly: true}))
	p.Settle()
	if left := p.A.Names(); len(left) > 0 {
		t.Errorf("left on A: %v", left)
	}
	if d := diff(before, p.B.Names()); d != "" {
		t.Errorf("B was touched (-before +after):\n%s", d)
	}
	const want = "liqo-tui network reset --local-only --remote-cluster-id rome --context CONTEXT-OF-milan"
	if owed := r.Events[0].Plan.Owed; len(owed) != 1 || owed[0].String() != want {
		t.Errorf("owed: got %s, want %s", owed, want)
	}
	if s, ok := r.Events[len(r.Events)-1].Plan.Step("namespace-a"); !ok || s.Status != flows.Done {
		t.Errorf("the end of the run does not say that the namespace is gone: %+v", s)
	}
	p.Forget()
	flowtest.MustRun(t, p, removing(flows.RemoveOptions{LocalOnly: true, Peer: "milan"}))
	if log := p.Log(); len(log) > 0 {
		t.Errorf("the second run wrote %v", log)
	}

	// What the other admin was told to run does the rest.
	p.B.Behave(func(b *flowtest.Behaviour) { *b = flowtest.Behaviour{} })
	err = engine.Run(t.Context(), removing(flows.RemoveOptions{LocalOnly: true, Peer: "rome"}), p.B, engine.Absent{}, func(engine.Event) {}, engine.Options{Now: p.Now})
	if err != nil {
		t.Fatal(err)
	}
	p.Settle()
	if left := p.B.Names(); len(left) > 0 {
		t.Errorf("left on B: %v", left)
	}
}

func TestDisconnectOfOneSideKeepsTheAddresses(t *testing.T) {
	p := flowtest.NewPair()
	flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort()))
	flowtest.MustRun(t, p, flows.Planner(func(f flows.Facts) flows.Plan {
		return flows.PlanDisconnect(flows.RemoveOptions{LocalOnly: true}, f)
	}))
	p.Settle()
	want := []string{"Configuration liqo-tenant-milan/milan", "Namespace liqo-tenant-milan"}
	if got := p.A.Names(); !slices.Equal(got, want) {
		t.Errorf("left on A: %v, want %v", got, want)
	}
	if len(p.B.Facts().Servers) != 1 {
		t.Error("B's gateway is gone too")
	}
	flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort())) // and it can be connected again
}

func TestOneSideHasToKnowWhomToForget(t *testing.T) {
	p := flowtest.NewPair()
	absent := func(o flows.RemoveOptions) error {
		return engine.Run(t.Context(), removing(o), p.A, engine.Absent{}, func(engine.Event) {}, engine.Options{Now: p.Now})
	}
	var failed *flows.StepError
	if err := absent(flows.RemoveOptions{LocalOnly: true}); err != nil {
		t.Errorf("without a peering: got %v, want nothing to do", err)
	}
	flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort()))
	other := render.Tenant{Namespace: "liqo-tenant-turin", Remote: "turin"}
	p.A.Put(render.TenantNamespace(other))
	if err := absent(flows.RemoveOptions{LocalOnly: true}); !errors.As(err, &failed) || failed.Code() != flows.CodeUnnamedPeer ||
		failed.Step.Reason != "this cluster is peered with milan, turin" {
		t.Errorf("with two peerings: got %v", err)
	}
	if err := absent(flows.RemoveOptions{LocalOnly: true, Peer: "turin"}); err != nil {
		t.Errorf("the one that is named: %v", err)
	}
	if len(p.A.Facts().Clients) != 1 {
		t.Error("the wrong peering was removed")
	}
}
