package upkeep_test

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/policy"
	"github.com/liqo-tui/liqo-tui/flows/upkeep"
	"github.com/liqo-tui/liqo-tui/internal/ipam"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

func renumber(p upkeep.RenumberParams, r upkeep.Renumbering) flows.Planner {
	return func(f flows.Facts) flows.Plan { return upkeep.Renumber(p, r, f) }
}

// newConnected is rome and milan, connected; each sees the other under other ranges.
func newConnected(t *testing.T) *flowtest.Pair {
	t.Helper()
	p := flowtest.NewPair()
	flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort()))
	return p
}

func seenBy(c *flowtest.Cluster) networkingv1beta1.ClusterConfigCIDR {
	return c.Facts().Configurations[0].Status.Remote.CIDR
}

// predicted are the ranges that a plan names as the next ones.
func predicted(t *testing.T, plan flows.Plan, id flows.StepID) []networkingv1beta1.CIDR {
	t.Helper()
	s, ok := plan.Step(id)
	if !ok {
		t.Fatalf("there is no step %s", id)
	}
	var out []networkingv1beta1.CIDR
	for part := range strings.SplitSeq(s.Reason, "; ") {
		if _, next, found := strings.Cut(part, " becomes "); found {
			cidr, _, _ := strings.Cut(next, ": ")
			out = append(out, networkingv1beta1.CIDR(cidr))
		}
	}
	return out
}

func TestRenumberMovesBothRangesToThosePredicted(t *testing.T) {
	p := newConnected(t)
	before, other := seenBy(p.A), seenBy(p.B)
	params := upkeep.RenumberParams{LocalOnly: true, Keep: time.Hour}
	r := upkeep.StartRenumbering(params, flowtest.Facts(p))
	plan := upkeep.Renumber(params, r, flowtest.Facts(p))
	if len(plan.Interrupts()) > 0 || len(plan.Kept) != 3 || !strings.Contains(plan.Kept[0], "on rome, "+string(before.Pod[0])+" becomes ") || !strings.Contains(plan.Kept[2], "for 1h0m0s after the change") {
		t.Errorf("got %q as what is interrupted and %q as what is kept", plan.Interrupts(), plan.Kept)
	}
	recorded := flowtest.MustRun(t, p, renumber(params, r))
	after := seenBy(p.A)
	if got, want := slices.Concat(after.Pod, after.External), predicted(t, plan, "renumber-a"); !slices.Equal(got, want) {
		t.Errorf("got %v, the plan has said %v", got, want)
	}
	if after.Pod[0] == before.Pod[0] || after.External[0] == before.External[0] {
		t.Errorf("got %v, want others than %v", after, before)
	}
	if got := seenBy(p.B); !slices.Equal(got.Pod, other.Pod) {
		t.Errorf("milan sees %v, and has seen %v: nobody asked for that", got, other)
	}
	if text := upkeep.Renumbered(recorded.Events[len(recorded.Events)-1].Plan); !strings.Contains(text, "rome sees pods 10.244.0.0/16 as "+string(after.Pod[0])) || !strings.Contains(text, "works until") {
		t.Errorf("got %q", text)
	}
	p.Forget()
	if flowtest.MustRun(t, p, renumber(params, upkeep.StartRenumbering(params, flowtest.Facts(p)))); len(p.Log()) > 0 {
		t.Errorf("the same run again wrote %v", p.Log())
	}
	// The former range goes when it is told to.
	params.Keep = 0
	plan = upkeep.Renumber(params, upkeep.StartRenumbering(params, flowtest.Facts(p)), flowtest.Facts(p))
	if text := strings.Join(plan.Interrupts(), " "); !strings.Contains(text, string(before.Pod[0])) {
		t.Errorf("got %q as what is interrupted, want connections in %s", text, before.Pod[0])
	}
	flowtest.MustRun(t, p, renumber(params, upkeep.StartRenumbering(params, flowtest.Facts(p))))
	if got := seenBy(p.A); !slices.Equal(got.Pod, after.Pod) || p.A.Facts().Configurations[0].Annotations[wire.AnnotationAlso] != "" {
		t.Errorf("got %v and annotations %v, want %v alone", got, p.A.Facts().Configurations[0].Annotations, after)
	}
	// To connect again changes nothing of it.
	p.Forget()
	if flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort())); len(p.Log()) > 0 {
		t.Errorf("to connect again wrote %v", p.Log())
	}
}

// Ranges in which the cluster needs addresses are left alone, the others stay.
func TestRenumberLeavesOnlyWhatOverlaps(t *testing.T) {
	p := newConnected(t)
	f := flowtest.Facts(p)
	conf := &f.Sides[flows.A].Configurations[0]
	external := netip.MustParsePrefix(string(conf.Status.Remote.CIDR.External[0]))
	lan := ipam.Reservation{Prefix: netip.PrefixFrom(external.Addr(), 24), Reason: "a route of node control"}
	conf.Status.Conditions = append(conf.Status.Conditions, metav1.Condition{
		Type: wire.ConditionOverlap, Status: metav1.ConditionTrue, Reason: wire.ReasonNeeded,
		Message: wire.JoinOverlaps([]wire.Overlap{{Range: external, With: lan}}),
	})
	params := upkeep.RenumberParams{Keep: time.Hour}
	r := upkeep.StartRenumbering(params, f)
	if !slices.Equal(r.Leave[flows.A], []netip.Prefix{external}) || len(r.Leave[flows.B]) != 2 {
		t.Errorf("got %v, want %s alone on rome, and both on milan", r.Leave, external)
	}
	s, _ := upkeep.Renumber(params, r, f).Step("renumber-a")
	if !strings.Contains(s.Reason, "it overlaps "+lan.String()) || !strings.Contains(s.Diff, wire.AnnotationRenumber+": "+external.String()) {
		t.Errorf("got reason %q and diff\n%s", s.Reason, s.Diff)
	}
}

func TestRenumberOnBothSides(t *testing.T) {
	p := newConnected(t)
	before := [2]networkingv1beta1.ClusterConfigCIDR{seenBy(p.A), seenBy(p.B)}
	params := upkeep.RenumberParams{Peer: "milan"}
	flowtest.MustRun(t, p, renumber(params, upkeep.StartRenumbering(params, flowtest.Facts(p))))
	for side, c := range []*flowtest.Cluster{p.A, p.B} {
		if got := seenBy(c); got.Pod[0] == before[side].Pod[0] || c.Facts().Configurations[0].Annotations[wire.AnnotationAlso] != "" {
			t.Errorf("side %s sees %v, as before, or the former range too", flows.Side(side), got)
		}
	}
}

// A NetworkPolicy knows a peer by its range. It is somebody's, so the plan names it, until
// it names the next range, too.
func TestRenumberNamesPoliciesThatNameTheRange(t *testing.T) {
	p := newConnected(t)
	f := flowtest.Facts(p)
	params := upkeep.RenumberParams{LocalOnly: true, Keep: time.Hour}
	r := upkeep.StartRenumbering(params, f)
	if plan := upkeep.Renumber(params, r, f); !slices.Equal(plan.Open(f), []flows.Question{flows.AskPolicies{Side: flows.A}}) || !strings.Contains(strings.Join(plan.Kept, " "), "NetworkPolicies that name it have to") {
		t.Errorf("unread: got %v, %q", plan.Open(f), plan.Kept)
	}
	next := predicted(t, upkeep.Renumber(params, r, f), "renumber-a")[0]
	ask := flows.AskPolicies{Side: flows.A}
	allowing := func(cidrs ...networkingv1beta1.CIDR) flows.Reply {
		web := networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
		for _, cidr := range cidrs {
			web.Spec.Ingress = append(web.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{
				From: []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: string(cidr)}}},
			})
		}
		return flows.Read(ask, policy.Facts{Policies: []networkingv1.NetworkPolicy{web}, Others: []string{"Calico"}})
	}
	now := seenBy(p.A).Pod[0]
	for name, c := range map[string]struct {
		reply            flows.Reply
		interrupts, kept string
	}{
		"the range":         {allowing(now), "on rome, NetworkPolicy shop/web would no longer match milan: name " + string(next) + " in it", "before the change, such as shop/web; policies of Calico are not read"},
		"both":              {allowing(now, next), "", "no NetworkPolicy names it alone; policies of Calico are not read"},
		"another range":     {allowing("240.0.7.0/24"), "", "no NetworkPolicy names it alone"},
		"may not be listed": {flows.Read(ask, policy.Facts{Unknown: "forbidden"}), "", "they can't be read: forbidden"},
		"nobody can tell":   {flows.Unknown(ask, "no way"), "", "they can't be read: no way"},
	} {
		c.reply.Store(&f, f.At)
		plan := upkeep.Renumber(params, r, f)
		if got := strings.Join(plan.Interrupts(), " "); !strings.Contains(got, c.interrupts) || c.interrupts == "" && got != "" {
			t.Errorf("%s: got %q as what is interrupted, want %q", name, got, c.interrupts)
		}
		if got := strings.Join(plan.Kept, " "); !strings.Contains(got, c.kept) {
			t.Errorf("%s: got %q, want %q", name, got, c.kept)
		}
	}
}

// No range is used before all nodes have it.
func TestRenumberWaitsForNodes(t *testing.T) {
	p := newConnected(t)
	p.A.Behave(func(b *flowtest.Behaviour) { b.NodesLag = true })
	before := seenBy(p.A)
	params := upkeep.RenumberParams{LocalOnly: true}
	recorded, err := flowtest.Run(t, p, renumber(params, upkeep.StartRenumbering(params, flowtest.Facts(p))))
	if err == nil {
		t.Fatal("nodes never said that they are ready: got no error")
	}
	if s, _ := recorded.Events[len(recorded.Events)-1].Plan.Step("renumbered-a"); !strings.Contains(s.Reason, "waits for node control") {
		t.Errorf("got %s: %s", s.Status, s.Reason)
	}
	if got := seenBy(p.A); !slices.Equal(got.Pod, before.Pod) {
		t.Errorf("got %v, want what there was, %v", got, before)
	}
	p.A.Behave(func(b *flowtest.Behaviour) { b.NodesLag = false })
	flowtest.MustRun(t, p, renumber(params, upkeep.StartRenumbering(params, flowtest.Facts(p))))
	if got := seenBy(p.A); got.Pod[0] == before.Pod[0] {
		t.Errorf("got %v again", got)
	}
}

func TestRenumberIsRefusedBeforeAnythingChanges(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*flowtest.Pair)
		params upkeep.RenumberParams
		says   string
	}{
		{
			"Liqo chooses the ranges", func(p *flowtest.Pair) { p.A.Be(func(f *flows.ClusterFacts) { f.Software = flows.Liqo }) },
			upkeep.RenumberParams{LocalOnly: true},
			"Liqo chooses",
		},
		{"Liqo on the other side", func(p *flowtest.Pair) { p.B.Be(func(f *flows.ClusterFacts) { f.Software = flows.Liqo }) }, upkeep.RenumberParams{}, "Liqo chooses"},
		{"no such peer", func(*flowtest.Pair) {}, upkeep.RenumberParams{LocalOnly: true, Peer: "turin"}, "no peer turin"},
		{"another cluster", func(*flowtest.Pair) {}, upkeep.RenumberParams{Peer: "turin"}, "milan, not turin"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newConnected(t)
			c.change(p)
			p.Forget()
			_, err := flowtest.Run(t, p, renumber(c.params, upkeep.StartRenumbering(c.params, flowtest.Facts(p))))
			var failed *flows.StepError
			if !errors.As(err, &failed) || !strings.Contains(err.Error(), c.says) || len(p.Log()) > 0 {
				t.Errorf("got %v after %v, want a refusal that says %q", err, p.Log(), c.says)
			}
		})
	}
	p := flowtest.NewPair()
	params := upkeep.RenumberParams{LocalOnly: true}
	if _, err := flowtest.Run(t, p, renumber(params, upkeep.StartRenumbering(params, flowtest.Facts(p)))); err == nil || !strings.Contains(err.Error(), "has no peers") {
		t.Errorf("got %v without a peer", err)
	}
}

func TestRenumberGoesOnWhereARunBroke(t *testing.T) {
	for breaks := range 6 {
		p := newConnected(t)
		before := seenBy(p.A)
		params := upkeep.RenumberParams{LocalOnly: true}
		r := upkeep.StartRenumbering(params, flowtest.Facts(p))
		for range breaks {
			for _, s := range upkeep.Renumber(params, r, flowtest.Facts(p)).Steps {
				if s.Status == flows.Ready {
					if _, err := p.Side(s.Side).Apply(t.Context(), s.Objects); err != nil {
						t.Fatal(err)
					}
				}
			}
			p.Tick()
		}
		moved := seenBy(p.A)
		flowtest.MustRun(t, p, renumber(params, upkeep.StartRenumbering(params, flowtest.Facts(p))))
		if got := seenBy(p.A); got.Pod[0] == before.Pod[0] && moved.Pod[0] == before.Pod[0] {
			t.Errorf("broken behind %d: got %v again", breaks, got)
		}
	}
}

// A plan has a diff of what it asks for, and nothing else changes.
func TestRenumberAsksByAnnotationsOnly(t *testing.T) {
	p := newConnected(t)
	p.Forget()
	params := upkeep.RenumberParams{LocalOnly: true}
	recorded := flowtest.MustRun(t, p, renumber(params, upkeep.StartRenumbering(params, flowtest.Facts(p))))
	if len(p.Log()) != 1 {
		t.Errorf("wrote %v, want the Configuration alone", p.Log())
	}
	i := slices.IndexFunc(recorded.Events, func(e engine.Event) bool { s, ok := e.Plan.Step("renumber-a"); return ok && s.Status == flows.Ready })
	if i < 0 {
		t.Fatal("the step was never ready")
	}
	s, _ := recorded.Events[i].Plan.Step("renumber-a")
	for line := range strings.Lines(s.Diff) {
		if strings.HasPrefix(line, "-") && !strings.HasPrefix(line, "---") {
			t.Errorf("the diff takes something away: %s", s.Diff)
		}
	}
}

// What is applied anew for another purpose would take the annotation away, and unpeer would
// leave the network.
func TestUpkeepKeepsWhatTheNetworkIsFor(t *testing.T) {
	p := flowtest.NewPair()
	settings := flowtest.NodePort()
	settings.ForLending = true
	flowtest.MustRun(t, p, flowtest.Connect(settings))
	wanted := func(after string) {
		t.Helper()
		f := flowtest.Facts(p)
		if gateways, configurations := flows.NewConnection(flows.Params{}, f).ForPeering(); !gateways || !configurations {
			t.Errorf("%s: for a peering are the gateways: %v, the Configurations: %v", after, gateways, configurations)
		}
	}
	wanted("connected")
	flowtest.MustRun(t, p, rotate(upkeep.StartRotation(flowtest.Facts(p))))
	wanted("after other keys")
	params := upkeep.RenumberParams{LocalOnly: true}
	flowtest.MustRun(t, p, renumber(params, upkeep.StartRenumbering(params, flowtest.Facts(p))))
	wanted("after other ranges")
}
