package flows_test

import (
	"strings"
	"testing"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// want is what a test expects of one step. An empty reason or hint is compared
// too: a step says nothing that a test does not know of.
type want struct {
	status flows.Status
	reason string
	hint   string
	kind   flows.FailureKind
}

type planCase struct {
	name   string
	past   func(t *testing.T, p *flowtest.Pair) // what is there; nil: nothing
	params func(*flows.Params)
	want   map[flows.StepID]want
	steps  int // how many there are; 0: don't count
}

func checkPlan(t *testing.T, tc planCase, plan func(flows.Params, flows.Facts) flows.Plan) {
	t.Helper()
	p := flowtest.NewPair()
	p.Pacing = flowtest.Manual
	if tc.past != nil {
		tc.past(t, p)
	}
	params := flowtest.NodePort()
	if tc.params != nil {
		tc.params(&params)
	}
	made := plan(params, flowtest.Facts(p))
	for id, w := range tc.want {
		s, ok := made.Step(id)
		if !ok {
			t.Errorf("step %s: missing", id)
			continue
		}
		got := want{s.Status, s.Reason, s.Hint().String(), s.Kind}
		if s.Status == flows.Waiting && w.hint == "" {
			got.hint = "" // TestWaitsSayWhatToDo
		}
		if got != w {
			t.Errorf("step %s:\n got %+v\nwant %+v", id, got, w)
		}
		if ready := s.Status == flows.Ready; ready != (len(s.Objects) > 0) && s.Status != flows.Waiting {
			t.Errorf("step %s: status %s with %d objects", id, s.Status, len(s.Objects))
		}
	}
	if tc.steps != 0 && len(made.Steps) != tc.steps {
		t.Errorf("got %d steps, want %d: %+v", len(made.Steps), tc.steps, made.Steps)
	}
}

func TestPlanConnect(t *testing.T) {
	preflight := func(kind flows.FailureKind, reason, hint string) want {
		return want{flows.Failed, reason, hint, kind}
	}
	for _, tc := range []planCase{
		{name: "nothing exists: the namespaces come first, on both sides at once", steps: 13, want: map[flows.StepID]want{
			"namespace-a":      {status: flows.Ready},
			"namespace-b":      {status: flows.Ready},
			"configuration-a":  {status: flows.Blocked, reason: "needs the namespace"},
			"gateway-server-b": {status: flows.Blocked, reason: "needs the namespace"},
			"gateway-client-a": {status: flows.Blocked, reason: "needs the server's endpoint"},
			"endpoint-b":       {status: flows.Blocked, reason: "needs the GatewayServer"},
			"public-key-a":     {status: flows.Blocked, reason: "needs the gateway"},
			"cidrs-a":          {status: flows.Blocked, reason: "needs the Configuration"},
			"connected-b":      {status: flows.Blocked, reason: "needs the gateway"},
		}},
		{name: "namespaces exist: configurations and server wait for nothing from the other side", past: flowtest.PartWay(1, flowtest.NodePort()), want: map[flows.StepID]want{
			"namespace-a":      {status: flows.Done},
			"configuration-a":  {status: flows.Ready},
			"configuration-b":  {status: flows.Ready},
			"gateway-server-b": {status: flows.Ready},
			"gateway-client-a": {status: flows.Blocked, reason: "needs the server's endpoint"},
		}},
		{
			name: "one side is slower: the other goes on", past: flowtest.But(flowtest.PartWay(1, flowtest.NodePort()), func(p *flowtest.Pair) {
				p.A.Remove(render.TenantNamespace(p.A.Tenant()))
			}),
			want: map[flows.StepID]want{
				"namespace-a":      {status: flows.Ready},
				"configuration-a":  {status: flows.Blocked, reason: "needs the namespace"},
				"configuration-b":  {status: flows.Ready},
				"gateway-server-b": {status: flows.Ready},
			},
		},
		{
			name: "an explicit address and port: the client does not wait for the server", past: flowtest.PartWay(1, flowtest.NodePort()),
			params: func(p *flows.Params) { p.ClientAddress, p.ClientPort = "198.51.100.7", 4500 },
			want: map[flows.StepID]want{
				"gateway-server-b": {status: flows.Ready},
				"endpoint-b":       {status: flows.Done, reason: "UDP 198.51.100.7 port 4500"},
				"gateway-client-a": {status: flows.Ready},
			},
		},
		{
			name: "a relay: the client does not wait for the server, whatever address that has", past: flowtest.PartWay(1, flowtest.NodePort()),
			params: func(p *flows.Params) { p.Relay = "relay.example.org:51840" },
			want: map[flows.StepID]want{
				"gateway-server-b": {status: flows.Ready},
				"endpoint-b":       {status: flows.Done, reason: "UDP relay.example.org port 51840"},
				"gateway-client-a": {status: flows.Ready},
			},
		},
		{
			name: "an explicit address and node port: the client does not wait for the server", past: flowtest.PartWay(1, flowtest.NodePort()),
			params: func(p *flows.Params) { p.ClientAddress, p.NodePort = "198.51.100.7", 31000 },
			want:   map[flows.StepID]want{"gateway-client-a": {status: flows.Ready}},
		},
		{
			name: "an explicit address without a port: the server's port is waited for",
			past: flowtest.But(flowtest.PartWay(1, flowtest.NodePort()), func(p *flowtest.Pair) {
				p.B.Behave(func(b *flowtest.Behaviour) { b.Silent = true })
				p.B.Put(render.GatewayServer(render.ServerParams{Tenant: p.B.Tenant(), ServiceType: "NodePort", Port: 51840, MTU: 1340}))
			}),
			params: func(p *flows.Params) { p.ClientAddress = "198.51.100.7" },
			want: map[flows.StepID]want{
				"endpoint-b":       {status: flows.Waiting, reason: "the gateway server has no port yet"},
				"gateway-client-a": {status: flows.Blocked, reason: "needs the server's endpoint"},
			},
		},
		{
			name: "the server can be the local cluster", past: flowtest.PartWay(1, flowtest.NodePort()),
			params: func(p *flows.Params) { p.Server = flows.A },
			want: map[flows.StepID]want{
				"gateway-server-a": {status: flows.Ready},
				"gateway-client-b": {status: flows.Blocked, reason: "needs the server's endpoint"},
			},
		},
		{
			name: "the load balancer is pending",
			past: flowtest.But(flowtest.Nothing, func(p *flowtest.Pair) {
				p.B.Behave(func(b *flowtest.Behaviour) { b.LoadBalancerPending = true })
				for range flowtest.ManyRounds {
					flowtest.PartWay(1, flows.Defaults())(t, p)
				}
			}),
			params: func(p *flows.Params) { p.ServiceType = corev1.ServiceTypeLoadBalancer },
			want: map[flows.StepID]want{
				"gateway-server-b": {status: flows.Done},
				"endpoint-b":       {status: flows.Waiting, reason: "the load balancer has given no address to Service gw-rome yet"},
				"gateway-client-a": {status: flows.Blocked, reason: "needs the server's endpoint"},
				"connected-b":      {status: flows.Waiting, reason: "the peer's public key is not known yet"},
			},
		},
		{
			name: "the server's endpoint is still the one from before its port was changed", past: flowtest.But(flowtest.Connected, func(p *flowtest.Pair) {
				p.B.Behave(func(b *flowtest.Behaviour) { b.Silent = true })
				want := flowtest.NodePort()
				want.NodePort = 31000
				flowtest.PartWay(1, want)(t, p)
			}),
			params: func(p *flows.Params) { p.NodePort = 31000 },
			want: map[flows.StepID]want{
				"gateway-server-b": {status: flows.Done},
				"endpoint-b":       {status: flows.Waiting, reason: "waiting for the server's port to change from 30020 to 31000"},
				"gateway-client-a": {status: flows.Blocked, reason: "needs the server's endpoint"},
			},
		},
		{
			name: "a gateway has not published its key", past: flowtest.But(flowtest.Nothing, func(p *flowtest.Pair) {
				p.B.Behave(func(b *flowtest.Behaviour) { b.NoKeys = true })
				flowtest.PartWay(flowtest.ManyRounds, flowtest.NodePort())(t, p)
			}),
			want: map[flows.StepID]want{
				"public-key-a": {status: flows.Waiting, reason: "milan's gateway has not published its key yet"},
				"public-key-b": {status: flows.Done},
				"connected-a":  {status: flows.Waiting, reason: "the peer's public key is not known yet"},
			},
		},
		{name: "the client's key needs no key from the server", past: flowtest.PartWay(6, flowtest.NodePort()), want: map[flows.StepID]want{
			"gateway-client-a": {status: flows.Done},
			"public-key-b":     {status: flows.Ready},
		}},
		{
			name: "the operator assigns no CIDRs", past: flowtest.But(flowtest.Nothing, func(p *flowtest.Pair) {
				p.A.Behave(func(b *flowtest.Behaviour) { b.NoCIDRs = true })
				flowtest.PartWay(flowtest.ManyRounds, flowtest.NodePort())(t, p)
			}),
			want: map[flows.StepID]want{
				"cidrs-a": {status: flows.Waiting, reason: "the operator has assigned no addresses yet"},
				"cidrs-b": {status: flows.Done, reason: "sees pods 10.244.0.0/16 as 240.160.0.0/16"},
			},
		},
		{
			name: "half of the CIDRs are assigned", past: flowtest.PartWay(3, flowtest.NodePort()),
			want: map[flows.StepID]want{"cidrs-a": {status: flows.Waiting, reason: "the operator has assigned no addresses yet"}},
		},
		{
			name: "a pod can't be started", past: flowtest.But(flowtest.Nothing, func(p *flowtest.Pair) {
				p.A.Behave(func(b *flowtest.Behaviour) { b.PodWaiting = "ImagePullBackOff: not found" })
				flowtest.PartWay(flowtest.ManyRounds, flowtest.NodePort())(t, p)
			}),
			want: map[flows.StepID]want{
				"connected-a": {status: flows.Waiting, reason: "pod gw-milan-7c9d: ImagePullBackOff: not found"},
				"connected-b": {status: flows.Waiting, reason: "no client with the right key has dialled UDP port 51840 yet"},
			},
		},
		{
			name: "a gateway uses another key than it says", past: flowtest.But(flowtest.Nothing, func(p *flowtest.Pair) {
				p.A.Behave(func(b *flowtest.Behaviour) { b.WrongKey = true })
				flowtest.PartWay(flowtest.ManyRounds, flowtest.NodePort())(t, p)
			}),
			want: map[flows.StepID]want{
				"public-key-a": {status: flows.Done},
				"connected-a":  {status: flows.Waiting, reason: "no answer from UDP 172.18.0.20 port 30020 yet: perhaps the port is closed on the way, or the server does not have this gateway's key"},
			},
		},
		{name: "connected", past: flowtest.Connected, want: map[flows.StepID]want{
			"gateway-client-a": {status: flows.Done},
			"endpoint-b":       {status: flows.Done, reason: "UDP 172.18.0.20 port 30020"},
			"connected-a":      {status: flows.Done, reason: "Connected, latency 1ms"},
			"connected-b":      {status: flows.Done, reason: "Connected, latency 1ms"},
		}},
		{
			name: "a gateway says Connected, but has not said so lately", past: flowtest.But(flowtest.Connected, func(p *flowtest.Pair) {
				p.A.Behave(func(b *flowtest.Behaviour) { b.NoReports = true })
				for range 40 {
					p.Tick()
				}
			}),
			want: map[flows.StepID]want{
				"connected-a": {status: flows.Waiting, reason: "it said Connected 41s ago, and nothing since"},
				"connected-b": {status: flows.Done, reason: "Connected, latency 1ms"},
			},
		},
		{
			name: "the Connection is an earlier gateway's", past: flowtest.But(flowtest.Connected, func(p *flowtest.Pair) {
				p.A.Behave(func(b *flowtest.Behaviour) { b.Silent = true })
				live := p.A.Facts().Clients[0]
				p.A.Remove(&live)
				flowtest.PartWay(1, flowtest.NodePort())(t, p)
				p.A.Put(earlierConnection(p.A))
			}),
			want: map[flows.StepID]want{"connected-a": {status: flows.Waiting, reason: "waiting for this gateway's Connection, there is still the previous one's"}},
		},
		{
			name: "Liqo's gateways write no reports", past: flowtest.But(flowtest.Nothing, func(p *flowtest.Pair) {
				p.A.Be(func(f *flows.ClusterFacts) { f.Software = flows.Liqo })
				flowtest.Connected(t, p)
			}),
			want: map[flows.StepID]want{"connected-a": {status: flows.Done, reason: "Connected, latency 1ms"}},
		},
		{
			name: "Liqo's gateway has not measured lately what it says", past: flowtest.But(flowtest.Nothing, func(p *flowtest.Pair) {
				p.A.Be(func(f *flows.ClusterFacts) { f.Software = flows.Liqo })
				flowtest.Connected(t, p)
				p.Advance(time.Hour)
			}),
			want: map[flows.StepID]want{"connected-a": {status: flows.Waiting, reason: "it said Connected 1h0m2s ago, and nothing since"}},
		},
		{
			name: "a namespace is still being deleted", past: flowtest.But(flowtest.Connected, func(p *flowtest.Pair) {
				p.A.Terminate(render.TenantNamespace(p.A.Tenant()))
			}),
			want: map[flows.StepID]want{
				"namespace-a":     {status: flows.Waiting, reason: "Namespace liqo-tenant-milan is still being deleted"},
				"configuration-a": {status: flows.Blocked, reason: "needs the namespace"},
				"namespace-b":     {status: flows.Done},
			},
		},
		{
			name: "a gateway is still being deleted", past: flowtest.But(flowtest.Connected, func(p *flowtest.Pair) {
				live := p.B.Facts().Servers[0]
				p.B.Terminate(&live)
			}),
			want: map[flows.StepID]want{
				"gateway-server-b": {status: flows.Waiting, reason: "GatewayServer rome is still being deleted, held by flowtest.liqo-tui.dev/hold"},
			},
		},
		{
			name: "another MTU is wanted", past: flowtest.Connected, params: func(p *flows.Params) { p.MTU = 1400 },
			want: map[flows.StepID]want{"gateway-server-b": {status: flows.Ready}, "gateway-client-a": {status: flows.Ready}},
		},
		{
			name: "another tool connected them: its objects are used as they are, and store the peers' UIDs",
			past: flowtest.But(flowtest.Nothing, func(p *flowtest.Pair) { p.ConnectByLiqoctl(flows.B) }),
			want: map[flows.StepID]want{
				"namespace-a": {status: flows.Done}, "configuration-b": {status: flows.Ready},
				"gateway-server-b": {status: flows.Done}, "gateway-client-a": {status: flows.Done},
				"public-key-a": {status: flows.Done}, "public-key-b": {status: flows.Done},
				"connected-a": {status: flows.Done, reason: "Connected, latency 1ms"},
			},
		},
		{
			name: "they are connected the other way round: both gateways are replaced",
			past: flowtest.But(flowtest.Nothing, func(p *flowtest.Pair) { p.ConnectByLiqoctl(flows.A) }),
			want: map[flows.StepID]want{
				"gateway-server-b": {status: flows.Ready, reason: "replaces GatewayClient client-rome (deleted and created again)"},
				"gateway-client-a": {status: flows.Blocked, reason: "replaces GatewayServer server-milan (deleted and created again), once the new server exists"},
				"connected-a":      {status: flows.Blocked, reason: "needs the gateway"},
			},
		},
		{
			name: "half of a connection the other way round",
			past: flowtest.But(flowtest.PartWay(1, flowtest.NodePort()), func(p *flowtest.Pair) {
				p.A.Put(render.GatewayServer(render.ServerParams{Tenant: p.A.Tenant(), ServiceType: "NodePort", Port: 51840, MTU: 1340}))
			}),
			want: map[flows.StepID]want{
				"gateway-server-b": {status: flows.Ready},
				"gateway-client-a": {status: flows.Blocked, reason: "replaces GatewayServer milan (deleted and created again), once the new server exists"},
			},
		},
		{
			name: "one cluster does not answer", steps: 1,
			past: flowtest.But(flowtest.Nothing, func(p *flowtest.Pair) {
				p.B.Be(func(f *flows.ClusterFacts) {
					f.Problem = &flows.Problem{Kind: flows.Unauthorized, Message: "milan does not accept the credentials", Fix: command.Text("log in again")}
				})
			}),
			want: map[flows.StepID]want{"preflight-b": preflight(flows.FailedAccess, "milan does not accept the credentials", "log in again")},
		},
		{
			name: "both clusters are unfit: both are named", steps: 2,
			past: flowtest.But(flowtest.Nothing, func(p *flowtest.Pair) {
				p.A.Be(func(f *flows.ClusterFacts) { f.Software, f.ID, f.HasCRDs = flows.NoSoftware, "", false })
				p.B.Be(func(f *flows.ClusterFacts) { f.Networks.External = nil })
			}),
			want: map[flows.StepID]want{
				"preflight-a": preflight(flows.FailedPreflight, "nothing is installed on kind-rome yet, neither Liqo nor the liqo-tui operator",
					"add --install to liqo-tui network connect --context kind-rome --remote-context CONTEXT, or run: liqo-tui install --context kind-rome --cluster-id NAME"),
				"preflight-b": preflight(flows.FailedPreflight, "liqo-tui operator on kind-milan has published no address ranges: namespace liqo has no Network of type pod-cidr or external-cidr with a status",
					"read its log, and see: kubectl --context kind-milan -n liqo get pods,networks"),
			},
		},
		{
			name: "the operator's image can't be pulled: that is why no ranges are known", steps: 1,
			past: flowtest.But(flowtest.Nothing, func(p *flowtest.Pair) {
				p.B.Be(func(f *flows.ClusterFacts) {
					f.Networks, f.Operator.Problem = render.Networks{}, "Deployment liqo/liqo-tui-operator is not available: ImagePullBackOff"
				})
			}),
			want: map[flows.StepID]want{"preflight-b": preflight(flows.FailedPreflight,
				"Deployment liqo/liqo-tui-operator is not available: ImagePullBackOff",
				"if the image can't be pulled, run: liqo-tui install --context kind-milan --image IMAGE; else see: kubectl --context kind-milan -n liqo get pods,events")},
		},
		{
			name: "an ID of digits only", steps: 1,
			past: flowtest.But(flowtest.Nothing, func(p *flowtest.Pair) { p.A.Be(func(f *flows.ClusterFacts) { f.ID = "42" }) }),
			want: map[flows.StepID]want{"preflight-a": preflight(flows.FailedPreflight,
				`cluster ID "42" is only digits, which Liqo's gateway templates can't carry`,
				"set it in ConfigMap liqo-clusterid-configmap in namespace liqo")},
		},
		{
			name: "twice the same cluster", steps: 1,
			past: flowtest.But(flowtest.Nothing, func(p *flowtest.Pair) { p.B.Be(func(f *flows.ClusterFacts) { f.UID = "uid-of-rome" }) }),
			want: map[flows.StepID]want{"preflight-b": preflight(flows.FailedPreflight,
				"kind-rome and kind-milan are the same cluster (kube-system has UID uid-of-rome in both)",
				"choose another context with --context or --remote-context")},
		},
		{
			name: "twice the same ID", steps: 1,
			past: flowtest.But(flowtest.Nothing, func(p *flowtest.Pair) { p.B.Be(func(f *flows.ClusterFacts) { f.ID = "rome" }) }),
			want: map[flows.StepID]want{"preflight-b": preflight(flows.FailedPreflight,
				`both clusters call themselves "rome"`, "install one of them with another --cluster-id")},
		},
	} {
		t.Run(tc.name, func(t *testing.T) { checkPlan(t, tc, flows.PlanConnect) })
	}
}

// earlierConnection is what the last gateway of that name left behind.
func earlierConnection(c *flowtest.Cluster) *networkingv1beta1.Connection {
	client := c.Facts().Clients[0]
	client.UID = "earlier"
	client.SetGroupVersionKind(networkingv1beta1.GroupVersion.WithKind(networkingv1beta1.GatewayClientKind))
	conn := render.Gateway{Tenant: c.Tenant(), Name: client.Name, Type: networkingv1beta1.ConnectionTypeClient, Owner: &client}.Connection()
	return conn
}

func TestPlanConnectAdoptsNames(t *testing.T) {
	p := flowtest.NewPair()
	p.ConnectByLiqoctl(flows.B)
	p.B.Be(func(f *flows.ClusterFacts) { f.Networks.Pod = []networkingv1beta1.CIDR{"10.99.0.0/16"} })
	changed := flowtest.NodePort()
	changed.MTU = 1400
	plan := flows.PlanConnect(changed, flowtest.Facts(p))
	for id, name := range map[flows.StepID]string{
		"configuration-a": "conf-milan", "gateway-server-b": "server-rome", "gateway-client-a": "client-milan",
	} {
		s, _ := plan.Step(id)
		if len(s.Objects) != 1 || s.Objects[0].GetName() != name || !strings.HasSuffix(s.Objects[0].GetNamespace(), "-by-liqoctl") {
			t.Errorf("step %s applies %v, want %s in liqoctl's namespace", id, s.Objects, name)
		}
	}
}

func TestPlanConnectShowsWhatAnUpdateChanges(t *testing.T) {
	p := flowtest.NewPair()
	p.Pacing = flowtest.Manual
	flowtest.Connected(t, p)
	params := flowtest.NodePort()
	params.MTU = 1400
	s, _ := flows.PlanConnect(params, flowtest.Facts(p)).Step("gateway-client-a")
	if s.Action != flows.Update || !strings.Contains(s.Diff, "-  mtu: 1340\n+  mtu: 1400\n") {
		t.Errorf("got %s with diff:\n%s", s.Action, s.Diff)
	}
}

// The client exists and dials another port afterwards, which the plan has to count.
func TestAPlanForAnotherPortUpdatesBothGateways(t *testing.T) {
	balanced := flowtest.NodePort()
	balanced.ServiceType = corev1.ServiceTypeLoadBalancer
	for name, c := range map[string]struct {
		was    flows.Params
		change func(*flows.Params)
	}{
		"node port":              {flowtest.NodePort(), func(p *flows.Params) { p.NodePort = 31777 }},
		"server port":            {balanced, func(p *flows.Params) { p.Port = 51850 }},
		"another Service":        {flowtest.NodePort(), func(p *flows.Params) { p.ServiceType = corev1.ServiceTypeLoadBalancer }},
		"the port to be dialled": {balanced, func(p *flows.Params) { p.Port, p.ClientAddress, p.ClientPort = 51850, "198.51.100.7", 4500 }},
	} {
		p := flowtest.NewPair()
		p.Pacing = flowtest.Manual
		flowtest.PartWay(flowtest.ManyRounds, c.was)(t, p)
		c.change(&c.was)
		if got := flows.PlanConnect(c.was, flowtest.Facts(p)).Changes(); got != (flows.Summary{Update: 2}) {
			t.Errorf("%s: got %+v, want two updates", name, got)
		}
	}
}

// Plans are pure: the facts stay as they are, and the same facts give the same plan.
func TestPlansDoNotChangeFacts(t *testing.T) {
	p := flowtest.NewPair()
	p.Pacing = flowtest.Manual
	flowtest.Connected(t, p)
	f, before := flowtest.Facts(p), flowtest.Facts(p)
	for _, plan := range []flows.Planner{flowtest.Connect(flowtest.NodePort()), flowtest.Connect(flows.Defaults()), flowtest.Reset} {
		first := plan(f)
		if d := diff(before, f); d != "" {
			t.Fatalf("the plan changed the facts:\n%s", d)
		}
		if d := diff(first, plan(f)); d != "" {
			t.Errorf("the second plan of the same facts differs:\n%s", d)
		}
	}
}

func TestCIDRsConfigured(t *testing.T) {
	for name, tc := range map[string]struct {
		pod, external []networkingv1beta1.CIDR // of the status
		condition     string
		observed      int64
		want          bool
	}{
		"nothing in the status":                   {},
		"all, by a release without the condition": {pod: cidrs("10.0.0.0/16"), external: cidrs("10.1.0.0/16"), want: true},
		"all, and the condition says so":          {pod: cidrs("10.0.0.0/16"), external: cidrs("10.1.0.0/16"), condition: "True", observed: 3, want: true},
		"the condition is of an older spec":       {pod: cidrs("10.0.0.0/16"), external: cidrs("10.1.0.0/16"), condition: "True", observed: 2},
		"the condition says no":                   {pod: cidrs("10.0.0.0/16"), external: cidrs("10.1.0.0/16"), condition: "False", observed: 3},
		"one is still open":                       {pod: cidrs("10.0.0.0/16"), external: cidrs("")},
		"one is missing":                          {pod: cidrs("10.0.0.0/16")},
	} {
		t.Run(name, func(t *testing.T) {
			c := configuration(tc.pod, tc.external, tc.condition, tc.observed)
			if got := flows.CIDRsConfigured(c); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// An admin of both clusters means the same by a namespace in both. Nobody else's choice is changed.
func TestANewConnectionOfOneAdminImportsServices(t *testing.T) {
	imports := func(f flows.Facts, side flows.Side) string {
		for _, s := range flows.PlanConnect(flowtest.NodePort(), f).Steps {
			if s.ID == flows.IDOf(side, "configuration") {
				return s.Want[0].GetAnnotations()[wire.AnnotationImport]
			}
		}
		t.Fatal("no step makes the Configuration")
		return ""
	}
	pair := flowtest.NewPair()
	pair.B.Be(func(f *flows.ClusterFacts) { f.Software = flows.Liqo })
	if f := flowtest.Facts(pair); imports(f, flows.A) != wire.ImportAll || imports(f, flows.B) != "" {
		t.Errorf("rome, with our operator: %q; milan, with Liqo: %q", imports(f, flows.A), imports(f, flows.B))
	}
	f := flowtest.Facts(flowtest.NewPair())
	if f.Sides[flows.B].Described = true; imports(f, flows.A) != "" {
		t.Errorf("nobody has seen milan: %q", imports(f, flows.A))
	}
	// milan's policy for peering users forbids this annotation to them.
	f = flowtest.Facts(flowtest.NewPair())
	if f.Sides[flows.B].AsPeer = true; imports(f, flows.A) != "" || imports(f, flows.B) != "" {
		t.Errorf("as a peering user of milan: rome %q, milan %q", imports(f, flows.A), imports(f, flows.B))
	}
	pair = flowtest.NewPair()
	flowtest.Connected(t, pair)
	for _, there := range []string{"", "shop"} {
		f := flowtest.Facts(pair)
		c := &f.Sides[flows.A].Configurations[0]
		if delete(c.Annotations, wire.AnnotationImport); there != "" {
			c.Annotations[wire.AnnotationImport] = there
		}
		if got := imports(f, flows.A); got != there {
			t.Errorf("a connection that allows %q gets %q", there, got)
		}
	}
}
