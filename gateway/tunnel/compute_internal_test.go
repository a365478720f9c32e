//go:build linux

package tunnel

import (
	"net/netip"
	"testing"

	"github.com/liqo-tui/liqo-tui/gateway"
)

// Each write of a gateway is followed by a comparison of the kernel with the state that was just written.
func TestAStateIsComputedOnce(t *testing.T) {
	prefix := func(text string) gateway.CIDRs {
		return gateway.CIDRs{Pod: []netip.Prefix{netip.MustParsePrefix(text)}, External: []netip.Prefix{netip.MustParsePrefix("10.70.0.0/16")}}
	}
	in := gateway.Inputs{
		PodIP: netip.MustParseAddr("10.244.1.5"), NodeIP: netip.MustParseAddr("192.0.2.1"), UnderlayMTU: 1500, Local: prefix("10.244.0.0/16"),
		Peers: []gateway.Peer{{
			ClusterID: "milan", Role: gateway.Client, PrivateKey: gateway.PrivateKey{1}, MTU: 1340,
			Real: gateway.CIDRs{Pod: prefix("10.60.0.0/16").Pod}, Remapped: gateway.CIDRs{Pod: prefix("10.60.0.0/16").Pod},
		}},
	}
	tunnel := New(Config{})
	compute := func(set uint64) *gateway.Route {
		t.Helper()
		s, err := tunnel.compute(in, set)
		if err != nil {
			t.Fatal(err)
		}
		return &s.Routes[0]
	}
	first := compute(1)
	in.Peers = append([]gateway.Peer(nil), in.Peers...) // inputs also copies the list
	if compute(1) != first {
		t.Error("the same state was computed twice")
	}
	in.Peers[0].PathMTU = 1280
	narrow := compute(1)
	if narrow == first {
		t.Error("another longest packet: got the former state")
	}
	if compute(2) == narrow {
		t.Error("after another Set: got the former state")
	}
}
