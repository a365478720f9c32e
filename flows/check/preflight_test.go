package check_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/connect"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/install"
	"github.com/liqo-tui/liqo-tui/flows/rights"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/golden"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

func factsOf(p *flowtest.Pair) flows.Facts {
	return flows.Facts{Sides: [2]flows.ClusterFacts{p.A.Facts(), p.B.Facts()}, At: p.Now()}
}

func nodePort() flows.Params {
	p := flows.Defaults()
	p.ServiceType, p.Given = corev1.ServiceTypeNodePort, flows.AllFields
	return p
}

func connectPair(t *testing.T, p *flowtest.Pair) {
	t.Helper()
	if err := engine.Run(t.Context(), connect.Goal{Params: nodePort()}, p.A, p.B, func(engine.Event) {}, engine.Options{Now: p.Now}); err != nil {
		t.Fatal(err)
	}
}

func node(name, internal, external string) flows.NodeFacts {
	n := flows.NodeFacts{Name: name, Ready: true, Internal: []netip.Addr{netip.MustParseAddr(internal)}}
	if external != "" {
		n.External = []netip.Addr{netip.MustParseAddr(external)}
	}
	return n
}

// Liqo's gateways with pings switched off report Connected, but have measured nothing.
func TestAConnectionThatNobodyMeasuresIsNoProofOfReach(t *testing.T) {
	pair := flowtest.NewPair()
	connectPair(t, pair)
	f := factsOf(pair)
	if r := find(t, check.Preflight(nodePort(), f, [2]*rights.Review{}), check.Reachability); r.State != check.Pass {
		t.Errorf("it answers pings: got %s", text([]check.Result{r}))
	}
	for side := range f.Sides {
		c := &f.Sides[side]
		c.Connections[0].Annotations, c.Connections[0].Status.Latency = nil, networkingv1beta1.ConnectionLatency{}
	}
	if r := find(t, check.Preflight(nodePort(), f, [2]*rights.Review{}), check.Reachability); r.State == check.Pass {
		t.Errorf("it says Connected only: got %s", text([]check.Result{r}))
	}
}

// Nodes in one network, or load balancers with addresses, are a good sign, but no proof that packets pass.
func TestAnAddressIsNoPacket(t *testing.T) {
	pair := flowtest.NewPair()
	f := factsOf(pair)
	f.Sides[flows.A].Nodes, f.Sides[flows.B].Nodes = []flows.NodeFacts{node("a", "192.168.7.1", "")}, []flows.NodeFacts{node("b", "192.168.7.2", "")}
	f.Sides[flows.A].LoadBalancers.Answered, f.Sides[flows.B].LoadBalancers.Answered = 1, 1
	for _, service := range []corev1.ServiceType{corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer} {
		p := nodePort()
		p.ServiceType = service
		if r := find(t, check.Preflight(p, f, [2]*rights.Review{}), check.Reachability); r.State != check.Inconclusive {
			t.Errorf("%s: got %s, want inconclusive", service, text([]check.Result{r}))
		}
	}
}

func TestPreflight(t *testing.T) {
	may := [2]*rights.Review{{User: "ada"}, {User: "ada"}}
	for name, tc := range map[string]struct {
		pair    func(t *testing.T, p *flowtest.Pair)
		params  func(*flows.Params)
		reviews [2]*rights.Review
	}{
		"fresh": {reviews: may},
		"problem": {pair: func(_ *testing.T, p *flowtest.Pair) {
			p.B.Be(func(f *flows.ClusterFacts) {
				f.Problem = &flows.Problem{Message: "https://172.18.0.20:6443 does not answer", Fix: command.Text("check the VPN")}
			})
		}},
		"same": {pair: func(_ *testing.T, p *flowtest.Pair) {
			p.B.Be(func(f *flows.ClusterFacts) { f.UID = "uid-of-rome" })
		}},
		"unfit": {pair: func(_ *testing.T, p *flowtest.Pair) {
			p.A.Be(func(f *flows.ClusterFacts) { f.MissingKinds = []string{"gatewayservers.networking.liqo.io/v1beta1"} })
			p.B.Be(func(f *flows.ClusterFacts) {
				f.Operator = flows.OperatorFacts{Problem: "Liqo's controller-manager runs here too", Refuses: true}
			})
		}},
		"forbidden": {reviews: [2]*rights.Review{
			{User: "ada", Missing: []rights.Permission{{Verb: "create", Group: "networking.liqo.io", Resource: "gatewayservers", Namespace: "liqo-tenant-milan"}}}, nil,
		}},
		"connected": {reviews: may, pair: connectPair},
		"clock-here": {reviews: may, pair: func(t *testing.T, p *flowtest.Pair) {
			p.A.Be(func(f *flows.ClusterFacts) { f.ClockAhead = -35 * time.Second })
			p.B.Be(func(f *flows.ClusterFacts) { f.ClockAhead = -34 * time.Second })
			connectPair(t, p)
		}},
		"clock-there": {reviews: may, pair: func(_ *testing.T, p *flowtest.Pair) {
			p.A.Be(func(f *flows.ClusterFacts) { f.ClockAhead = 5 * time.Second })
			p.B.Be(func(f *flows.ClusterFacts) { f.ClockAhead = 65 * time.Second })
		}},
		"moved": {reviews: may, pair: connectPair, params: func(p *flows.Params) { p.Server = flows.A }},
		"leftovers": {reviews: may, pair: func(t *testing.T, p *flowtest.Pair) {
			connectPair(t, p)
			live := p.B.Facts().Servers[0]
			p.B.Terminate(&live)
			client := p.A.Facts().Clients[0]
			p.A.Remove(&client)
			elsewhere := render.Configuration(render.Tenant{Namespace: "old", Remote: "milan"}, render.Networks{})
			p.A.Put(&corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: "old", Labels: map[string]string{}}}, elsewhere)
		}},
		"namesake": {reviews: may, pair: func(t *testing.T, p *flowtest.Pair) {
			connectPair(t, p)
			p.B.Remove(p.B.Objects()...)
			p.B.Be(func(f *flows.ClusterFacts) { f.UID = "uid-of-another" })
		}},
		"namesake-replaces": {reviews: may, pair: func(t *testing.T, p *flowtest.Pair) {
			connectPair(t, p)
			p.B.Remove(p.B.Objects()...)
			p.B.Be(func(f *flows.ClusterFacts) { f.UID = "uid-of-another" })
		}, params: func(p *flows.Params) { p.ReplacePeer = true }},
		"namesake-unknown": {reviews: may, pair: func(_ *testing.T, p *flowtest.Pair) {
			p.ConnectByLiqoctl(flows.B)
			p.B.Remove(p.B.Objects()...)
		}},
		"private": {reviews: may, pair: func(_ *testing.T, p *flowtest.Pair) {
			p.A.Be(func(f *flows.ClusterFacts) { f.Nodes = []flows.NodeFacts{node("r1", "192.168.7.4", "198.51.100.9")} })
			p.B.Be(func(f *flows.ClusterFacts) { f.Nodes = []flows.NodeFacts{node("m1", "10.9.0.4", "")} })
		}},
		"both-behind-nat": {reviews: may, pair: func(_ *testing.T, p *flowtest.Pair) {
			p.A.Be(func(f *flows.ClusterFacts) { f.Nodes = []flows.NodeFacts{node("r1", "192.168.7.4", "")} })
			p.B.Be(func(f *flows.ClusterFacts) { f.Nodes = []flows.NodeFacts{node("m1", "100.64.0.4", "")} })
		}},
		"relay": {
			reviews: may, params: func(p *flows.Params) { p.Relay = "relay.example.org:51840" }, pair: func(_ *testing.T, p *flowtest.Pair) {
				p.A.Be(func(f *flows.ClusterFacts) { f.Nodes = []flows.NodeFacts{node("r1", "192.168.7.4", "")} })
				p.B.Be(func(f *flows.ClusterFacts) { f.Nodes = []flows.NodeFacts{node("m1", "100.64.0.4", "")} })
			},
		},
		"installs": {
			pair: func(_ *testing.T, p *flowtest.Pair) {
				p.B.Be(func(f *flows.ClusterFacts) {
					f.Software, f.HasCRDs, f.ID, f.Networks = flows.NoSoftware, false, "", render.Networks{}
				})
			},
			params: func(p *flows.Params) {
				i, err := install.New(render.InstallParams{ClusterID: "milan", Image: "registry.example.org/liqo-gateway:v1"})
				if err != nil {
					panic(err)
				}
				p.Install[flows.B] = i
			},
		},
		"mtu-auto": {reviews: may, params: func(p *flows.Params) { p.MTU = wire.MaxMTU }},
		"jumbo-port-taken": {
			reviews: may,
			pair: func(_ *testing.T, p *flowtest.Pair) {
				p.B.Put(render.TenantNamespace(render.Tenant{Namespace: "liqo-tenant-turin", Remote: "turin"}),
					render.GatewayServer(render.ServerParams{Tenant: render.Tenant{Namespace: "liqo-tenant-turin", Remote: "turin"}, ServiceType: "NodePort", Port: 51840, NodePort: 31000, MTU: 1340}))
			},
			params: func(p *flows.Params) { p.NodePort, p.MTU = 31000, 8900 },
		},
	} {
		t.Run(name, func(t *testing.T) {
			pair := flowtest.NewPair()
			if tc.pair != nil {
				tc.pair(t, pair)
			}
			params := nodePort()
			if tc.params != nil {
				tc.params(&params)
			}
			golden.Compare(t, "preflight-"+name+".txt", text(check.Preflight(params, factsOf(pair), tc.reviews)))
		})
	}
}

// A check fails for each reason for which the plan is refused, and only for such reasons.
func TestThePlanRefusesWhatFails(t *testing.T) {
	for name, breakIt := range map[string]func(*flows.ClusterFacts){
		"nothing": func(*flows.ClusterFacts) {},
		"no answer": func(f *flows.ClusterFacts) {
			f.Problem = &flows.Problem{Kind: flows.Unreachable, Message: "it does not answer"}
		},
		"same cluster":      func(f *flows.ClusterFacts) { f.UID = "uid-of-rome" },
		"no UID":            func(f *flows.ClusterFacts) { f.UID = "" },
		"same ID":           func(f *flows.ClusterFacts) { f.ID = "rome" },
		"numeric ID":        func(f *flows.ClusterFacts) { f.ID = "007" },
		"no ID":             func(f *flows.ClusterFacts) { f.ID = "" },
		"no kinds":          func(f *flows.ClusterFacts) { f.HasCRDs = false },
		"older kinds":       func(f *flows.ClusterFacts) { f.MissingKinds = []string{"connections.networking.liqo.io/v1beta1"} },
		"no ranges":         func(f *flows.ClusterFacts) { f.Networks = render.Networks{} },
		"operator refuses":  func(f *flows.ClusterFacts) { f.Operator = flows.OperatorFacts{Problem: "Liqo is here", Refuses: true} },
		"operator starting": func(f *flows.ClusterFacts) { f.Operator.Problem = "its pod is being pulled" },
	} {
		t.Run(name, func(t *testing.T) {
			pair := flowtest.NewPair()
			pair.B.Be(breakIt)
			f := factsOf(pair)
			failed := map[flows.Code]string{}
			for _, r := range check.Preflight(nodePort(), f, [2]*rights.Review{}) {
				if r.Root {
					failed[r.ID] = r.Summary
				}
			}
			plan := flows.PlanConnect(nodePort(), f)
			if (plan.Failure() != nil) != (len(failed) > 0) {
				t.Fatalf("the plan says %+v, the checks %v", plan.Failure(), failed)
			}
			if s := plan.Failure(); s != nil && failed[s.Code] != s.Reason {
				t.Errorf("the plan says %s %q, the checks %v", s.Code, s.Reason, failed)
			}
		})
	}
}

func TestOverlapsAreSymmetric(t *testing.T) {
	for _, tc := range []struct {
		name string
		b    flows.ClusterFacts
		want check.Outcome
	}{
		{"the same pods", flows.ClusterFacts{Networks: render.Networks{Pod: cidrs("10.244.0.0/16"), External: cidrs("10.71.0.0/16")}}, check.Warn},
		{"pods in pods", flows.ClusterFacts{Networks: render.Networks{Pod: cidrs("10.244.128.0/20"), External: cidrs("10.71.0.0/16")}}, check.Warn},
		{"pods in Services", flows.ClusterFacts{Networks: render.Networks{Pod: cidrs("10.96.8.0/24"), External: cidrs("10.71.0.0/16")}}, check.Warn},
		{"pods over a node", flows.ClusterFacts{Networks: render.Networks{Pod: cidrs("172.18.0.0/24"), External: cidrs("10.71.0.0/16")}}, check.Warn},
		{"external in external", flows.ClusterFacts{Networks: render.Networks{Pod: cidrs("10.1.0.0/16"), External: cidrs("10.70.0.0/24")}}, check.Warn},
		{"nothing", flows.ClusterFacts{Networks: render.Networks{Pod: cidrs("10.1.0.0/16"), External: cidrs("10.71.0.0/16")}}, check.Pass},
		{"nodes beside each other", flows.ClusterFacts{
			Networks: render.Networks{Pod: cidrs("10.1.0.0/16"), External: cidrs("10.71.0.0/16")}, Nodes: []flows.NodeFacts{node("m1", "172.18.0.10", "")},
		}, check.Pass},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pair := flowtest.NewPair()
			a := func(f *flows.ClusterFacts) {
				f.ServiceCIDRs, f.Nodes = cidrs("10.96.0.0/12"), []flows.NodeFacts{node("r1", "172.18.0.10", "")}
			}
			b := func(f *flows.ClusterFacts) { f.Networks, f.Nodes = tc.b.Networks, tc.b.Nodes }
			pair.A.Be(a)
			pair.B.Be(b)
			one := find(t, check.Preflight(nodePort(), factsOf(pair), [2]*rights.Review{}), check.Overlaps)
			f := factsOf(pair)
			f.Sides[flows.A], f.Sides[flows.B] = f.Sides[flows.B], f.Sides[flows.A]
			other := find(t, check.Preflight(nodePort(), f, [2]*rights.Review{}), check.Overlaps)
			if one.State != tc.want || other.State != tc.want {
				t.Errorf("got %s, and %s the other way round; want %s\n%s", one.State, other.State, tc.want, text([]check.Result{one, other}))
			}
		})
	}
}

// The operator decides as predicted.
func TestViewsArePredicted(t *testing.T) {
	pair := flowtest.NewPair()
	for _, c := range []*flowtest.Cluster{pair.A, pair.B} {
		c.Be(func(f *flows.ClusterFacts) { f.ServiceCIDRs = cidrs("10.96.0.0/12") })
	}
	before := map[flows.Side][]check.View{}
	for _, side := range []flows.Side{flows.A, flows.B} {
		before[side], _ = check.Views(factsOf(pair), side)
	}
	connectPair(t, pair)
	for side, predicted := range before {
		now, err := check.Views(factsOf(pair), side)
		if err != nil || len(now) != 2 || len(predicted) != 2 {
			t.Fatalf("side %s: predicted %v, now %v (%v)", side, predicted, now, err)
		}
		for i, v := range now {
			if v.Predicted || !predicted[i].Predicted || predicted[i].Remapped != v.Remapped || predicted[i].Real != v.Real {
				t.Errorf("side %s: predicted %+v, decided %+v", side, predicted[i], v)
			}
		}
	}
}

// A range from the account of a peer's admin is remapped, even if it is free, so that it can't attract other
// traffic.
func TestWhatAPeersAccountSaysIsPredictedRemapped(t *testing.T) {
	for _, account := range []bool{false, true} {
		pair := flowtest.NewPair()
		pair.A.Be(func(f *flows.ClusterFacts) { f.AsPeer = account })
		pair.B.Be(func(f *flows.ClusterFacts) {
			f.Networks = render.Networks{Pod: cidrs("10.1.0.0/16"), External: cidrs("10.71.0.0/16")}
		})
		views, err := check.Views(factsOf(pair), flows.A)
		if err != nil || len(views) != 2 {
			t.Fatalf("got %v, %v", views, err)
		}
		for _, v := range views {
			if remapped := v.Real != v.Remapped; remapped != account {
				t.Errorf("by such an account %v: %s", account, v)
			}
		}
	}
}

// Liqo has its own pools and rules, so our operator's choice does not predict Liqo's.
func TestWhatLiqoChoosesIsNotPredicted(t *testing.T) {
	pair := flowtest.NewPair()
	pair.A.Be(func(f *flows.ClusterFacts) { f.Software = flows.Liqo })
	r := find(t, check.Preflight(nodePort(), factsOf(pair), [2]*rights.Review{}), check.Overlaps)
	for _, want := range []string{
		"rome will see milan's pods 10.244.0.0/16 as a range that Liqo chooses", "rome will see milan's external 10.70.0.0/16 as a range that Liqo chooses",
		"milan will probably see rome's pods 10.244.0.0/16 as 2", // the choice of our operator is predicted
	} {
		if !slices.ContainsFunc(r.Evidence, func(line string) bool { return strings.HasPrefix(line, want) }) {
			t.Errorf("evidence %q: want a line that begins with %q", r.Evidence, want)
		}
	}
}

func TestNoRoomForAnotherRange(t *testing.T) {
	pair := flowtest.NewPair()
	pair.A.Be(func(f *flows.ClusterFacts) {
		f.Taken, f.Pools = cidrs("10.0.0.0/8", "192.168.0.0/16"), cidrs("10.0.0.0/8", "192.168.0.0/16")
	})
	if r := find(t, check.Preflight(nodePort(), factsOf(pair), [2]*rights.Review{}), check.Overlaps); r.State != check.Fail || len(r.Fix) == 0 {
		t.Errorf("got %+v", r)
	}
}

func TestSuggestions(t *testing.T) {
	lb := flows.LoadBalancerFacts{Answered: 2}
	public := []flows.NodeFacts{node("m1", "203.0.113.7", "")}
	private := []flows.NodeFacts{node("r1", "10.9.0.4", "")}
	for name, tc := range map[string]struct {
		local, remote flows.ClusterFacts
		server        flows.Side
		service       corev1.ServiceType // of the remote cluster
	}{
		"nothing known":           {server: flows.B, service: corev1.ServiceTypeNodePort},
		"local has load balancer": {local: flows.ClusterFacts{LoadBalancers: lb}, remote: flows.ClusterFacts{Nodes: public}, server: flows.A, service: corev1.ServiceTypeNodePort},
		"remote is public":        {local: flows.ClusterFacts{Nodes: private}, remote: flows.ClusterFacts{Nodes: public}, server: flows.B, service: corev1.ServiceTypeNodePort},
		"local is public":         {local: flows.ClusterFacts{Nodes: public}, remote: flows.ClusterFacts{Nodes: private}, server: flows.A, service: corev1.ServiceTypeNodePort},
		"pending load balancers":  {remote: flows.ClusterFacts{LoadBalancers: flows.LoadBalancerFacts{Pending: 1}}, server: flows.B, service: corev1.ServiceTypeNodePort},
		"a cloud":                 {remote: flows.ClusterFacts{Nodes: []flows.NodeFacts{{Provider: "aws"}}}, server: flows.B, service: corev1.ServiceTypeLoadBalancer},
	} {
		tc.local.ID, tc.remote.ID = "rome", "milan"
		server, why := flows.SuggestServer(flows.Facts{Sides: [2]flows.ClusterFacts{tc.local, tc.remote}})
		service, because := flows.SuggestServiceType(tc.remote)
		if server != tc.server || service != tc.service || why == "" || because == "" {
			t.Errorf("%s: got %s (%s), %s (%s); want %s, %s", name, server, why, service, because, tc.server, tc.service)
		}
	}
	pair := flowtest.NewPair()
	pair.ConnectByLiqoctl(flows.A)
	if server, why := flows.SuggestServer(factsOf(pair)); server != flows.A || why != "rome hosts it already" {
		t.Errorf("a connection that exists: got %s, %s", server, why)
	}
}

func find(t *testing.T, results []check.Result, id flows.Code) check.Result {
	t.Helper()
	for _, r := range results {
		if r.ID == id {
			return r
		}
	}
	t.Fatalf("no %s in\n%s", id, text(results))
	return check.Result{}
}

func cidrs(text ...networkingv1beta1.CIDR) []networkingv1beta1.CIDR { return text }

// The objects of a second tunnel are leftovers only if the tunnel does not work.
func TestNothingOfATunnelThatWorksIsALeftover(t *testing.T) {
	p := flowtest.NewPair()
	connectPair(t, p)
	f := flowtest.Facts(p)
	tenant := render.Tenant{Namespace: "default", Remote: "milan", Name: "second"}
	f.Sides[flows.A].Configurations = append(f.Sides[flows.A].Configurations, *render.Configuration(tenant, render.Networks{}))
	f.Sides[flows.A].Clients = append(f.Sides[flows.A].Clients, *render.GatewayClient(render.ClientParams{Tenant: tenant}))
	leftover := func() check.Outcome {
		for _, r := range check.Preflight(flows.Defaults(), f, [2]*rights.Review{}) {
			if r.ID == check.Leftovers && r.Sides[0] == flows.A {
				return r.State
			}
		}
		return check.Inconclusive
	}
	if got := leftover(); got != check.Warn {
		t.Errorf("a gateway that does not work: got %v, want a warning", got)
	}
	second := f.Sides[flows.A].Connections[0].DeepCopy()
	second.Namespace, second.Name = "default", "gw-second"
	f.Sides[flows.A].Connections = append(f.Sides[flows.A].Connections, *second)
	if got := leftover(); got != check.Pass {
		t.Errorf("a gateway that works: got %v, want a pass", got)
	}
}
