package flows_test

import (
	"slices"
	"strings"
	"testing"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

func configMap(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
	}
}

// What Liqo's authentication, or an admin, has put into the namespace that we
// created would go with it.
func TestResetKeepsANamespaceThatHoldsAnythingElse(t *testing.T) {
	p := flowtest.NewPair()
	flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort()))
	p.A.PutAs("liqo", configMap("liqo-tenant-milan", "of-the-team"))
	events := flowtest.MustRun(t, p, flows.Planner(flowtest.Reset)).Events
	first, _ := events[0].Plan.Step("namespace-a")
	if first.Status != flows.Done || first.Reason != "kept: it holds ConfigMap of-the-team" {
		t.Errorf("the plan that is shown first: got %s, %q, want it to say that the namespace is kept, and why", first.Status, first.Reason)
	}
	if got := p.A.Names(); !slices.Contains(got, "ConfigMap liqo-tenant-milan/of-the-team") || p.A.Facts().FindNamespace("liqo-tenant-milan") == nil {
		t.Errorf("reset deleted what somebody else made; left are %q", got)
	}
	if p.A.Facts().End("milan").Configuration != nil {
		t.Error("reset left the connection")
	}
	if p.B.Facts().End("rome").Namespace != nil {
		t.Error("reset kept the namespace on the other side, where nothing else is in it")
	}
	if known := p.A.Facts().KnownPeers(); len(known) != 0 {
		t.Errorf("the namespace that is kept counts as a peering with %v: uninstall would refuse for ever", known)
	}
}

// Somebody may use the namespace between the question and the deletion.
func TestResetLooksAgainBeforeItDeletesANamespace(t *testing.T) {
	p := flowtest.NewPair()
	flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort()))
	var r flowtest.Recorder
	err := engine.Run(t.Context(), flows.Planner(flowtest.Reset), p.A, p.B, r.Emit, engine.Options{Now: p.Now, Approve: func(plan flows.Plan) (bool, error) {
		if s, _ := plan.Step("namespace-a"); s.Status != flows.Blocked {
			t.Errorf("got %s, want the namespace to be deleted last", s.Status)
		}
		p.A.PutAs("kubectl", configMap("liqo-tenant-milan", "late"))
		return true, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(p.A.Names(), "ConfigMap liqo-tenant-milan/late") {
		t.Error("reset deleted what somebody put into the namespace meanwhile")
	}
}

// A connection that was made by hand, as Liqo's documents do it: in a namespace
// that has no label.
func TestAConnectionIsFoundInAnyNamespace(t *testing.T) {
	p := flowtest.NewPair()
	params := flowtest.NodePort()
	params.Namespaces = [2]string{"default", "default"}
	for _, c := range []*flowtest.Cluster{p.A, p.B} {
		ns := &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: "default"}}
		c.PutAs("kubernetes", ns)
	}
	flowtest.MustRun(t, p, flowtest.Connect(params))
	for _, peers := range []map[wire.ClusterID]*flows.End{p.A.Facts().Peers(), p.B.Facts().Peers()} {
		for id, end := range peers {
			if end.Tenant.Namespace != "default" || end.Connection == nil {
				t.Errorf("peer %s: got namespace %s, Connection %v", id, end.Tenant.Namespace, end.Connection)
			}
		}
	}
	if plan := flows.PlanConnect(flows.Defaults(), flowtest.Facts(p)); !plan.Done() {
		t.Errorf("connecting without naming the namespace builds another connection: %+v", plan.Steps)
	}
	before := p.A.Facts().FindNamespace("default")
	flowtest.MustRun(t, p, flows.Planner(flowtest.Reset))
	if got := p.A.Names(); !slices.Equal(got, []string{"Namespace default"}) {
		t.Errorf("left after reset: %q", got)
	}
	if d := diff(before, p.A.Facts().FindNamespace("default")); d != "" {
		t.Errorf("the namespace is changed:\n%s", d)
	}
}

func TestANamespaceThatAllowsNoGatewaysIsRefusedBeforeAnythingIsChanged(t *testing.T) {
	p := flowtest.NewPair()
	team := &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{
		Name: "team-a", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	p.A.PutAs("kubectl", team)
	params := flowtest.NodePort()
	params.Namespaces[flows.A] = "team-a"
	_, err := flowtest.Run(t, p, flowtest.Connect(params))
	if err == nil || !strings.Contains(err.Error(), "namespace team-a enforces the pod security level restricted") {
		t.Errorf("got %v, want the refusal to name namespace and level", err)
	}
	if n := len(p.Log()); n != 0 {
		t.Errorf("%d changes were made before the refusal", n)
	}
}

// Liqo takes a peer's Configuration from any namespace, so a gateway works that has
// none beside it, also where the peer's labelled namespace has it.
func TestALiqoPeeringIsFoundWhoseConfigurationIsInAnotherNamespace(t *testing.T) {
	p := flowtest.NewPair()
	p.ConnectByLiqoctl(flows.A)
	f := flowtest.Facts(p)
	for side := range f.Sides {
		c := &f.Sides[side]
		c.Software = flows.Liqo
		tenant := c.Configurations[0].Namespace
		c.Namespaces = append(c.Namespaces, corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
		for _, o := range c.Servers {
			c.Keys["default/"+o.Name] = c.Keys[tenant+"/"+o.Name]
		}
		for _, o := range c.Clients {
			c.Keys["default/"+o.Name] = c.Keys[tenant+"/"+o.Name]
		}
		move := func(o metav1.Object) { o.SetNamespace("default") }
		for i := range c.Servers {
			move(&c.Servers[i])
		}
		for i := range c.Clients {
			move(&c.Clients[i])
		}
		for i := range c.PublicKeys {
			move(&c.PublicKeys[i])
		}
		for i := range c.Connections {
			move(&c.Connections[i])
		}
	}
	for id, end := range f.Sides[flows.A].Peers() {
		one := f.Sides[flows.A].End(id)
		if end.Tenant.Namespace != "default" || end.Configuration == nil || one.Configuration == nil || one.Server == nil {
			t.Errorf("peer %s: got %+v", id, end)
		}
	}
	plan := flows.PlanConnect(flows.Defaults(), f)
	if n := plan.Changes(); n.Create > 0 || n.Delete > 0 || plan.Failure() != nil {
		t.Errorf("connecting would make a second one: %s, failure %v", n, plan.Failure())
	}
	if plan := flows.PlanReset(flows.RemoveOptions{}, f); plan.Changes().Delete != 6 {
		t.Errorf("a reset deletes %d objects, want 3 of each", plan.Changes().Delete)
	}
}

// Of two gateways for a peer, the one that works is the peering's, else the one in the
// namespace that is labelled for the peer.
func TestOfTwoGatewaysThePeeringHasTheOneThatWorks(t *testing.T) {
	p := flowtest.NewPair()
	flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort()))
	f := p.A.Facts()
	second := f.Clients[0].DeepCopy()
	second.Namespace, second.Name = "a-namespace", "by-hand"
	f.Clients = append([]networkingv1beta1.GatewayClient{*second}, f.Clients...)
	if got := f.End("milan").Tenant.Namespace; got != "liqo-tenant-milan" {
		t.Errorf("the labelled one works: got namespace %s", got)
	}
	f.Connections[0].Status.Value = networkingv1beta1.ConnectionError
	if got := f.End("milan").Tenant.Namespace; got != "liqo-tenant-milan" {
		t.Errorf("none works: got namespace %s, want the labelled one", got)
	}
	working := f.Connections[0].DeepCopy()
	working.Namespace, working.Name, working.Status.Value = "a-namespace", "gw-by-hand", networkingv1beta1.Connected
	f.Connections = append(f.Connections, *working)
	if got := f.End("milan").Tenant.Namespace; got != "a-namespace" {
		t.Errorf("the other one works: got namespace %s, want a-namespace", got)
	}
}
