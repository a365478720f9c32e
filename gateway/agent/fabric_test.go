package agent

import (
	"log/slog"
	"net/netip"
	"testing"

	"github.com/liqo-tui/liqo-tui/gateway"
)

// A gateway that refuses what it is told goes on as it was, and so do nodes.
func TestNodesFollowWhatWasFitLast(t *testing.T) {
	f := &fabric{options: FabricOptions{Log: slog.New(slog.DiscardHandler)}}
	gw := func(name, pod, remote string, mtu int) gateway.Gateway {
		return gateway.Gateway{Name: name, PodIP: netip.MustParseAddr(pod), MTU: mtu, RemoteCIDRs: []netip.Prefix{netip.MustParsePrefix(remote)}}
	}
	follow := func(all ...gateway.Gateway) map[string]int {
		in := f.follow(gateway.NodeInputs{NodeIP: netip.MustParseAddr("192.0.2.1"), UnderlayMTU: 1500, Gateways: all}, nil)
		mtus := map[string]int{}
		for _, g := range in.Gateways {
			mtus[g.Name] = g.MTU
		}
		return mtus
	}
	milan := gw("milan", "10.0.0.1", "10.1.0.0/16", 1300)
	if got := follow(milan, gw("turin", "10.0.0.2", "10.2.0.0/16", 500)); len(got) != 1 || got["milan"] != 1300 {
		t.Errorf("never fit: got %v", got)
	}
	follow(milan, gw("turin", "10.0.0.2", "10.2.0.0/16", 1280))
	if got := follow(milan, gw("turin", "10.0.0.2", "10.2.0.0/16", 500)); len(got) != 2 || got["turin"] != 1280 {
		t.Errorf("no longer fit: got %v, want turin as it was", got)
	}
	// Its address is another one's now.
	if got := follow(gw("milan", "10.0.0.2", "10.1.0.0/16", 1300), gw("turin", "10.0.0.2", "10.2.0.0/16", 1280)); len(got) != 1 || got["milan"] != 1300 {
		t.Errorf("taken: got %v, want milan alone", got)
	}
}
