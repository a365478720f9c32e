package simulated_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/simulated"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

func run(t *testing.T, p *simulated.Pair) []engine.Event {
	t.Helper()
	var events []engine.Event
	plan := func(f flows.Facts) flows.Plan { return flows.PlanConnect(flows.Defaults(), f) }
	err := engine.Run(t.Context(), flows.Planner(plan), p.A, p.B, func(e engine.Event) { events = append(events, e) }, engine.Options{Now: p.Now})
	if err != nil {
		t.Fatal(err)
	}
	return events
}

func TestTwoRunsAreTheSame(t *testing.T) {
	answers := cmp.Exporter(func(t reflect.Type) bool { return strings.HasPrefix(t.Name(), "Answer[") })
	first := run(t, simulated.NewPair())
	for range 20 {
		if d := cmp.Diff(first, run(t, simulated.NewPair()), answers, cmpopts.IgnoreTypes(flows.Planner(nil))); d != "" {
			t.Fatalf("events (-first +later):\n%s", d)
		}
	}
}

func TestARunPassesThroughTheStatesInBetween(t *testing.T) {
	seen := map[flows.StepID]map[flows.Status]bool{}
	for _, e := range run(t, simulated.NewPair()) {
		for _, s := range e.Plan.Steps {
			if seen[s.ID] == nil {
				seen[s.ID] = map[flows.Status]bool{}
			}
			seen[s.ID][s.Status] = true
		}
	}
	for id, states := range map[flows.StepID][]flows.Status{
		"configuration-a": {flows.Blocked, flows.Ready, flows.Done}, "cidrs-b": {flows.Blocked, flows.Waiting, flows.Done},
		"endpoint-b": {flows.Blocked, flows.Waiting, flows.Done}, "gateway-client-a": {flows.Blocked, flows.Ready, flows.Done},
		"connected-a": {flows.Blocked, flows.Waiting, flows.Done},
	} {
		for _, s := range states {
			if !seen[id][s] {
				t.Errorf("step %s is never %s", id, s)
			}
		}
	}
}

func TestApplyAnswersLikeAnAPIServer(t *testing.T) {
	p := simulated.NewPair()
	p.Pacing = simulated.Manual
	tenant := p.A.Tenant()
	conf := render.Configuration(tenant, render.Networks{})
	apply := func(o wire.Object) (flows.Verb, error) {
		changes, err := p.A.Apply(t.Context(), []wire.Object{o})
		if err != nil {
			return "", err
		}
		return changes[0].Verb, nil
	}
	if _, err := apply(conf); !apierrors.IsNotFound(err) {
		t.Errorf("without a namespace: got %v, want not found", err)
	}
	kindless := render.TenantNamespace(tenant)
	kindless.Kind = ""
	if _, err := apply(kindless); !apierrors.IsBadRequest(err) {
		t.Errorf("without a kind: got %v, want bad request", err)
	}
	for _, want := range []flows.Verb{flows.Created, flows.Unchanged} {
		if got, err := apply(render.TenantNamespace(tenant)); got != want || err != nil {
			t.Errorf("namespace: got %s %v, want %s", got, err, want)
		}
	}
	server := func(mtu int) *render.ServerParams {
		return &render.ServerParams{Tenant: tenant, ServiceType: "NodePort", Port: 1, NodePort: 31000, MTU: mtu}
	}
	for _, step := range []struct {
		mtu  int
		want flows.Verb
	}{{1340, flows.Created}, {1340, flows.Unchanged}, {1400, flows.Updated}} {
		if got, err := apply(render.GatewayServer(*server(step.mtu))); got != step.want || err != nil {
			t.Errorf("MTU %d: got %s %v, want %s", step.mtu, got, err, step.want)
		}
	}
	without := server(1400)
	without.NodePort = 0
	if got, err := apply(render.GatewayServer(*without)); got != flows.Updated || err != nil || p.A.Facts().Servers[0].Spec.Endpoint.NodePort != nil {
		t.Errorf("a field that is no longer applied: got %s %v, node port %v", got, err, p.A.Facts().Servers[0].Spec.Endpoint.NodePort)
	}
	if g := p.A.Facts().Servers[0].Generation; g != 3 {
		t.Errorf("generation %d after two changes of the spec, want 3", g)
	}
	p.A.PutAs("argocd", conf)
	other := render.Configuration(tenant, render.Networks{})
	other.Labels[wire.LabelRemoteCluster] = "else"
	var conflict *flows.ConflictError
	if _, err := apply(other); !errors.As(err, &conflict) || conflict.Managers[0] != "argocd" {
		t.Errorf("somebody else's field: got %v, want a conflict with argocd", err)
	}
	p.A.Terminate(render.TenantNamespace(tenant))
	other.Name = "new"
	if _, err := apply(other); !apierrors.IsForbidden(err) {
		t.Errorf("in a namespace that is being deleted: got %v, want forbidden", err)
	}
}

func TestDeletionTakesTheChildrenAlong(t *testing.T) {
	p := simulated.NewPair()
	run(t, p)
	client := p.A.Facts().Clients[0]
	p.A.Forget()
	changes, err := p.A.Delete(t.Context(), []wire.Object{&client, &client})
	if err != nil || len(changes) != 1 || changes[0].Verb != flows.Deleted || len(p.A.Log()) != 1 {
		t.Errorf("got %v, %v, log %v", changes, err, p.A.Log())
	}
	p.Settle()
	want := []string{"Configuration liqo-tenant-milan/milan", "Namespace liqo-tenant-milan"}
	if got := p.A.Names(); !slices.Equal(got, want) {
		t.Errorf("left: %q, want %q", got, want)
	}
	if pods := p.A.Facts().Pods; len(pods) != 0 {
		t.Errorf("pods: %v", pods)
	}
	if c := p.B.Facts().Connections[0]; c.Status.Value == "Connected" {
		t.Error("the other side still says Connected")
	}
}

func TestFactsAreCopies(t *testing.T) {
	p := simulated.NewPair()
	run(t, p)
	before := p.A.Facts()
	f := p.A.Facts()
	f.Clients[0].Spec.Endpoint.Addresses[0] = "changed"
	f.Namespaces[0].Labels["changed"] = "yes"
	f.Networks.Pod[0] = "changed"
	clear(f.Keys)
	if after := p.A.Facts(); !reflect.DeepEqual(before, after) {
		t.Errorf("a change of the facts changed the cluster:\n%s", cmp.Diff(before, after))
	}
}

func TestManualPacingLeavesTimeToTheTest(t *testing.T) {
	p := simulated.NewPair()
	p.Pacing = simulated.Manual
	for range 5 {
		if _, err := p.A.Observe(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if !p.Now().Equal(simulated.Epoch()) {
		t.Errorf("time has passed: %s", p.Now())
	}
	select {
	case <-p.A.Changed():
		t.Error("something is said to have changed")
	default:
	}
	p.A.Put(render.TenantNamespace(p.A.Tenant()))
	select {
	case <-p.A.Changed():
	default:
		t.Error("a new object is no change")
	}
}

func TestUnreachableWindow(t *testing.T) {
	p := simulated.NewPair()
	p.A.Behave(func(b *simulated.Behaviour) { b.Unreachable = []simulated.Window{{From: 2, For: 2}, {From: 6}} })
	got := ""
	for range 8 {
		f, err := p.A.Observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.A.Apply(t.Context(), []wire.Object{render.TenantNamespace(p.A.Tenant())})
		if (err != nil) != (f.Problem != nil) {
			t.Errorf("Apply says %v after an observation that says %v", err, f.Problem)
		}
		got += map[bool]string{true: "+", false: "-"}[f.Problem == nil]
	}
	if want := "+--++---"; got != want {
		t.Errorf("answers: got %s, want %s", got, want)
	}
}

func TestConnectByLiqoctl(t *testing.T) {
	for _, server := range []flows.Side{flows.A, flows.B} {
		p := simulated.NewPair()
		p.ConnectByLiqoctl(server)
		for _, side := range []flows.Side{flows.A, flows.B} {
			f := p.Side(side).Facts()
			peer := f.End(p.Side(side.Other()).Facts().ID)
			if peer.Connection == nil || peer.Connection.Status.Value != "Connected" {
				t.Errorf("server %s: side %s is not connected: %+v", server, side, peer.Connection)
			}
			if (peer.Server != nil) != (side == server) || (peer.Client != nil) == (side == server) {
				t.Errorf("server %s: wrong gateway on side %s", server, side)
			}
			if !strings.HasSuffix(peer.Tenant.Namespace, "-by-liqoctl") {
				t.Errorf("namespace %s", peer.Tenant.Namespace)
			}
		}
		if log := p.Log(); len(log) > 0 {
			t.Errorf("what others did is in the log: %v", log)
		}
	}
}
