package peer_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/connect"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/peer"
	"github.com/liqo-tui/liqo-tui/internal/sample"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// peering returns the goal of a connection with lending.
func peering(p peer.Params) flows.Goal {
	n := flowtest.NodePort()
	n.Server, n.Given, n.ForLending = p.Consumer.Other(), flows.FieldServiceType, true
	return peer.Goal{Params: p, Network: connect.Goal{Params: n}}
}

func unpeering(o peer.RemoveOptions) flows.Goal { return peer.Removal{RemoveOptions: o} }

func peered(t *testing.T) *flowtest.Pair {
	t.Helper()
	p := flowtest.LiqoPair()
	flowtest.MustRun(t, p, peering(peer.Params{}))
	p.Settle()
	p.Forget()
	return p
}

func names(p *flowtest.Pair) []string {
	var out []string
	for _, side := range []flows.Side{flows.A, flows.B} {
		for _, name := range p.Side(side).Names() {
			out = append(out, side.String()+" "+name)
		}
	}
	return out
}

func difference(want, got any) string { return cmp.Diff(want, got, cmpopts.EquateEmpty()) }

func TestPeeringMakesANodeAndASecondRunChangesNothing(t *testing.T) {
	p := flowtest.LiqoPair()
	r := flowtest.MustRun(t, p, peering(peer.Params{CPU: "2", Other: []string{"nvidia.com/gpu=1"}}))
	f := flowtest.Facts(p)
	if len(f.Sides[flows.A].Lending.Members) != 1 || len(f.Sides[flows.B].Lending.Members) != 0 {
		t.Fatalf("got %d and %d virtual nodes, want one on the consumer", len(f.Sides[flows.A].Lending.Members), len(f.Sides[flows.B].Lending.Members))
	}
	want := "rome uses resources of milan: Node milan is Ready with cpu 2, memory 8Gi, nvidia.com/gpu 1, pods 110."
	if got := peer.Peered(peer.Params{}, f); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !peer.TakesPods(peer.Params{}, f) {
		t.Error("no pods can run on the virtual node")
	}
	for side := range f.Sides { // as if our operators ran on both clusters
		c := &f.Sides[side]
		c.Software, c.Operator.Peering = flows.Operator, render.PeeringBoth
	}
	if got := peer.Peered(peer.Params{}, f); got != want || !peer.TakesPods(peer.Params{}, f) {
		t.Errorf("with our operators: got %s", got)
	}
	if f.Sides[flows.B].End("rome").Server == nil || f.Sides[flows.A].End("milan").Client == nil {
		t.Error("the provider has not the gateway server, or the consumer not the client")
	}
	for _, e := range r.Events {
		for _, s := range e.Plan.Steps {
			if strings.Contains(s.Diff, "PRIVATE KEY") || strings.Contains(s.Diff, "nonce of ") {
				t.Errorf("%s shows a secret:\n%s", s.ID, s.Diff)
			}
		}
	}
	p.Settle()
	p.Forget()
	flowtest.MustRun(t, p, peering(peer.Params{}))
	if log := p.Log(); len(log) > 0 {
		t.Errorf("a second run with fewer flags wrote %v", log)
	}
}

func TestResourcesChangeAndTheRestStays(t *testing.T) {
	p := flowtest.LiqoPair()
	flowtest.MustRun(t, p, peering(peer.Params{CPU: "2", Memory: "3Gi"}))
	flowtest.MustRun(t, p, peering(peer.Params{CPU: "5"}))
	node := p.A.Facts().Lending.Members[0]
	if got := fmt.Sprint(node.Status.Allocatable.Cpu(), " ", node.Status.Allocatable.Memory()); got != "5 3Gi" {
		t.Errorf("got %s, want 5 3Gi", got)
	}
}

func TestWithoutNodeSliceOrNetwork(t *testing.T) {
	p := flowtest.LiqoPair()
	flowtest.MustRun(t, p, flows.Planner(func(f flows.Facts) flows.Plan { return peer.Plan(peer.Params{Slice: "false"}, nil, [2]string{}, f) }))
	f := flowtest.Facts(p)
	if len(f.Sides[flows.A].Lending.Slices) != 0 || len(f.Sides[flows.A].Lending.Identities) != 1 || len(f.Sides[flows.A].Configurations) != 0 {
		t.Errorf("access alone: got %v", names(p))
	}
	flowtest.MustRun(t, p, flows.Planner(func(f flows.Facts) flows.Plan {
		return peer.Plan(peer.Params{VirtualNode: "false"}, nil, [2]string{}, f)
	}))
	p.Settle()
	if f = flowtest.Facts(p); len(f.Sides[flows.A].Lending.Slices) != 1 || len(f.Sides[flows.A].Lending.Members) != 0 {
		t.Errorf("without a virtual node: got %v", names(p))
	}
	flowtest.MustRun(t, p, flows.Planner(func(f flows.Facts) flows.Plan {
		return peer.Plan(peer.Params{VirtualNode: "true"}, nil, [2]string{}, f)
	}))
	if f = flowtest.Facts(p); len(f.Sides[flows.A].Lending.Members) != 1 {
		t.Errorf("with one: got %v", names(p))
	}
}

// In-band, the consumer reaches the provider's API server at the address under which it sees the proxy. The
// next run keeps this setting.
func TestInBand(t *testing.T) {
	p := flowtest.LiqoPair()
	if _, err := flowtest.Run(t, p, peering(peer.Params{InBand: "true"})); err == nil || !strings.Contains(err.Error(), "milan has no proxy for --in-band") || len(p.Log()) > 0 {
		t.Errorf("without a proxy: got %v, wrote %v", err, p.Log())
	}
	p.B.Behave(func(b *flowtest.Behaviour) { b.Lending.Proxy = "10.70.0.9" })
	flowtest.MustRun(t, p, peering(peer.Params{InBand: "true"}))
	f := flowtest.Facts(p)
	seen := strings.TrimSuffix(string(f.Sides[flows.A].End("milan").Configuration.Status.Remote.CIDR.External[0]), "0.0/16")
	want := "http://" + seen + "0.9:8118"
	if got := f.Sides[flows.A].Lending.Identities[0].Spec.AuthParams.ProxyURL; got == nil || *got != want {
		t.Errorf("got proxy %v, want %s", got, want)
	}
	p.Settle()
	p.Forget()
	flowtest.MustRun(t, p, peering(peer.Params{}))
	if log := p.Log(); len(log) > 0 {
		t.Errorf("a second run without the flag wrote %v", log)
	}
}

func TestUnpeeringLeavesWhatLiqoKeeps(t *testing.T) {
	p := peered(t)
	flowtest.MustRun(t, p, unpeering(peer.RemoveOptions{}))
	p.Settle()
	want := []string{"A ForeignCluster milan", "B ForeignCluster rome"}
	if d := difference(want, names(p)); d != "" {
		t.Errorf("left (-want +got):\n%s", d)
	}
	p.Forget()
	flowtest.MustRun(t, p, unpeering(peer.RemoveOptions{}))
	if log := p.Log(); len(log) > 0 {
		t.Errorf("a second time: wrote %v", log)
	}
}

func TestTheResultOfUnpeerSaysWhatStays(t *testing.T) {
	for before, want := range map[bool]string{
		true:  "rome no longer uses resources of milan. Their pods still reach each other.",
		false: "rome no longer uses resources of milan.",
	} {
		p := flowtest.LiqoPair()
		if before {
			flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort()))
		}
		flowtest.MustRun(t, p, peering(peer.Params{}))
		flowtest.MustRun(t, p, unpeering(peer.RemoveOptions{}))
		p.Settle()
		if got := peer.Unpeered(peer.RemoveOptions{}, flowtest.Facts(p)); got != want {
			t.Errorf("connected before: %t: got %q, want %q", before, got, want)
		}
	}
}

// A reset from either side is refused if a virtual node needs the network. The advice is the command that
// removes both.
func TestAResetWaitsForUnpeer(t *testing.T) {
	p := peered(t)
	swapped := flowtest.Facts(p)
	swapped.Sides[flows.A], swapped.Sides[flows.B] = swapped.Sides[flows.B], swapped.Sides[flows.A]
	local := flows.RemoveOptions{LocalOnly: true}
	for name, c := range map[string]struct {
		o    flows.RemoveOptions
		f    flows.Facts
		hint string
	}{
		"from the consumer":  {flows.RemoveOptions{}, flowtest.Facts(p), "to remove both: liqo-tui unpeer --context kind-rome --remote-context kind-milan"},
		"from the provider":  {flows.RemoveOptions{}, swapped, "to remove both: liqo-tui unpeer --context kind-milan --remote-context kind-rome --consumer Remote"},
		"the consumer alone": {local, flowtest.Facts(p), "to remove both: liqo-tui unpeer --context kind-rome --local-only --remote-cluster-id milan"},
		"the provider alone": {local, swapped, "to remove both: liqo-tui unpeer --context kind-milan --local-only --remote-cluster-id rome --consumer Remote"},
	} {
		s := flows.PlanReset(c.o, c.f).Failure()
		if s == nil || s.Code != flows.CodeLent || s.Hint().String() != c.hint {
			t.Errorf("%s: got %+v, want the hint %q", name, s, c.hint)
		}
	}
	if s := flows.PlanDisconnect(flows.RemoveOptions{}, flowtest.Facts(p)).Failure(); s != nil {
		t.Errorf("disconnect, which can be taken back, is refused: %+v", s)
	}
	flowtest.MustRun(t, p, unpeering(peer.RemoveOptions{KeepNetwork: true}))
	flowtest.MustRun(t, p, flows.Planner(func(f flows.Facts) flows.Plan { return flows.PlanReset(flows.RemoveOptions{}, f) }))
}

// If the user may not see the Secrets of lending, the plan is refused.
func TestSecretsThatMayNotBeReadAreNamed(t *testing.T) {
	p := peered(t)
	f := flowtest.Facts(p)
	f.Sides[flows.B].Lending.Unread = []string{"liqo-tenant-oslo", "liqo-tenant-rome"}
	for name, plan := range map[string]flows.Goal{"peer": peering(peer.Params{}), "unpeer": unpeering(peer.RemoveOptions{})} {
		s := plan.Plan(f).Failure()
		if s == nil || s.Code != flows.CodePermission || !strings.Contains(s.Reason, "liqo-tenant-rome") || !strings.Contains(s.Hint().String(), "rbac --peering") {
			t.Errorf("%s: got %+v, want the namespace and the command", name, s)
		}
	}
}

// If the admin has not chosen the way, a pod of the consumer tries it once, before anything is changed. The
// next run keeps the way.
func TestTheWayIsChosen(t *testing.T) {
	for name, c := range map[string]struct {
		params        peer.Params
		hides, noPods bool
		asked         int
		proxied       bool
		says          string
	}{
		"reached":     {asked: 1, says: "a pod was answered by https://172.18.0.20:6443"},
		"not reached": {hides: true, asked: 1, proxied: true, says: "through the tunnel: no answer"},
		"not tried":   {noPods: true, asked: 1, says: "not tried: no pods here"},
		"was said":    {params: peer.Params{InBand: "true"}, hides: true, proxied: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := flowtest.LiqoPair()
			p.B.Behave(func(b *flowtest.Behaviour) { b.Lending.Proxy, b.Lending.Hides = "10.70.0.9", c.hides })
			if c.noPods {
				p.A.Behave(func(b *flowtest.Behaviour) { b.NoPods = "no pods here" })
			}
			r := flowtest.MustRun(t, p, peering(c.params))
			var said string
			for _, e := range r.Events {
				s, there := e.Plan.Step("way-a")
				if there {
					said = s.Reason
				}
				if there && s.Status != flows.Done && e.Changed() {
					t.Errorf("%v was changed before a pod had tried", e.Changes)
				}
			}
			if !strings.HasPrefix(said, c.says) || c.says == "" && said != "" {
				t.Errorf("it says %q, want %q", said, c.says)
			}
			if got := p.A.Facts().Lending.Identities[0].Spec.AuthParams.ProxyURL; (got != nil) != c.proxied {
				t.Errorf("got proxy %v, want one: %v", got, c.proxied)
			}
			p.Settle()
			p.Forget()
			flowtest.MustRun(t, p, peering(peer.Params{}))
			if log := p.Log(); len(log) > 0 || p.A.Asked() != c.asked {
				t.Errorf("the second run wrote %v, %d pods have tried", log, p.A.Asked())
			}
		})
	}
}

// A network that existed before lending stays, and also one that the admin wants to keep. Otherwise the
// network is removed, even if it was changed since.
func TestUnpeeringRemovesTheNetworkThatPeerMade(t *testing.T) {
	ours := func(t *testing.T, p *flowtest.Pair) {
		t.Helper()
		flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort()))
	}
	for name, c := range map[string]struct {
		before, then func(*testing.T, *flowtest.Pair)
		keep         bool
		says         string
	}{
		"its own":                       {},
		"its own, completed by connect": {then: ours},
		"its own, with the server moved": {then: func(t *testing.T, p *flowtest.Pair) {
			t.Helper()
			moved := flowtest.NodePort()
			moved.Server, moved.Given = flows.A, flows.FieldServer
			flowtest.MustRun(t, p, connect.Goal{Params: moved})
		}},
		"its own, to be kept": {keep: true, says: "the network between the clusters stays"},
		"was there":           {before: ours, says: "it was there before the peering"},
		"was begun": {before: func(t *testing.T, p *flowtest.Pair) {
			t.Helper()
			flowtest.MustRun(t, p, flows.Planner(func(f flows.Facts) flows.Plan { return flows.PlanInit(flowtest.NodePort(), f) }))
		}, says: "the Configurations of the two clusters stay"},
	} {
		t.Run(name, func(t *testing.T) {
			p := flowtest.LiqoPair()
			if c.before != nil {
				c.before(t, p)
			}
			p.Settle()
			before := names(p)
			flowtest.MustRun(t, p, peering(peer.Params{}))
			if c.then != nil {
				c.then(t, p)
			}
			p.Settle()
			if c.keep {
				connected := flowtest.LiqoPair()
				ours(t, connected)
				connected.Settle()
				before = names(connected)
			}
			f := flowtest.Facts(p)
			f.Sides[flows.B].Unattended = []string{"milan-2"}
			plan := peer.Removal{RemoveOptions: peer.RemoveOptions{KeepNetwork: c.keep}}.Plan(f)
			goes := slices.ContainsFunc(plan.Steps, func(s flows.Step) bool { return strings.HasPrefix(string(s.ID), "gateway-") && s.Status != flows.Done })
			if said := strings.Join(plan.Kept, "; "); strings.Contains(said, "keep their routes to rome until one is: milan-2") != goes {
				t.Errorf("it says %q of nodes without an agent; gateways go: %t", said, goes)
			}
			r := flowtest.MustRun(t, p, unpeering(peer.RemoveOptions{KeepNetwork: c.keep}))
			if said := strings.Join(r.Events[0].Plan.Kept, "; "); !strings.Contains(said, c.says) || c.says == "" && strings.Contains(said, "network") {
				t.Errorf("it says %q, want %q", said, c.says)
			}
			p.Settle()
			want := append([]string{"A ForeignCluster milan", "B ForeignCluster rome"}, before...)
			slices.Sort(want)
			got := names(p)
			slices.Sort(got)
			if d := difference(want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			p.Forget()
			flowtest.MustRun(t, p, unpeering(peer.RemoveOptions{KeepNetwork: c.keep}))
			if log := p.Log(); len(log) > 0 {
				t.Errorf("a second time: wrote %v", log)
			}
		})
	}
}

// Both clusters lend to each other. After the end of one direction, the other direction and the network stay.
func TestBothWays(t *testing.T) {
	p := peered(t)
	flowtest.MustRun(t, p, peering(peer.Params{Consumer: flows.B}))
	p.Settle()
	both := flowtest.Facts(p)
	if len(both.Sides[flows.A].Lending.Members) != 1 || len(both.Sides[flows.B].Lending.Members) != 1 {
		t.Fatalf("got %v, want a virtual node on each", names(p))
	}
	flowtest.MustRun(t, p, unpeering(peer.RemoveOptions{}))
	p.Settle()
	f := flowtest.Facts(p)
	if len(f.Sides[flows.A].Lending.Members) != 0 || len(f.Sides[flows.B].Lending.Members) != 1 || len(f.Sides[flows.A].Clients) != 1 {
		t.Errorf("got %v, want the other virtual node and the network to stay", names(p))
	}
	p.Forget()
	flowtest.MustRun(t, p, peering(peer.Params{Consumer: flows.B}))
	if log := p.Log(); len(log) > 0 {
		t.Errorf("the peering that stays needed %v", log)
	}
}

// After a kill of the program after any of its writes, on either cluster, the same command leads to the same
// result.
func TestKilledAfterEveryWrite(t *testing.T) {
	fresh := func(*testing.T) *flowtest.Pair { return flowtest.LiqoPair() }
	connected := func(t *testing.T) *flowtest.Pair {
		t.Helper()
		p := flowtest.LiqoPair()
		flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort()))
		flowtest.MustRun(t, p, peering(peer.Params{}))
		return p
	}
	nothing := func(t *testing.T, p *flowtest.Pair) {
		t.Helper()
		flowtest.MustRun(t, p, unpeering(peer.RemoveOptions{}))
		p.Settle()
		if d := difference([]string{"A ForeignCluster milan", "B ForeignCluster rome"}, names(p)); d != "" {
			t.Fatalf("left by unpeer (-want +got):\n%s", d)
		}
	}
	for name, c := range map[string]flowtest.Command{
		"peer":                             {Past: fresh, Goal: peering(peer.Params{CPU: "2"}), Then: nothing},
		"unpeer":                           {Past: peered, Goal: unpeering(peer.RemoveOptions{})},
		"unpeer, with a network of before": {Past: connected, Goal: unpeering(peer.RemoveOptions{})},
		"unpeer one side":                  {Past: peeredWithGoneProvider, Goal: unpeering(peer.RemoveOptions{RemoveOptions: flows.RemoveOptions{LocalOnly: true}})},
	} {
		t.Run(name, func(t *testing.T) {
			c.World = names
			c.KilledAnywhere(t, sample.All())
		})
	}
}

func peeredWithGoneProvider(t *testing.T) *flowtest.Pair {
	t.Helper()
	p := peered(t)
	p.B.Behave(func(b *flowtest.Behaviour) { b.Unreachable = []flowtest.Window{{From: 1}} })
	p.Tick()
	return p
}

// If the provider is gone for good, the consumer can forget it. Later, it can use a provider of the same ID
// again.
func TestUnpeeringFromAGoneProvider(t *testing.T) {
	p := peeredWithGoneProvider(t)
	_, err := flowtest.Run(t, p, unpeering(peer.RemoveOptions{}))
	if err == nil || !strings.Contains(flows.HintOf(err).String(), "--local-only") {
		t.Errorf("with both: got %v, hint %q, want --local-only named", err, flows.HintOf(err))
	}
	flowtest.MustRun(t, p, unpeering(peer.RemoveOptions{RemoveOptions: flows.RemoveOptions{LocalOnly: true}}))
	p.Settle()
	if d := difference([]string{"ForeignCluster milan"}, p.A.Names()); d != "" {
		t.Errorf("left (-want +got):\n%s", d)
	}
	if a := p.A.Facts().Lending.Clusters[0].Annotations; len(a) > 0 {
		t.Errorf("Liqo still takes milan for gone: %v", a)
	}
}

func TestUnpeeringFromAGoneConsumer(t *testing.T) {
	p := peered(t)
	p.A.Behave(func(b *flowtest.Behaviour) { b.Unreachable, b.Silent = []flowtest.Window{{From: 1}}, true })
	// For the admin of milan, milan is cluster A.
	p.A, p.B = p.B, p.A
	o := peer.RemoveOptions{RemoveOptions: flows.RemoveOptions{LocalOnly: true}, Consumer: flows.B}
	flowtest.MustRun(t, p, unpeering(o))
	p.Settle()
	if d := difference([]string{"ForeignCluster rome"}, p.A.Names()); d != "" {
		t.Errorf("left (-want +got):\n%s", d)
	}
}

// Each wait that lasts too long gives its reason, and advice.
func TestFailuresAreNamed(t *testing.T) {
	for name, c := range map[string]struct {
		side   flows.Side
		how    func(*flowtest.Lending)
		reason string
		code   flows.Code
	}{
		"no nonce":      {flows.B, func(l *flowtest.Lending) { l.NoNonces = true }, "authentication.enabled", check.Handshake},
		"no signature":  {flows.A, func(l *flowtest.Lending) { l.NoSignatures = true }, "waiting for rome to sign", check.Handshake},
		"no access":     {flows.B, func(l *flowtest.Lending) { l.NoTenants = true }, "waiting for milan to accept rome", check.Tenant},
		"unreachable":   {flows.B, func(l *flowtest.Lending) { l.Hides = true }, "Liqo on rome does not reach the API server yet, at https://172.18.0.20:6443", check.Identity},
		"no replicator": {flows.A, func(l *flowtest.Lending) { l.NoReplicas = true }, "crd-replicator on rome does nothing", check.Slice},
		"no answer":     {flows.B, func(l *flowtest.Lending) { l.NoSlices = true }, "waiting for milan to answer", check.Slice},
		"denied":        {flows.B, func(l *flowtest.Lending) { l.Denies = "Resources" }, "milan denies the resources", check.Slice},
		"refused":       {flows.B, func(l *flowtest.Lending) { l.Denies = "Authentication" }, "milan does not accept the request", check.Slice},
		"no node":       {flows.A, func(l *flowtest.Lending) { l.NoNodes = true }, "waiting for Liqo to make the VirtualNode", check.VirtualNode},
		"no kubelet":    {flows.A, func(l *flowtest.Lending) { l.KubeletWaiting = "pod vk: ErrImagePull" }, "pod vk: ErrImagePull", check.VirtualNode},
	} {
		t.Run(name, func(t *testing.T) {
			p := flowtest.LiqoPair()
			p.Side(c.side).Behave(func(b *flowtest.Behaviour) { c.how(&b.Lending) })
			err := engine.Run(t.Context(), peering(peer.Params{}), p.A, p.B, func(engine.Event) {}, engine.Options{Now: p.Now, Timeout: 80 * time.Second})
			var failed *flows.StepError
			if !errors.As(err, &failed) || !strings.Contains(err.Error(), c.reason) || failed.Code() != c.code || failed.Hint().IsZero() {
				t.Fatalf("got %v (%s, hint %q), want %s: %s", err, failed.Code(), flows.HintOf(err), c.code, c.reason)
			}
			p.Side(c.side).Behave(func(b *flowtest.Behaviour) { b.Lending = flowtest.Lending{} })
			if name == "denied" || name == "refused" {
				return // Liqo does not change this decision by itself
			}
			if _, err := flowtest.Run(t, p, peering(peer.Params{})); err != nil {
				t.Errorf("once it works again: %v", err)
			}
		})
	}
}

// The provider has lost its copies of the consumer's requests. Then no program removes the mapped namespaces,
// so the plan does. Otherwise it would wait for ever.
func TestUnpeeringEndsWhereTheProviderHasLostWhatAsks(t *testing.T) {
	for name, c := range map[string]struct {
		ours bool
		lost func(wire.Object) bool
		want bool // the plan itself deletes the namespace
	}{
		"nothing is lost":                {false, func(wire.Object) bool { return false }, false},
		"the map":                        {false, func(o wire.Object) bool { _, is := o.(*offloadingv1beta1.NamespaceMap); return is }, true},
		"slices, which Liqo needs not":   {false, func(o wire.Object) bool { _, is := o.(*authv1beta1.ResourceSlice); return is }, false},
		"slices, which our operator saw": {true, func(o wire.Object) bool { _, is := o.(*authv1beta1.ResourceSlice); return is }, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := peered(t)
			p.A.PutAs("kubectl", namespace("demo"))
			flowtest.MustRun(t, p, offload(peer.OffloadParams{Namespaces: []string{"demo"}}))
			p.Settle()
			p.A.Behave(func(b *flowtest.Behaviour) { b.Unreachable, b.Silent = []flowtest.Window{{From: 1}}, true })
			for _, o := range p.B.Objects() {
				if c.lost(o) {
					p.B.Remove(o)
				}
			}
			p.A, p.B = p.B, p.A // for the admin of milan, milan is cluster A
			o := peer.RemoveOptions{RemoveOptions: flows.RemoveOptions{LocalOnly: true}, Consumer: flows.B}
			if c.ours {
				p.A.Be(func(f *flows.ClusterFacts) {
					f.Software, f.Operator.Peering = flows.Operator, render.PeeringProvider
				})
			}
			plan := unpeering(o).Plan(flowtest.Facts(p))
			step, found := plan.Step(flows.IDOf(flows.A, "namespace-demo-rome"))
			if found != c.want || found && !strings.Contains(step.Interrupts, "pods that rome runs on milan are deleted") {
				t.Errorf("the plan deletes the namespace: %t, want %t; it warns %q", found, c.want, step.Interrupts)
			}
			flowtest.MustRun(t, p, unpeering(o))
			p.Settle()
			if p.A.Facts().FindNamespace("demo-rome") != nil {
				t.Error("milan still has namespace demo-rome")
			}
		})
	}
}

// A removal is refused if pods can't be seen, because they would be lost with their node.
func TestUnpeeringRefusesToEmptyWhatItCanNotSee(t *testing.T) {
	p := peered(t)
	for _, kind := range []string{"Pod", "Node", "ForeignCluster"} {
		f := flowtest.Facts(p)
		f.Sides[flows.A].Lending.Hidden = map[string]bool{kind: true}
		failed := unpeering(peer.RemoveOptions{}).Plan(f).Failure()
		if failed == nil || failed.Kind != flows.FailedAccess || !strings.Contains(failed.Reason, "of kind "+kind+" on rome") || !strings.Contains(failed.Hint().String(), "rbac --peering") {
			t.Errorf("%s: got %v", kind, failed)
		}
		f.Sides[flows.A].Lending = flowtest.Facts(p).Sides[flows.A].Lending
		f.Sides[flows.B].Lending.Hidden = map[string]bool{kind: true} // the provider has no virtual node of this peering
		if failed = unpeering(peer.RemoveOptions{}).Plan(f).Failure(); failed != nil {
			t.Errorf("%s of the provider: got %v", kind, failed)
		}
	}
}
