package byhand_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/byhand"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/connect"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/rights"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// admin has access to one cluster alone, and a namespace on it.
type admin struct {
	t         *testing.T
	pair      *flowtest.Pair
	cluster   *flowtest.Cluster
	namespace string
}

// admins are those of two clusters, each with the namespaces that a peering by hand
// is made in.
func admins(t *testing.T, tenants bool) (rome, milan admin) {
	t.Helper()
	p := flowtest.NewPair()
	rome, milan = admin{t: t, pair: p, cluster: p.A}, admin{t: t, pair: p, cluster: p.B}
	for _, a := range []*admin{&rome, &milan} {
		a.cluster.PutAs("kubernetes", &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: "default"}})
		if tenants {
			a.namespace = a.cluster.Tenant().Namespace
		}
	}
	return rome, milan
}

func (a admin) run(plan flows.Planner) error {
	return engine.Run(a.t.Context(), plan, a.cluster, engine.Absent{}, func(engine.Event) {}, engine.Options{Now: a.pair.Now})
}

func (a admin) create(o byhand.Object, edit func(*flows.Params)) error {
	p := flows.Defaults()
	p.Namespaces[flows.A] = a.namespace
	if edit != nil {
		edit(&p)
	}
	return a.run(func(f flows.Facts) flows.Plan { return byhand.Create(o, p, f) })
}

func (a admin) generate(k byhand.Kind, g byhand.Gateway) (wire.Object, error) {
	g.Namespace = a.namespace
	if err := a.run(func(f flows.Facts) flows.Plan { return k.Known(g, f) }); err != nil {
		return nil, err
	}
	return k.Told(g, a.cluster.Facts()), nil
}

// apply is kubectl's: what says no namespace goes to the context's.
func (a admin) apply(o wire.Object) {
	if o.GetNamespace() == "" {
		o.SetNamespace("default")
	}
	a.cluster.PutAs("kubectl", o)
}

func (a admin) hasGenerated(k byhand.Kind, g byhand.Gateway) wire.Object {
	a.t.Helper()
	o, err := a.generate(k, g)
	if err != nil {
		a.t.Fatalf("generate %s: %v", k.Word(), err)
	}
	return o
}

func (a admin) has(o byhand.Object, edit func(*flows.Params)) {
	a.t.Helper()
	if err := a.create(o, edit); err != nil {
		a.t.Fatalf("create %s: %v", o.Kind.Word(), err)
	}
}

func nodePort(p *flows.Params) { p.ServiceType = corev1.ServiceTypeNodePort }

// dials has a client dial the server of another cluster.
func dials(a admin) func(*flows.Params) {
	return func(p *flows.Params) {
		e := a.cluster.Facts().Servers[0].Status.Endpoint
		p.ClientAddress, p.ClientPort = e.Addresses[0], uint16(e.Port)
		p.Given |= flows.FieldClientAddress | flows.FieldClientPort
	}
}

var (
	server = byhand.Object{Kind: byhand.GatewayServer, Name: "server", Remote: "rome"}
	client = byhand.Object{Kind: byhand.GatewayClient, Name: "client", Remote: "milan"}
)

// exchange has each tell the other its address ranges.
func exchange(rome, milan admin) {
	milan.apply(rome.hasGenerated(byhand.Configuration, byhand.Gateway{}))
	rome.apply(milan.hasGenerated(byhand.Configuration, byhand.Gateway{}))
}

// eightSteps are those of the document: rome is the client, milan the server.
func eightSteps(rome, milan admin) {
	exchange(rome, milan)
	milan.has(server, nodePort)
	rome.has(client, dials(milan))
	rome.apply(milan.hasGenerated(byhand.PublicKey, byhand.Gateway{Role: flows.RoleServer, Name: "server"}))
	milan.apply(rome.hasGenerated(byhand.PublicKey, byhand.Gateway{Role: flows.RoleClient, Name: "client"}))
	rome.pair.Settle()
}

func TestEightStepsByHandMakeAConnectionThatAllCommandsSee(t *testing.T) {
	for _, tenants := range []bool{false, true} {
		t.Run(fmt.Sprintf("in tenant namespaces %t", tenants), func(t *testing.T) {
			rome, milan := admins(t, tenants)
			if tenants {
				for _, a := range []admin{rome, milan} {
					a.cluster.PutAs("kubectl", &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: a.namespace}})
				}
			}
			eightSteps(rome, milan)
			for _, a := range []admin{rome, milan} {
				for id, p := range a.cluster.Facts().Peers() {
					if state, why := p.Reading().State(a.pair.Now()); state != flows.StateConnected {
						t.Errorf("%s with %s: got %s (%s), want connected", a.cluster.Facts().ID, id, state, why)
					}
				}
			}
			f := flowtest.Facts(rome.pair)
			if plan := (connect.Goal{Params: flows.Defaults()}).Plan(f); !plan.Empty() || !plan.Done() {
				t.Errorf("connect would change it: %s, failure %v", plan.Changes(), plan.Failure())
			}
			for _, r := range check.Preflight(flows.Defaults(), f, [2]*rights.Review{}) {
				if r.ID == check.Leftovers && r.State != check.Pass {
					t.Errorf("it is called a leftover: %+v", r)
				}
			}
			before := milan.cluster.Names()
			milan.has(server, nil) // again, without its settings
			rome.has(client, dials(milan))
			if got := milan.cluster.Names(); !slices.Equal(got, before) {
				t.Errorf("again: got %v, want %v", got, before)
			}
			flowtest.MustRun(t, rome.pair, flows.Planner(flowtest.Reset))
			for _, name := range slices.Concat(rome.cluster.Names(), milan.cluster.Names()) {
				if !strings.HasPrefix(name, "Namespace ") {
					t.Errorf("left after reset: %s", name)
				}
			}
		})
	}
}

func TestAStepByHandThatDoesNotFitChangesNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		before func(rome, milan admin)
		step   func(rome, milan admin) error
		kind   flows.FailureKind
		says   string
	}{
		"a server before the Configuration": {
			nil, func(_, milan admin) error { return milan.create(server, nodePort) },
			flows.FailedPreflight, "milan has no Configuration for rome yet",
		},
		"a client before the Configuration": {
			func(_, milan admin) {}, func(rome, _ admin) error {
				return rome.create(client, func(p *flows.Params) { p.ClientAddress, p.ClientPort = "192.0.2.1", 1 })
			}, flows.FailedPreflight, "rome has no Configuration for milan yet",
		},
		"this cluster's own Configuration": {
			func(rome, _ admin) { rome.apply(rome.hasGenerated(byhand.Configuration, byhand.Gateway{})) },
			func(rome, _ admin) error {
				return rome.create(client, func(p *flows.Params) { p.ClientAddress, p.ClientPort = "192.0.2.1", 1 })
			}, flows.FailedPreflight, "delete Configuration default/rome here: it describes rome itself, and belongs to milan",
		},
		"an address of IPv6": {
			exchange, func(rome, _ admin) error {
				return rome.create(client, func(p *flows.Params) { p.ClientAddress, p.ClientPort = "192.0.2.1,2001:db8::7", 1 })
			}, flows.FailedUsage, "2001:db8::7: the gateway of rome can't dial it, since tunnels over IPv6 are not supported yet",
		},
		"itself as the peer": {
			nil, func(rome, _ admin) error {
				return rome.create(byhand.Object{Kind: byhand.Configuration, Name: "rome", Remote: "rome", PodCIDRs: []string{"10.0.0.0/16"}, ExternalCIDRs: []string{"10.1.0.0/16"}}, nil)
			}, flows.FailedPreflight, "rome is this cluster itself",
		},
		"a second Configuration": {
			exchange, func(rome, _ admin) error {
				return rome.create(byhand.Object{Kind: byhand.Configuration, Name: "other", Remote: "milan", PodCIDRs: []string{"10.0.0.0/16"}, ExternalCIDRs: []string{"10.1.0.0/16"}}, nil)
			}, flows.FailedConflict, "rome has Configuration default/milan for milan already",
		},
		"a second server": {
			func(rome, milan admin) { exchange(rome, milan); milan.has(server, nodePort) },
			func(_, milan admin) error {
				return milan.create(byhand.Object{Kind: byhand.GatewayServer, Name: "another", Remote: "rome"}, nodePort)
			}, flows.FailedConflict, "milan has GatewayServer default/server for rome already",
		},
		"a client beside a server": {
			func(rome, milan admin) { exchange(rome, milan); milan.has(server, nodePort) },
			func(_, milan admin) error {
				return milan.create(byhand.Object{Kind: byhand.GatewayClient, Name: "client", Remote: "rome"}, func(p *flows.Params) { p.ClientAddress, p.ClientPort = "192.0.2.1", 1 })
			}, flows.FailedConflict, "milan already hosts a gateway server for rome",
		},
		"a server beside a client": {
			eightSteps, func(rome, _ admin) error {
				return rome.create(byhand.Object{Kind: byhand.GatewayServer, Name: "server", Remote: "milan"}, nodePort)
			}, flows.FailedConflict, "rome is already the client of a connection with milan",
		},
		"the name of another peer's gateway": {
			func(rome, milan admin) {
				exchange(rome, milan)
				milan.has(byhand.Object{Kind: byhand.Configuration, Name: "turin", Remote: "turin", PodCIDRs: []string{"10.0.0.0/16"}, ExternalCIDRs: []string{"10.1.0.0/16"}}, nil)
				milan.has(byhand.Object{Kind: byhand.GatewayServer, Name: "server", Remote: "turin"}, nodePort)
			},
			func(_, milan admin) error { return milan.create(server, nodePort) }, flows.FailedConflict, "GatewayServer default/server of milan is about turin",
		},
		"another namespace than the peering's": {
			exchange, func(_, milan admin) error {
				milan.namespace = "team-a"
				return milan.create(server, nodePort)
			}, flows.FailedConflict, "milan has its connection with rome in namespace default, not in team-a",
		},
		"a key before the gateway": {
			exchange, func(_, milan admin) error {
				return milan.create(byhand.Object{Kind: byhand.PublicKey, Name: "rome", Remote: "rome", Key: strings.Repeat("A", 43) + "="}, nil)
			}, flows.FailedPreflight, "milan has no gateway for rome yet",
		},
		"the own gateway's key": {
			func(rome, milan admin) { exchange(rome, milan); milan.has(server, nodePort) },
			func(_, milan admin) error {
				f := milan.cluster.Facts()
				key := f.Keys["default/server"]
				return milan.create(byhand.Object{Kind: byhand.PublicKey, Name: "rome", Remote: "rome", Key: key.String()}, nil)
			}, flows.FailedPreflight, "this is the public key of milan's own gateway",
		},
		"the key of a gateway that is not there": {
			exchange, func(_, milan admin) error {
				_, err := milan.generate(byhand.PublicKey, byhand.Gateway{Role: flows.RoleServer, Name: "server"})
				return err
			}, flows.FailedPreflight, "milan has no GatewayServer server",
		},
	} {
		t.Run(name, func(t *testing.T) {
			rome, milan := admins(t, false)
			if tc.before != nil {
				tc.before(rome, milan)
			}
			rome.pair.Forget()
			err := tc.step(rome, milan)
			var failed *flows.StepError
			if !errors.As(err, &failed) || failed.Step.Kind != tc.kind || !strings.Contains(failed.Step.Reason+"; "+failed.Step.Hint().String(), tc.says) || failed.Step.Hint().IsZero() {
				t.Errorf("got %v (%+v), want kind %d, %q, and a hint", err, failed, tc.kind, tc.says)
			}
			if log := rome.pair.Log(); len(log) > 0 {
				t.Errorf("it changed %v", log)
			}
		})
	}
}

// What is printed is for others to apply, in whatever order.
func TestAnObjectIsPrintedBeforeItsTime(t *testing.T) {
	_, milan := admins(t, false)
	for _, o := range []byhand.Object{server, {Kind: byhand.PublicKey, Name: "rome", Remote: "rome", Key: strings.Repeat("A", 43) + "="}} {
		o.Printed = true
		seen, err := engine.Look(t.Context(), flows.Planner(func(f flows.Facts) flows.Plan { return byhand.Create(o, flows.Defaults(), f) }), milan.cluster, engine.Absent{})
		if err != nil {
			t.Fatal(err)
		}
		got := o.Manifest(seen.Plan)
		if got == nil || got.GetName() != o.Name || got.GetNamespace() != "default" || got.GetLabels()[wire.LabelRemoteCluster] != "rome" {
			t.Errorf("%s: got %+v", o.Kind, got)
		}
	}
	if log := milan.pair.Log(); len(log) > 0 {
		t.Errorf("it changed %v", log)
	}
}

// Gateways of several peers may be in one namespace, and one name in several.
func TestAGatewayIsFoundByItsName(t *testing.T) {
	rome, milan := admins(t, false)
	eightSteps(rome, milan)
	milan.cluster.Put(&corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}},
		render.GatewayServer(render.ServerParams{Tenant: render.Tenant{Namespace: "elsewhere", Remote: "turin", Name: "server"}, ServiceType: "NodePort", Port: 1}))
	milan.pair.Settle()
	g := byhand.Gateway{Role: flows.RoleServer, Name: "server"}
	if _, err := milan.generate(byhand.PublicKey, g); err == nil || !strings.Contains(err.Error(), "milan has several: GatewayServer default/server, GatewayServer elsewhere/server") {
		t.Errorf("got %v, want both", err)
	}
	milan.namespace = "default"
	key := milan.hasGenerated(byhand.PublicKey, g)
	if key.GetName() != "milan" || key.GetNamespace() != "" || key.GetLabels()[wire.LabelRemoteCluster] != "milan" {
		t.Errorf("got %+v, want milan's, for the context's namespace", key)
	}
}
