package check_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
)

// Firewalls have to allow the traffic from the client to the server, from nodes to their own gateway, and from
// nodes to their pods.
func TestWhatFirewallsHaveToLetThrough(t *testing.T) {
	pair := flowtest.NewPair()
	connectPair(t, pair)
	f := factsOf(pair)
	node := func(address string) flows.NodeFacts {
		return flows.NodeFacts{Internal: []netip.Addr{netip.MustParseAddr(address)}}
	}
	f.Sides[flows.A].Nodes = []flows.NodeFacts{node("172.18.0.2"), node("172.18.0.3")}
	f.Sides[flows.B].Nodes = []flows.NodeFacts{node("172.18.0.20")} // one node has no other node to send to
	open, failed := check.Openings(f)
	if len(failed) > 0 {
		t.Fatal(text(failed))
	}
	want := []check.Opening{
		{From: "rome, 172.18.0.2, 172.18.0.3; behind NAT, its public address", To: "milan, 172.18.0.20", Protocol: "UDP", Port: 30020, For: "the tunnel, which rome dials"},
		{From: "all nodes of rome, and its gateways' pods", To: "all nodes of rome, and its gateways' pods", Protocol: "UDP", Port: flows.FabricPort, For: "between pods and their gateway"},
		forwarded("rome"), forwarded("milan"),
	}
	for i := range want {
		want[i].Brief = want[i].From // there are few addresses
	}
	if diff := cmp.Diff(want, open); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	f.Sides[flows.A].Software = flows.Liqo // Liqo has a fabric of its own
	if open, _ := check.Openings(f); len(open) != 2 || open[1].Device != forwarded("milan").Device {
		t.Errorf("got %+v, want the tunnel, and what milan's nodes forward", open)
	}

	relayed(&f, "relay.example.org")
	var dialled []string
	open, _ = check.Openings(f)
	for _, o := range open[:2] {
		dialled = append(dialled, fmt.Sprintf("%.4s to %s %s %d", o.From, o.To, o.Protocol, o.Port))
	}
	if diff := cmp.Diff([]string{"rome to the relay, relay.example.org UDP 4500", "mila to the relay, relay.example.org UDP 4501"}, dialled); diff != "" {
		t.Errorf("by a relay (-want +got)\n%s", diff)
	}

	f.Sides[flows.A].Clients = []networkingv1beta1.GatewayClient{}
	if open, failed := check.Openings(f); len(open) > 0 || len(failed) != 1 || failed[0].ID != check.Gateways {
		t.Errorf("without a client's gateway: got %+v and %s", open, text(failed))
	}
}

// forwarded returns the opening for a node's own packet filter, which can cut off its pods although gateways
// and nodes reach each other.
func forwarded(id string) check.Opening {
	return check.Opening{From: "the device liqo-fabric of each node of " + id, To: "pods on this node", Protocol: "all", Device: "liqo-fabric", For: "a node's own packet filter (firewalld, ufw, a FORWARD policy)"}
}

// A result that is the same at both ends is shown once.
func TestBothEndsAreToldOfTogether(t *testing.T) {
	lossy := check.Result{ID: check.PacketLoss, Sides: []flows.Side{flows.A}, State: check.Warn, Summary: "13% are lost"}
	same, other, way := lossy, lossy, lossy
	same.Sides = []flows.Side{flows.B}
	other.Sides, other.Summary = same.Sides, "14% are lost"
	way.Sides, way.Directed = []flows.Side{flows.A, flows.B}, true
	for _, c := range []struct {
		results []check.Result
		want    []string
	}{
		{[]check.Result{lossy, same}, []string{"A,B"}},
		{[]check.Result{lossy, other}, []string{"A", "B"}},
		{[]check.Result{lossy, way, same}, []string{"A,B", "A→B"}},
	} {
		var got []string
		for _, r := range check.Together(c.results) {
			got = append(got, sideOf(r))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	if len(lossy.Sides) != 1 {
		t.Error("the results themselves have changed")
	}
}
