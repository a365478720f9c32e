//go:build linux

package linux_test

import (
	"maps"
	"net/netip"
	"slices"
	"testing"

	"github.com/liqo-tui/liqo-tui/gateway/linux"
	"github.com/liqo-tui/liqo-tui/gateway/linux/linuxtest"
)

// A node asks on the path of pods' packets, so port 6092 has to work in both directions. No program of the
// gateway has to run, because its kernel answers.
func TestNodesAskTheirGatewayOverTheFabric(t *testing.T) {
	a, _ := linuxtest.NewPair(t)
	gw := netip.MustParseAddr(a.GatewayIP)
	ask := func(node int, members ...netip.Addr) []netip.Addr {
		t.Helper()
		var answered map[netip.Addr]bool
		var err error
		a.Nodes[node].Do(func() { answered, err = linux.Ask(netip.MustParseAddr(a.NodeIP(node)), members) })
		if err != nil {
			t.Fatal(err)
		}
		return slices.Collect(maps.Keys(answered))
	}
	expect := func(what string, node int, answers bool) {
		t.Helper()
		if got := ask(node, gw); (len(got) == 1 && got[0] == gw) != answers {
			t.Errorf("%s: node %d got answers of %v", what, node+1, got)
		}
	}
	expect("the gateway's own node", 0, true)
	expect("another node", 1, true)
	if got := ask(1, netip.MustParseAddr("10.244.1.99")); len(got) != 0 {
		t.Errorf("nobody is there: got answers of %v", got)
	}
	// The pods of nodes with IPVS inherit this setting.
	a.Gateway.Sysctl("conf/all/arp_ignore", "1")
	expect("with strict ARP", 1, true)

	const closed = `table inet closed { chain in { type filter hook input priority -400; udp dport 6092 drop; }; }`
	a.Nodes[1].NFT(closed)
	expect("the node's port is closed", 1, false)
	expect("another node's port is closed", 0, true)
	a.Nodes[1].Run("nft", "delete", "table", "inet", "closed")
	expect("it is open again", 1, true)
	a.Gateway.NFT(closed)
	expect("the gateway's port is closed", 1, false)
	a.Gateway.Run("nft", "delete", "table", "inet", "closed")
	expect("and open again", 1, true)
}
