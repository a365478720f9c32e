//go:build linux

package linux_test

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux/linuxtest"
	"github.com/liqo-tui/liqo-tui/gateway/linux/netns"
)

// One gateway has two peers with the same addresses, and flows of both peers have the same five-tuple on the
// wire. Without conntrack zones, the second flow counts as the first, and one peer gets the other peer's
// answers.
func TestPeersWithEqualAddressesAreKeptApart(t *testing.T) {
	wan := netns.New(t, "wan")
	wan.Sysctl("ip_forward", "1")
	seesA := gateway.CIDRs{Pod: linuxtest.Prefixes("10.61.0.0/16"), External: linuxtest.Prefixes("10.72.0.0/16")}
	both := gateway.CIDRs{Pod: linuxtest.Prefixes("10.60.0.0/16", "10.62.0.0/16"), External: linuxtest.Prefixes("10.71.0.0/16", "10.73.0.0/16")}
	a := linuxtest.NewCluster(t, wan, "a", gateway.Server, "198.51.100", "10.244.1.5", both)
	b := linuxtest.NewCluster(t, wan, "b", gateway.Client, "203.0.113", "10.244.1.6", seesA)
	c := linuxtest.NewCluster(t, wan, "c", gateway.Client, "192.0.2", "10.244.1.7", seesA)

	in := a.Inputs(b)
	in.Peers = append(in.Peers, a.Inputs(c).Peers...)
	for i := range in.Peers {
		p := &in.Peers[i]
		p.Index, p.ListenPort = i, uint16(linuxtest.WireGuardPort+i)
		p.Remapped = gateway.CIDRs{Pod: both.Pod[i : i+1], External: both.External[i : i+1]}
	}
	a.SyncTo(a.Gateway, a.GatewayKernel, a.State(in))
	for i, n := range a.Nodes {
		a.SyncTo(n, a.NodeKernels[i], a.NodeState(i))
	}
	b.SyncAll(a)
	ofC := c.Inputs(a)
	ofC.Peers[0].Index = 1
	ofC.Peers[0].Endpoint = netip.AddrPortFrom(ofC.Peers[0].Endpoint.Addr(), linuxtest.WireGuardPort+1)
	c.SyncTo(c.Gateway, c.GatewayKernel, c.State(ofC))
	for i, n := range c.Nodes {
		c.SyncTo(n, c.NodeKernels[i], c.NodeState(i))
	}

	b.AwaitHandshake(0)
	c.AwaitHandshake(1)

	podA, podB, podC := a.Pod(1, "podA", "10.244.2.2"), b.Pod(1, "podB", "10.244.2.2"), c.Pod(1, "podC", "10.244.2.2")
	server := podA.ListenUDP("0.0.0.0:7777")
	go func() {
		buffer := make([]byte, 100)
		for {
			n, from, err := server.ReadFromUDPAddrPort(buffer)
			if err != nil {
				return
			}
			_, _ = server.WriteToUDPAddrPort(fmt.Appendf(nil, "%s from %s", buffer[:n], from.Addr().Unmap()), from)
		}
	}()
	ofPodB, ofPodC := podB.ListenUDP("10.244.2.2:4444"), podC.ListenUDP("10.244.2.2:4444")
	for i := range 20 {
		for _, x := range []struct {
			socket     *net.UDPConn
			name, seen string
		}{{ofPodB, "podB", "10.60.2.2"}, {ofPodC, "podC", "10.62.2.2"}} {
			question := fmt.Sprintf("%s %d", x.name, i)
			if got, want := ask(t, x.socket, question), question+" from "+x.seen; got != want {
				t.Fatalf("%s: got %q, want %q", x.name, got, want)
			}
		}
	}
	// The hub also reaches each peer.
	podB.Whoami(":8080")
	podC.Whoami(":8080")
	linuxtest.ExpectFrom(t, podA, "10.60.2.2", "podB sees 10.61.2.2")
	linuxtest.ExpectFrom(t, podA, "10.62.2.2", "podC sees 10.61.2.2")

	// A new address map of one peer ends the flows of this peer, and no others.
	before := flowsByZone(t, a.Gateway)
	in.Peers[1].Remapped = gateway.CIDRs{Pod: linuxtest.Prefixes("10.64.0.0/16"), External: linuxtest.Prefixes("10.75.0.0/16")}
	a.SyncTo(a.Gateway, a.GatewayKernel, a.State(in))
	after := flowsByZone(t, a.Gateway)
	if kept, gone := gateway.Zone(0), gateway.Zone(1); before[kept] == 0 || before[gone] == 0 || after[kept] != before[kept] || after[gone] != 0 {
		t.Errorf("address map of zone %d changed: got flows by zone %v before and %v after", gone, before, after)
	}
	if got := ask(t, ofPodB, "still there"); got != "still there from 10.60.2.2" {
		t.Errorf("podB: got %q", got)
	}

	// Without the second peer, only the objects of the second peer are removed.
	in.Peers = in.Peers[:1]
	lines := a.SyncTo(a.Gateway, a.GatewayKernel, a.State(in))
	if len(lines) == 0 || lines[0] != "unexpected: tunnel liqo-tunnel1" {
		t.Errorf("peer removed: got %q", lines)
	}
	if left := a.Gateway.DumpAll(); strings.Contains(left, "liqo-tunnel1") || strings.Contains(left, "18101") {
		t.Errorf("something of the removed peer is left:\n%s", left)
	}
	linuxtest.ExpectFrom(t, podA, "10.60.2.2", "podB sees 10.61.2.2")
}

func flowsByZone(t *testing.T, n *netns.Namespace) map[uint16]int {
	t.Helper()
	var flows []*netlink.ConntrackFlow
	var err error
	n.Do(func() { flows, err = netlink.ConntrackTableList(netlink.ConntrackTable, netlink.FAMILY_V4) })
	if err != nil {
		t.Fatal(err)
	}
	count := map[uint16]int{}
	for _, f := range flows {
		count[f.Zone]++
	}
	return count
}

// ask returns the answer to one question.
func ask(t *testing.T, socket *net.UDPConn, question string) string {
	t.Helper()
	if _, err := socket.WriteToUDPAddrPort([]byte(question), netip.MustParseAddrPort("10.61.2.2:7777")); err != nil {
		t.Fatal(err)
	}
	if err := socket.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 100)
	n, err := socket.Read(buffer)
	if err != nil {
		return "no answer"
	}
	return string(buffer[:n])
}
