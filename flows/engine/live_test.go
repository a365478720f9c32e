package engine_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/connect"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

const (
	stopsForAWhile = "traffic between rome and milan is interrupted for some seconds, until the gateways reach each other again"
	replaced       = "traffic between rome and milan is interrupted for some seconds, while the gateways are replaced"
)

// changes are what an admin may want of a connection that exists.
func changes() map[string]struct {
	edit       func(*flows.Params)
	interrupts []string
	check      func(server networkingv1beta1.GatewayServerSpec) bool
} {
	type server = networkingv1beta1.GatewayServerSpec
	return map[string]struct {
		edit       func(*flows.Params)
		interrupts []string
		check      func(server) bool
	}{
		"nothing": {func(*flows.Params) {}, nil, func(s server) bool { return s.MTU == 1340 }},
		"port": {func(p *flows.Params) { p.Port = 4242 }, []string{stopsForAWhile}, func(s server) bool {
			return s.Endpoint.Port == 4242
		}},
		"node port": {func(p *flows.Params) { p.NodePort = 31234 }, []string{stopsForAWhile}, func(s server) bool {
			return s.Endpoint.NodePort != nil && *s.Endpoint.NodePort == 31234
		}},
		"type": {func(p *flows.Params) { p.ServiceType = corev1.ServiceTypeLoadBalancer }, []string{stopsForAWhile}, func(s server) bool {
			return s.Endpoint.ServiceType == corev1.ServiceTypeLoadBalancer
		}},
		"MTU": {func(p *flows.Params) { p.MTU = 1300 }, nil, func(s server) bool { return s.MTU == 1300 }},
		"template": {func(p *flows.Params) { p.ServerTemplate.Name = "ours" }, []string{stopsForAWhile}, func(s server) bool {
			return s.ServerTemplateRef.Name == "ours"
		}},
		"server": {func(p *flows.Params) { p.Server = flows.A }, []string{replaced}, func(s server) bool { return s.MTU == 1340 }},
	}
}

func TestALiveConnectionIsChanged(t *testing.T) {
	for name, tc := range changes() {
		t.Run(name, func(t *testing.T) {
			p := flowtest.NewPair()
			flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort()))
			params := flowtest.NodePort()
			tc.edit(&params)
			plan := flows.PlanConnect(params, flowtest.Facts(p))
			if d := diff(tc.interrupts, plan.Interrupts()); d != "" {
				t.Errorf("interrupted traffic (-want +got):\n%s", d)
			}
			flowtest.MustRun(t, p, connect.Goal{Params: params})
			servers := p.Side(params.Server).Facts().Servers
			if len(servers) != 1 || !tc.check(servers[0].Spec) {
				t.Errorf("the server is %+v", servers)
			}
			if n := len(p.Side(params.Server.Other()).Facts().Servers) + len(p.Side(params.Server).Facts().Clients); n != 0 {
				t.Errorf("%d gateways are left where the other kind should be", n)
			}
			if f := flowtest.Facts(p); dialled(f, params.Server) != listened(f, params.Server) {
				t.Errorf("the client dials %s, the server is at %s", dialled(f, params.Server), listened(f, params.Server))
			}
			p.Forget()
			flowtest.MustRun(t, p, connect.Goal{Params: params})
			if log := p.Log(); len(log) > 0 {
				t.Errorf("the second run wrote %v", log)
			}
		})
	}
}

func dialled(f flows.Facts, server flows.Side) string {
	return f.End(server.Other()).Reading().Endpoint
}

func listened(f flows.Facts, server flows.Side) string {
	return f.End(server).Reading().Endpoint
}

// A flag that is left out leaves what it says alone.
func TestConnectingAgainKeepsWhatWasSet(t *testing.T) {
	p := flowtest.NewPair()
	first := flowtest.NodePort()
	first.NodePort, first.MTU, first.Port, first.Server = 31000, 1300, 4242, flows.A
	flowtest.MustRun(t, p, flowtest.Connect(first))
	p.Forget()

	plan := flows.PlanConnect(flows.Defaults(), flowtest.Facts(p))
	if !plan.Done() {
		t.Errorf("without flags, this would be done: %v", flowtest.Pending(plan))
	}
	want := []string{
		"the server's cluster stays rome", "the service type stays NodePort", "the server's port stays 4242",
		"the node port stays 31000", "the MTU stays 1300",
	}
	if d := diff(want, plan.Kept); d != "" {
		t.Errorf("kept (-want +got):\n%s", d)
	}

	one := flows.Defaults()
	one.MTU, one.Given = 1280, flows.FieldMTU
	flowtest.MustRun(t, p, connect.Goal{Params: one})
	s := p.A.Facts().Servers[0].Spec
	if s.MTU != 1280 || *s.Endpoint.NodePort != 31000 || s.Endpoint.Port != 4242 {
		t.Errorf("after --mtu 1280: %+v", s)
	}
}

// What a gateway had is not lost on the way to the other cluster, although
// there is a moment at which no gateway exists.
func TestMovingTheServerKeepsTheRest(t *testing.T) {
	p := flowtest.NewPair()
	first := flowtest.NodePort()
	first.MTU, first.Port = 1300, 4242
	flowtest.MustRun(t, p, flowtest.Connect(first))
	move := flows.Defaults()
	move.Server, move.Given = flows.A, flows.FieldServer
	flowtest.MustRun(t, p, connect.Goal{Params: move})
	if s := p.A.Facts().Servers[0].Spec; s.MTU != 1300 || s.Endpoint.Port != 4242 || s.Endpoint.ServiceType != corev1.ServiceTypeNodePort {
		t.Errorf("the new server is %+v", s)
	}
}

// The state that a gateway wrote before a change says nothing about after it.
func TestConnectedIsNotBelievedOfBeforeAChange(t *testing.T) {
	for name, forget := range map[string]func(*networkingv1beta1.Connection){
		"by generation": func(*networkingv1beta1.Connection) {},
		"by time": func(c *networkingv1beta1.Connection) {
			c.Annotations[wire.AnnotationStatus] = strings.Replace(c.Annotations[wire.AnnotationStatus], `"generation":1`, `"generation":0`, 1)
		},
		"Liqo's, by its latency": func(c *networkingv1beta1.Connection) { delete(c.Annotations, wire.AnnotationStatus) },
	} {
		t.Run(name, func(t *testing.T) {
			p := flowtest.NewPair()
			p.Pacing = flowtest.Manual
			flowtest.Connected(t, p)
			p.Advance(5 * time.Second)
			p.A.Behave(func(b *flowtest.Behaviour) { b.NoReports = true })
			client := p.A.Facts().Clients[0].DeepCopy()
			p.A.Put(render.GatewayClient(render.ClientParams{
				Tenant: p.A.Tenant(), Template: render.TemplateRef{Name: client.Spec.ClientTemplateRef.Name, Namespace: client.Spec.ClientTemplateRef.Namespace},
				Addresses: client.Spec.Endpoint.Addresses, Port: uint16(client.Spec.Endpoint.Port), MTU: 1300,
			}))
			f := flowtest.Facts(p)
			forget(&f.Sides[flows.A].Connections[0])
			params := flowtest.NodePort()
			params.MTU = 1300
			s, _ := flows.PlanConnect(params, f).Step("connected-a")
			if s.Status != flows.Waiting || s.Reason != "waiting for a report newer than the change" {
				t.Errorf("got %s: %s", s.Status, s.Reason)
			}
			const pinged = "answers pings through the tunnel"
			if a := f.Sides[flows.A].Connections[0].Annotations; strings.Contains(a[wire.AnnotationStatus], pinged) {
				const wrong = pinged + "; the last change is not in force: no such host"
				a[wire.AnnotationStatus] = strings.Replace(a[wire.AnnotationStatus], pinged, wrong, 1)
				if s, _ := flows.PlanConnect(params, f).Step("connected-a"); !strings.HasSuffix(s.Reason, "newer than the change; the gateway says: the peer's gateway "+wrong) {
					t.Errorf("the reason is not shown: %s", s.Reason)
				}
			}
			f = flowtest.Facts(p)
			f.At = f.At.Add(time.Second)
			p.A.Behave(func(b *flowtest.Behaviour) { b.NoReports = false })
			p.Advance(10 * time.Second)
			p.Tick()
			f = flowtest.Facts(p)
			if s, _ := flows.PlanConnect(params, f).Step("connected-a"); s.Status != flows.Done {
				t.Errorf("after a new report: got %s: %s", s.Status, s.Reason)
			}
		})
	}
}

// A template of the cluster's own may give the Service another port than the
// GatewayServer says: a change is not waited for without end.
func TestATemplateWithItsOwnPortIsConnected(t *testing.T) {
	p := flowtest.NewPair()
	p.B.Behave(func(b *flowtest.Behaviour) { b.ServicePort = 443 })
	params := flowtest.NodePort()
	params.ServiceType = corev1.ServiceTypeLoadBalancer
	flowtest.MustRun(t, p, flowtest.Connect(params))
	params.Port = 4242
	flowtest.MustRun(t, p, flowtest.Connect(params))
	if got := dialled(flowtest.Facts(p), flows.B); got != "UDP 203.0.113.20:443" {
		t.Errorf("the client dials %s", got)
	}
}

func TestForceTakesFieldsOver(t *testing.T) {
	p := flowtest.NewPair()
	p.ConnectByLiqoctl(flows.B)
	params := flowtest.NodePort()
	params.MTU = 1400
	err := engine.Run(t.Context(), flowtest.Connect(params), p.A, p.B, func(engine.Event) {}, engine.Options{Now: p.Now, Force: true})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := p.A.Facts().Clients[0].Spec.MTU, p.B.Facts().Servers[0].Spec.MTU; a != 1400 || b != 1400 {
		t.Errorf("MTU %d and %d, want 1400", a, b)
	}
}

// A dry run says of each object what applying it would do.
func TestDryRunOfAPlan(t *testing.T) {
	p := flowtest.NewPair()
	p.ConnectByLiqoctl(flows.B)
	params := flowtest.NodePort()
	params.MTU = 1400
	plan := flows.PlanConnect(params, flowtest.Facts(p))
	s, _ := plan.Step("gateway-server-b")
	got, err := p.B.DryRun(t.Context(), s.Objects, false)
	var conflict *flows.ConflictError
	if err != nil || len(got) != 1 || !errors.As(got[0].Err, &conflict) || !slices.Equal(conflict.Managers, []string{"liqoctl"}) {
		t.Errorf("got %+v, %v; want a conflict with liqoctl", got, err)
	}
	got, err = p.B.DryRun(t.Context(), s.Objects, true)
	if err != nil || len(got) != 1 || got[0].Err != nil || !strings.Contains(got[0].Diff, "+  mtu: 1400") {
		t.Errorf("with force: got %+v, %v", got, err)
	}
	if mtu := p.B.Facts().Servers[0].Spec.MTU; mtu != 1340 {
		t.Errorf("a dry run changed the MTU to %d", mtu)
	}
}

// A flag that only fits another service type than the connection has is refused
// before anything is done; one that fits needs no --server-service-type.
func TestFlagsHaveToFitWhatIsThere(t *testing.T) {
	p := flowtest.NewPair()
	flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort()))
	params := flows.Defaults()
	params.NodePort, params.Given = 31234, flows.FieldNodePort
	if err := params.Validate(); err != nil {
		t.Errorf("before the clusters are asked: %v", err)
	}
	flowtest.MustRun(t, p, connect.Goal{Params: params})
	if n := p.B.Facts().Servers[0].Spec.Endpoint.NodePort; n == nil || *n != 31234 {
		t.Errorf("the node port is %v", n)
	}
	params = flows.Defaults()
	params.LoadBalancerIP, params.Given = "203.0.113.9", flows.FieldLoadBalancerIP
	p.Forget()
	_, err := flowtest.Run(t, p, connect.Goal{Params: params})
	var failed *flows.StepError
	if !errors.As(err, &failed) || failed.Step.Kind != flows.FailedUsage || failed.Code() != flows.CodeUsage || len(p.Log()) > 0 {
		t.Errorf("got %v, wrote %v", err, p.Log())
	}
}

// What an operator can't make is said at once if it is final, and waited for
// otherwise; a change of what was refused gets its chance.
func TestWhatTheOperatorCantMakeIsSaid(t *testing.T) {
	const refusal = wire.ProblemRefused + `Service "gw-rome" is invalid: spec.ports[0].nodePort: provided port is already allocated`
	p := flowtest.NewPair()
	p.B.Behave(func(b *flowtest.Behaviour) { b.Refuses = map[uint16]string{31000: refusal} })
	params := flowtest.NodePort()
	params.NodePort = 31000
	r, err := flowtest.Run(t, p, flowtest.Connect(params))
	var failed *flows.StepError
	if !errors.As(err, &failed) || failed.Code() != flows.CodeNodePort || failed.Step.Kind != flows.FailedApply || !strings.Contains(err.Error(), refusal) {
		t.Fatalf("got %v", err)
	}
	if waited := r.Events[len(r.Events)-1].At.Sub(r.Events[0].At); waited > 20*time.Second {
		t.Errorf("it took %s to say so", waited)
	}
	params.NodePort = 31001
	flowtest.MustRun(t, p, flowtest.Connect(params))
}

// A run that was killed between the two gateways leaves a client that dials
// where the server was. For some seconds it still says Connected; that does not
// make the old port one that somebody chose.
func TestAnEndpointOfBeforeAChangeIsNotKept(t *testing.T) {
	p := flowtest.NewPair()
	p.Pacing = flowtest.Manual
	flowtest.Connected(t, p)
	p.A.Behave(func(b *flowtest.Behaviour) { b.NoReports = true })
	p.B.Put(render.GatewayServer(render.ServerParams{
		Tenant: p.B.Tenant(), Template: render.TemplateRef{Name: wire.ServerTemplate, Namespace: "liqo"},
		ServiceType: "NodePort", Port: 51840, NodePort: 31234, MTU: 1340,
	}))
	p.Settle()
	plan := flows.PlanConnect(flows.Defaults(), flowtest.Facts(p))
	s, _ := plan.Step("gateway-client-a")
	if s.Status != flows.Ready || !strings.Contains(s.Diff, "+    port: 31234") || plan.Params.ClientPort != 0 {
		t.Errorf("got %s, client port %d, diff\n%s", s.Status, plan.Params.ClientPort, s.Diff)
	}
}

// The operator needs a moment to see that what it refused is otherwise now.
func TestARefusalOfBeforeAChangeIsNotFinal(t *testing.T) {
	p := flowtest.NewPair()
	p.Pacing = flowtest.Manual
	flowtest.PartWay(3, flowtest.NodePort())(t, p)
	f := flowtest.Facts(p)
	f.Sides[flows.B].Servers[0].Status.Endpoint = nil
	f.Sides[flows.B].Servers[0].Annotations = map[string]string{wire.AnnotationProblem: wire.ProblemRefused + "the port is taken"}
	for after, want := range map[time.Duration]flows.Status{time.Second: flows.Waiting, time.Minute: flows.Failed} {
		f.At = f.Sides[flows.B].Servers[0].CreationTimestamp.Add(after)
		if s, _ := flows.PlanConnect(flowtest.NodePort(), f).Step("endpoint-b"); s.Status != want || s.Reason != wire.ProblemRefused+"the port is taken" {
			t.Errorf("%s after the change: got %s: %s, want %s", after, s.Status, s.Reason, want)
		}
	}
}
