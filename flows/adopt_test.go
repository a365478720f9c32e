package flows_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/connect"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

func TestAdoptingAConnectionLeavesNothingToDo(t *testing.T) {
	for _, server := range []flows.Side{flows.A, flows.B} {
		pair := flowtest.NewPair()
		params := flowtest.NodePort()
		params.Server = server
		flowtest.MustRun(t, pair, flowtest.Connect(params))
		f := flowtest.Facts(pair)
		p, fixed := flows.Adopt(flows.Defaults(), f)
		if !fixed || p.Server != server || p.ServiceType != corev1.ServiceTypeNodePort {
			t.Errorf("server %s: got %+v, fixed %v", server, p, fixed)
		}
		if plan := flows.PlanConnect(p, f); !plan.Done() {
			t.Errorf("server %s: a connection that works would be changed: %v", server, plan.Steps)
		}
	}
}

func TestAdoptingALiqoctlConnectionKeepsItsSpec(t *testing.T) {
	pair := flowtest.NewPair()
	pair.ConnectByLiqoctl(flows.A)
	f := flowtest.Facts(pair)
	p, _ := flows.Adopt(flows.Defaults(), f)
	for _, s := range flows.PlanConnect(p, f).Steps {
		for line := range strings.Lines(s.Diff) {
			if strings.HasPrefix(line, "-  ") || strings.HasPrefix(line, "+  ") && !strings.Contains(line, wire.LabelManagedBy) && !strings.Contains(line, "annotations:") && !strings.Contains(line, wire.AnnotationPeerUID) {
				t.Errorf("%s would change %q", s.Title, line)
			}
		}
	}
}

func TestAnAddressOfTheAdminsOwnIsKeptWhileItWorks(t *testing.T) {
	pair := flowtest.NewPair()
	pair.B.Behave(func(b *flowtest.Behaviour) { b.AlsoAt = []string{"gw.example.org:4242"} })
	flowtest.MustRun(t, pair, flowtest.Connect(flowtest.NodePort()))
	client := pair.A.Facts().Clients[0].DeepCopy()
	pair.A.Put(render.GatewayClient(render.ClientParams{
		Tenant: pair.A.Tenant(), Template: render.TemplateRef{Name: client.Spec.ClientTemplateRef.Name, Namespace: client.Spec.ClientTemplateRef.Namespace},
		Addresses: []string{"gw.example.org"}, Port: 4242, MTU: client.Spec.MTU,
	}))
	pair.Settle()
	f := flowtest.Facts(pair)
	p, _ := flows.Adopt(flows.Defaults(), f)
	if p.ClientAddress != "gw.example.org" || p.ClientPort != 4242 {
		t.Errorf("got %s port %d, want the admin's", p.ClientAddress, p.ClientPort)
	}
	if plan := flows.PlanConnect(p, f); !plan.Done() {
		t.Errorf("a connection that works would be changed: %v", plan.Steps)
	}
}

// A script of somebody's gave the server a node port and, later, its Service
// another type: what is left over is no reason to refuse a change.
func TestANodePortOfALoadBalancerIsNotAdopted(t *testing.T) {
	pair := flowtest.NewPair()
	flowtest.MustRun(t, pair, flowtest.Connect(flowtest.NodePort()))
	server := pair.B.Facts().Servers[0]
	pair.B.Put(render.GatewayServer(render.ServerParams{
		Tenant: pair.B.Tenant(), Template: render.TemplateRef{Name: server.Spec.ServerTemplateRef.Name, Namespace: server.Spec.ServerTemplateRef.Namespace},
		ServiceType: corev1.ServiceTypeLoadBalancer, Port: uint16(server.Spec.Endpoint.Port), NodePort: 31555, MTU: server.Spec.MTU,
	}))
	pair.Settle()
	p := flows.Defaults()
	p.Port, p.Given = 51999, flows.FieldPort
	plan := flows.PlanConnect(p, flowtest.Facts(pair))
	if plan.Params.ServiceType != corev1.ServiceTypeLoadBalancer || plan.Params.NodePort != 0 {
		t.Errorf("got %s with node port %d, want LoadBalancer without one", plan.Params.ServiceType, plan.Params.NodePort)
	}
	if failed := plan.Failure(); failed != nil {
		t.Errorf("a change of the port is refused: %v", failed)
	}
}

func TestASettingThatIsTakenBackIsRemoved(t *testing.T) {
	for _, tc := range []struct {
		name     string
		set      func(*flows.Params)
		takeBack func(*flows.Params)
		removed  string
		has      func(networkingv1beta1.Endpoint) bool
	}{
		{
			"--node-port 0", func(p *flows.Params) { p.ServiceType, p.NodePort = corev1.ServiceTypeNodePort, 31555 },
			func(p *flows.Params) { p.Given = flows.FieldNodePort }, "-    nodePort: 31555\n",
			func(e networkingv1beta1.Endpoint) bool { return e.NodePort != nil },
		},
		{
			`--load-balancer-ip ""`, func(p *flows.Params) { p.LoadBalancerIP = "203.0.113.77" },
			func(p *flows.Params) { p.Given = flows.FieldLoadBalancerIP }, "-    loadBalancerIP: 203.0.113.77\n",
			func(e networkingv1beta1.Endpoint) bool { return e.LoadBalancerIP != nil },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pair := flowtest.NewPair()
			p := flows.Defaults()
			p.Given = flows.AllFields
			tc.set(&p)
			flowtest.MustRun(t, pair, flowtest.Connect(p))
			if plan := flows.PlanConnect(flows.Defaults(), flowtest.Facts(pair)); !plan.Done() || len(plan.Kept) == 0 {
				t.Errorf("without the flag: got steps %v, kept %q; want nothing to do, and what is kept", plan.Steps, plan.Kept)
			}
			p = flows.Defaults()
			tc.takeBack(&p)
			plan := flows.PlanConnect(p, flowtest.Facts(pair))
			step, _ := plan.Step("gateway-server-b")
			if plan.Changes().Total() != 1 || step.Action != flows.Update || !strings.Contains(step.Diff, tc.removed) {
				t.Errorf("got %s and the diff\n%s\nwant one update, with %q", plan.Changes(), step.Diff, tc.removed)
			}
			flowtest.MustRun(t, pair, connect.Goal{Params: p})
			if e := pair.B.Facts().Servers[0].Spec.Endpoint; tc.has(e) {
				t.Errorf("it is still there: %+v", e)
			}
			if plan := flows.PlanConnect(p, flowtest.Facts(pair)); !plan.Done() {
				t.Errorf("again, there is something to do: %v", plan.Steps)
			}
		})
	}
}

func TestTakingANodePortBackInterruptsNothing(t *testing.T) {
	pair := flowtest.NewPair()
	p := flowtest.NodePort()
	p.NodePort = 31555
	flowtest.MustRun(t, pair, flowtest.Connect(p))
	p.NodePort = 0
	if lost := flows.PlanConnect(p, flowtest.Facts(pair)).Interrupts(); len(lost) > 0 {
		t.Errorf("got %q, want no interruption: the Service keeps its port", lost)
	}
	p.Port = 51999
	if lost := flows.PlanConnect(p, flowtest.Facts(pair)).Interrupts(); len(lost) == 0 {
		t.Error("another port as well: got no interruption")
	}
}

func TestASettingOfAnotherProgramsIsSaidToStay(t *testing.T) {
	pair := flowtest.NewPair()
	p := flowtest.NodePort()
	p.NodePort = 31555
	flowtest.MustRun(t, pair, flowtest.Connect(p))
	server := pair.B.Facts().Servers[0]
	server.SetGroupVersionKind(networkingv1beta1.GroupVersion.WithKind(networkingv1beta1.GatewayServerKind))
	pair.B.PutAs("argocd", &server)
	p.NodePort = 0
	plan := flows.PlanConnect(p, flowtest.Facts(pair))
	const want = "the node port stays 31555, because another program has set it; to remove it: kubectl --context kind-milan -n liqo-tenant-rome edit gatewayserver rome"
	if !plan.Done() || !slices.Contains(plan.Kept, want) {
		t.Errorf("got steps %v and kept %q, want nothing to do and %q", plan.Steps, plan.Kept, want)
	}
}

// By hand, a client may dial several addresses. As long as that works, none of them
// is taken away.
func TestSeveralAddressesOfTheAdminsOwnAreKept(t *testing.T) {
	pair := flowtest.NewPair()
	pair.B.Behave(func(b *flowtest.Behaviour) { b.AlsoAt = []string{"gw.example.org:4242"} })
	flowtest.MustRun(t, pair, flowtest.Connect(flowtest.NodePort()))
	client := pair.A.Facts().Clients[0].DeepCopy()
	pair.A.Put(render.GatewayClient(render.ClientParams{
		Tenant: pair.A.Tenant(), Template: render.TemplateRef{Name: client.Spec.ClientTemplateRef.Name, Namespace: client.Spec.ClientTemplateRef.Namespace},
		Addresses: []string{"gw.example.org", "203.0.113.9"}, Port: 4242, MTU: client.Spec.MTU,
	}))
	pair.Settle()
	if plan := flows.PlanConnect(flows.Defaults(), flowtest.Facts(pair)); !plan.Done() || plan.Params.ClientAddress != "gw.example.org,203.0.113.9" {
		t.Errorf("got %q and steps %v, want both addresses and nothing to do", plan.Params.ClientAddress, plan.Steps)
	}
}

func TestARelayIsKeptUntilItIsTakenBack(t *testing.T) {
	pair := flowtest.NewPair()
	pair.B.Behave(func(b *flowtest.Behaviour) { b.AlsoAt = []string{"relay.example.org:4242"} })
	p := flowtest.NodePort()
	p.Relay = "relay.example.org:4242"
	flowtest.MustRun(t, pair, flowtest.Connect(p))
	server := pair.B.Facts().Servers[0]
	if got := wire.RelayOf(&server); got != p.Relay {
		t.Errorf("the server dials %q, want %s", got, p.Relay)
	}
	if r := pair.B.Facts().End("rome").Reading(); !r.Relayed || r.Endpoint != "UDP relay.example.org:4243" {
		t.Errorf("the server's end says %q, relayed %t", r.Endpoint, r.Relayed)
	}
	again := flows.PlanConnect(flows.Defaults(), flowtest.Facts(pair))
	if !again.Done() || again.Params.Relay != p.Relay || again.Params.ClientAddress != "" || !slices.Contains(again.Kept, "the relay stays relay.example.org:4242") {
		t.Errorf("got %q, steps %v and kept %q, want the relay and nothing to do", again.Params.Relay, again.Steps, again.Kept)
	}

	without := flowtest.NodePort()
	without.Given = flows.FieldRelay
	flowtest.MustRun(t, pair, flowtest.Connect(without))
	server = pair.B.Facts().Servers[0]
	if got, dials := wire.RelayOf(&server), pair.A.Facts().Clients[0].Spec.Endpoint; got != "" || slices.Contains(dials.Addresses, "relay.example.org") {
		t.Errorf("the server dials %q and the client %v, want that the client dials the server", got, dials)
	}
}

func TestARelayLeavesNothingToDialBesides(t *testing.T) {
	p := flowtest.NodePort()
	p.Relay, p.ClientPort = "relay.example.org:4242", 7
	if err := p.Validate(); err == nil || !strings.Contains(err.Error(), "--relay relay.example.org:4242: the client dials the relay") {
		t.Errorf("got %v", err)
	}
	// It is another way to dial: the relay goes.
	pair := flowtest.NewPair()
	pair.B.Behave(func(b *flowtest.Behaviour) { b.AlsoAt = []string{"relay.example.org:4242", "gw.example.org:7"} })
	p.ClientPort = 0
	flowtest.MustRun(t, pair, flowtest.Connect(p))
	direct := flows.Defaults()
	direct.ClientAddress, direct.ClientPort, direct.Given = "gw.example.org", 7, flows.FieldClientAddress|flows.FieldClientPort
	flowtest.MustRun(t, pair, flowtest.Connect(direct))
	if server := pair.B.Facts().Servers[0]; wire.RelayOf(&server) != "" {
		t.Errorf("the server still dials %q", wire.RelayOf(&server))
	}
}

func TestARelayNeedsAServerThatDials(t *testing.T) {
	pair := flowtest.NewPair()
	pair.B.Be(func(f *flows.ClusterFacts) { f.Software = flows.Liqo })
	p := flowtest.NodePort()
	p.Relay = "relay.example.org:4242"
	if f := flows.PlanConnect(p, flowtest.Facts(pair)).Failure(); f == nil || f.Reason != "the gateway of milan is of Liqo, which dials no relay" {
		t.Errorf("got %v", f)
	}
	p.Server = flows.A // the one with our operator; its client may be Liqo's
	if f := flows.PlanConnect(p, flowtest.Facts(pair)).Failure(); f != nil {
		t.Errorf("got %v, want that Liqo's client dials a relay", f)
	}
}

// A PublicKey that was applied by hand belongs to no gateway, and stays that way.
func TestAKeyThatWasMadeByHandIsUsedAsItIs(t *testing.T) {
	pair := flowtest.NewPair()
	flowtest.MustRun(t, pair, flowtest.Connect(flowtest.NodePort()))
	key := pair.A.Facts().PublicKeys[0]
	pair.A.Remove(&key)
	pair.A.PutAs("kubectl", render.PublicKey(pair.A.Tenant(), [32]byte(key.Spec.PublicKey), nil))
	pair.Settle()
	if plan := flows.PlanConnect(flows.Defaults(), flowtest.Facts(pair)); !plan.Done() {
		t.Errorf("a connection that works would be changed: %v", plan.Steps)
	}
	flowtest.MustRun(t, pair, flows.Planner(flowtest.Reset))
	if n := len(pair.A.Facts().PublicKeys); n > 0 {
		t.Errorf("%d keys are left", n)
	}
}

// Each side has its own value. A change is one step with a diff, which interrupts nothing.
func TestWhatAPeerMayOpenIsKeptAndChanged(t *testing.T) {
	pair := flowtest.NewPair()
	p := flowtest.NodePort()
	p.Allow[flows.B] = wire.AllowNone
	flowtest.MustRun(t, pair, flowtest.Connect(p))
	reports := func() [2]string {
		return [2]string{pair.A.Facts().End("milan").Reading().Allow, pair.B.Facts().End("rome").Reading().Allow}
	}
	if got, want := reports(), [2]string{"all", "none"}; got != want {
		t.Errorf("the gateways enforce %q, want %q", got, want)
	}
	again := flows.PlanConnect(flows.Defaults(), flowtest.Facts(pair))
	if !again.Done() || again.Params.Allow != p.Allow || !slices.Contains(again.Kept, "the access of the local cluster's pods stays none") {
		t.Errorf("got %v, steps %v and kept %q, want the same and nothing to do", again.Params.Allow, again.Steps, again.Kept)
	}

	opened := flowtest.NodePort()
	opened.Given = flows.FieldRemoteAllow | flows.FieldAllow
	opened.Allow[flows.A] = wire.AllowExported
	plan := flows.PlanConnect(opened, flowtest.Facts(pair))
	var changes []string
	for _, s := range plan.Steps {
		if s.Status != flows.Done && s.Action == flows.Update {
			changes = append(changes, s.Object.Kind)
			if s.Interrupts != "" {
				t.Errorf("%s: %s", s.Object.Kind, s.Interrupts)
			}
		}
	}
	if want := []string{"GatewayServer", "GatewayClient"}; !slices.Equal(changes, want) {
		t.Errorf("changes %q, want %q", changes, want)
	}
	flowtest.MustRun(t, pair, flowtest.Connect(opened))
	if got, want := reports(), [2]string{"exported", "all"}; got != want {
		t.Errorf("after a change, the gateways enforce %q, want %q", got, want)
	}
}

func TestAGatewayThatClosesNothingIsNotBelieved(t *testing.T) {
	pair := flowtest.NewPair()
	p := flowtest.NodePort()
	flowtest.MustRun(t, pair, flowtest.Connect(p))
	p.Allow[flows.A] = wire.AllowNone
	f := flowtest.Facts(pair)
	setReport(t, &f.Sides[flows.A], func(r *wire.Report) { r.Allow = "" }) // of an earlier release
	metav1.SetMetaDataAnnotation(&f.Sides[flows.A].Clients[0].ObjectMeta, wire.AnnotationAllow, "none")
	c := flows.NewConnection(p, f)
	if s := c.Connected(flows.A); s.Status != flows.Waiting || !strings.Contains(s.Reason, "earlier release") {
		t.Errorf("got %v, %q, want that it waits for a gateway that closes", s.Status, s.Reason)
	}
	setReport(t, &f.Sides[flows.A], func(r *wire.Report) { r.Allow = "none" })
	if s := flows.NewConnection(p, f).Connected(flows.A); s.Status != flows.Done {
		t.Errorf("got %v, %q, want done", s.Status, s.Reason)
	}

	refused := func(p flows.Params, want string) {
		t.Helper()
		plan := flows.PlanConnect(p, f)
		if s := plan.Failure(); s == nil || !strings.Contains(s.Reason, want) {
			t.Errorf("got %v, want a refusal that says %q", s, want)
		}
	}
	p.Given = flows.AllFields
	f.Sides[flows.A].Software = flows.Liqo
	refused(p, "lets the peer's pods reach all pods")
	f.Sides[flows.A].Software = flows.Operator
	p.ForLending = true
	refused(p, "the two clusters lend")
}

// setReport changes the report of a cluster's only gateway.
func setReport(t *testing.T, c *flows.ClusterFacts, change func(*wire.Report)) {
	t.Helper()
	conn := c.Connections[0].DeepCopy()
	r, _, err := wire.ParseReport(conn.Annotations)
	if err != nil {
		t.Fatal(err)
	}
	change(&r)
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	conn.Annotations[wire.AnnotationStatus] = string(text)
	c.Connections[0] = *conn
}
