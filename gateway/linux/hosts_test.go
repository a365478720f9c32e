//go:build linux

package linux_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux/linuxtest"
	"github.com/liqo-tui/liqo-tui/gateway/linux/netns"
)

// The host outside of the cluster is in the network of the nodes' default route, and knows no pods.
func TestPeersReachHostsOutsideTheCluster(t *testing.T) {
	wan := netns.New(t, "wan")
	wan.Sysctl("ip_forward", "1")
	a := linuxtest.NewCluster(t, wan, "a", gateway.Server, "198.51.100", "10.244.1.5",
		gateway.CIDRs{Pod: linuxtest.Prefixes("10.60.0.0/16"), External: linuxtest.Prefixes("10.71.0.0/16")})
	b := linuxtest.NewCluster(t, wan, "b", gateway.Client, "203.0.113", "10.244.1.6",
		gateway.CIDRs{Pod: linuxtest.Prefixes("10.61.0.0/16"), External: linuxtest.Prefixes("10.72.0.0/16")})
	a.Given = []netip.Addr{netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("198.51.100.3")}
	a.SyncAll(b)
	in := a.Inputs(b)
	in.Hosts = []gateway.Host{
		{External: netip.MustParseAddr("10.70.0.7"), Real: netip.MustParseAddr("198.51.100.1")},
		{External: netip.MustParseAddr("10.70.0.8"), Real: netip.MustParseAddr("198.51.100.3")}, // the second node
	}
	a.SyncTo(a.Gateway, a.GatewayKernel, a.State(in))
	if lines := a.SyncTo(a.Gateway, a.GatewayKernel, a.State(in)); len(lines) != 0 {
		t.Errorf("second sync: %q", lines)
	}
	b.SyncAll(a)
	b.AwaitHandshake(0)

	wan.Whoami("198.51.100.1:8080")
	a.Nodes[1].Whoami(":8080")
	podB := b.Pod(1, "podB", "10.244.2.2")
	linuxtest.ExpectFrom(t, podB, "10.72.0.7", "wan sees 198.51.100.2")
	linuxtest.ExpectFrom(t, podB, "10.72.0.8", "node-a2 sees 10.60.2.2")
	linuxtest.ExpectFrom(t, b.Nodes[0], "10.72.0.7", "wan sees 198.51.100.2")

	flows := func(to string) int {
		return strings.Count(a.Gateway.Run("conntrack", "-L", "--orig-dst", to), "dport=8080")
	}
	if flows("10.70.0.7") == 0 || flows("10.70.0.8") == 0 {
		t.Fatal("no flows to the external addresses: the test sees nothing")
	}
	in.Hosts = in.Hosts[1:]
	a.SyncTo(a.Gateway, a.GatewayKernel, a.State(in))
	if gone, stays := flows("10.70.0.7"), flows("10.70.0.8"); gone != 0 || stays == 0 {
		t.Errorf("after an address was taken away: %d flows to it are left, and %d to the other one", gone, stays)
	}
	if answer, _, err := podB.Get("", "10.72.0.7:8080", 0); err == nil {
		t.Errorf("an address that was taken away: got %q, want no answer", answer)
	}

	if answer, _, err := podB.Get("", "10.72.0.9:8080", 0); err == nil {
		t.Errorf("an address that no host has: got %q, want no answer", answer)
	}
}
