package check

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/rights"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// largePair returns the facts of two clusters with many nodes each, which can be connected.
func largePair(nodes int) (f flows.Facts) {
	for side := range f.Sides {
		c := &f.Sides[side]
		c.ID, c.UID, c.Software, c.HasCRDs = [...]wire.ClusterID{"rome", "milan"}[side], fmt.Sprint(side), flows.Operator, true
		c.Networks.Pod = []networkingv1beta1.CIDR{"10.0.0.0/8"}
		for i := range nodes {
			a := netip.AddrFrom4([4]byte{10, byte(1 + side*64), byte(i >> 8), byte(i)})
			c.Nodes = append(c.Nodes, flows.NodeFacts{Name: fmt.Sprintf("n%d", i), Internal: []netip.Addr{a}})
		}
	}
	return f
}

// The wizard makes these checks at each key and each tick. They take 0.1 s with 10,000 nodes. A comparison of
// each node with each node of the other cluster took 6 s.
func TestLargeClustersAreCheckedAtOnceInShortLines(t *testing.T) {
	p := flows.Defaults()
	p.ServiceType = "NodePort"
	f, best := largePair(10000), time.Hour
	for range 3 {
		began := time.Now()
		Preflight(p, f, [2]*rights.Review{})
		best = min(best, time.Since(began))
	}
	if best > 2*time.Second {
		t.Errorf("10,000 nodes took %s", best)
	}
	for _, r := range Preflight(p, largePair(5000), [2]*rights.Review{}) {
		for _, line := range append(append([]string{r.Summary}, r.Evidence...), fmt.Sprint(r.Fix)) {
			if len(line) > 1000 {
				t.Errorf("%s has a line of %d characters", r.ID, len(line))
			}
		}
		if len(r.Evidence) > 100 {
			t.Errorf("%s has %d lines of evidence", r.ID, len(r.Evidence))
		}
	}
}

// kube-proxy replaces the source of packets to a node port by the node's address. A firewall rule for that
// address would open nothing.
func TestAServersOwnNodeIsNotWhereTheClientIs(t *testing.T) {
	server := largePair(1).Sides[0]
	server.Networks.Pod = []networkingv1beta1.CIDR{"10.244.0.0/16"}
	for from, want := range map[string]int{"10.244.0.1:44655": 0, server.Nodes[0].Internal[0].String() + ":1": 0, "172.30.0.11:44655": 1, "": 0} {
		if got := heardFrom(server, from); len(got) != want {
			t.Errorf("%q: got %q, want %d", from, got, want)
		}
	}
}
