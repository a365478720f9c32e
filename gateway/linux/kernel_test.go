//go:build linux

package linux_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux"
	"github.com/liqo-tui/liqo-tui/gateway/linux/linuxtest"
	"github.com/liqo-tui/liqo-tui/gateway/linux/netns"
	"github.com/liqo-tui/liqo-tui/internal/ipam"
)

func TestClustersWithEqualAddressesReachEachOther(t *testing.T) {
	a, b := linuxtest.NewPair(t)
	// podA2 and podB2 have the same address. Those on node 1 have the address
	// of the other cluster's gateway pod.
	podA1, podA2 := a.Pod(0, "podA1", "10.244.1.6"), a.Pod(1, "podA2", "10.244.2.2")
	podB1, podB2 := b.Pod(0, "podB1", "10.244.1.5"), b.Pod(1, "podB2", "10.244.2.2")
	for _, p := range []*netns.Namespace{podA1, podA2, podB1, podB2} {
		p.Whoami(":8080")
	}
	for _, c := range []struct {
		from     *netns.Namespace
		to, want string
	}{
		{podA2, "10.60.2.2", "podB2 sees 10.61.2.2"},
		{podB2, "10.61.2.2", "podA2 sees 10.60.2.2"},
		{podA1, "10.60.2.2", "podB2 sees 10.61.1.6"},
		{podA2, "10.60.1.5", "podB1 sees 10.61.2.2"}, // real address is gwA's own
		{podB2, "10.61.1.6", "podA1 sees 10.60.2.2"}, // real address is gwB's own
		{podB1, "10.61.1.6", "podA1 sees 10.60.1.5"}, // both ends are the other gateway's address
		{podA1, "10.60.1.5", "podB1 sees 10.61.1.6"},
		// A node's packets have the first external address of its cluster.
		{a.Nodes[0], "10.60.2.2", "podB2 sees 10.72.0.0"},
		{a.Nodes[1], "10.60.1.5", "podB1 sees 10.72.0.0"},
		{b.Nodes[1], "10.61.2.2", "podA2 sees 10.71.0.0"},
		// Nothing has changed within a cluster.
		{podA1, "10.244.2.2", "podA2 sees 10.244.1.6"},
		{podB2, "10.244.1.5", "podB1 sees 10.244.2.2"},
	} {
		linuxtest.ExpectFrom(t, c.from, c.to, c.want)
	}
	// NAT does not disturb the pings of the gateways inside the tunnel.
	linuxtest.PingThrough(t, a, b)
	linuxtest.PingThrough(t, b, a)
	for _, c := range []*linuxtest.Cluster{a, b} {
		for name, count := range c.Counters() {
			if strings.HasPrefix(name, "dropped") && count.Packets != 0 {
				t.Errorf("%s: %s: %d packets, want none", c.Name, name, count.Packets)
			}
		}
	}
}

func TestSecondSyncFindsNoDifference(t *testing.T) {
	a, b := linuxtest.NewPair(t)
	for _, c := range []struct{ c, peer *linuxtest.Cluster }{{a, b}, {b, a}} {
		if lines := c.c.SyncTo(c.c.Gateway, c.c.GatewayKernel, c.c.State(c.c.Inputs(c.peer))); len(lines) != 0 {
			t.Errorf("gateway %s: %q", c.c.Name, lines)
		}
		for i, n := range c.c.Nodes {
			if lines := c.c.SyncTo(n, c.c.NodeKernels[i], c.c.NodeState(i)); len(lines) != 0 {
				t.Errorf("%s: %q", n.Name, lines)
			}
			// A kernel of another process finds no difference either.
			if lines := c.c.SyncTo(n, c.c.Kernel(n), c.c.NodeState(i)); len(lines) != 0 {
				t.Errorf("%s, new process: %q", n.Name, lines)
			}
		}
		var found gateway.KernelState
		var err error
		want := c.c.State(c.c.Inputs(c.peer))
		c.c.Gateway.Do(func() { found, err = c.c.GatewayKernel.Found(want) })
		if err != nil {
			t.Fatal(err)
		}
		if lines := gateway.Explain(found, want); len(lines) != 0 {
			t.Errorf("gateway %s, found: %q", c.c.Name, lines)
		}
	}
}

func TestDamageIsRepairedAndNamed(t *testing.T) {
	a, b := linuxtest.NewPair(t)
	podA, podB := a.Pod(1, "podA", "10.244.2.2"), b.Pod(1, "podB", "10.244.2.2")
	podA.Whoami(":8080")
	podB.Whoami(":8080")
	works := func() {
		t.Helper()
		linuxtest.ExpectFrom(t, podA, "10.60.2.2", "podB sees 10.61.2.2")
		linuxtest.ExpectFrom(t, podB, "10.61.2.2", "podA sees 10.60.2.2")
	}
	for _, c := range []struct{ damage, says string }{
		{"ip rule del pref 10", "missing: ip rule add pref 10 fwmark 0xc00101c0 iif liqo-fabric lookup 18100"},
		{"ip rule del pref 20", "missing: ip rule add pref 20 iif liqo-tunnel lookup 18001"},
		{"ip rule add pref 0 lookup local", "unexpected: ip rule add pref 0 lookup local"},
		{"ip rule add pref 5 fwmark 0x1 lookup 18001", "unexpected: ip rule add pref 5 fwmark 0x1 lookup 18001"},
		{"ip route flush table 18001", "missing: ip route add 10.244.2.0/24 via 198.51.100.3 dev liqo-fabric table 18001"},
		{"ip route del 10.244.0.0/16 table 18100", "missing: ip route add 10.244.0.0/16 dev liqo-tunnel table 18100"},
		{"ip route replace blackhole 10.244.0.0/16 table 18100", "ip route add blackhole 10.244.0.0/16 table 18100 proto 118 → ip route add 10.244.0.0/16 dev liqo-tunnel"},
		{"ip route add 192.0.2.0/24 dev lo table 18100", "unexpected: ip route add 192.0.2.0/24 dev lo table 18100"},
		{"ip addr flush dev liqo-tunnel", "tunnel liqo-tunnel: address invalid Prefix → 169.254.18.1/30"},
		{"ip addr add 192.0.2.7/24 dev liqo-tunnel", "tunnel liqo-tunnel: address 192.0.2.7/24 → 169.254.18.1/30"},
		{"ip addr add 169.254.18.2/30 dev liqo-tunnel", "tunnel liqo-tunnel: address 169.254.18.2/30 → 169.254.18.1/30"},
		{"ip link set liqo-tunnel mtu 1000", "tunnel liqo-tunnel: mtu 1000 → 1340"},
		{"ip link set liqo-tunnel alias mine", `tunnel liqo-tunnel: alias "mine" → "liqo-tui: tunnel to b"`},
		{"ip link set liqo-fabric alias mine", "ip link add liqo-fabric up address 02:4c:0a:f4:01:05 mtu 1450 alias \"mine\""},
		{"ip link set liqo-fabric down", "ip link add liqo-fabric down"},
		{"ip link set liqo-fabric mtu 1400", "ip link add liqo-fabric up address 02:4c:0a:f4:01:05 mtu 1400"},
		{"ip link set liqo-fabric address 02:00:00:00:00:01", "ip link add liqo-fabric up address 02:00:00:00:00:01"},
		{"ip link del liqo-fabric", "missing: ip link add liqo-fabric"},
		{"ip neigh flush dev liqo-fabric nud permanent", "missing: ip neigh add 198.51.100.3"},
		{"bridge fdb del 02:4c:c6:33:64:03 dev liqo-fabric dst 198.51.100.3", "missing: bridge fdb add 02:4c:c6:33:64:03 dev liqo-fabric dst 198.51.100.3"},
		{"bridge fdb replace 02:4c:c6:33:64:03 dev liqo-fabric dst 192.0.2.9", "unexpected: bridge fdb add 02:4c:c6:33:64:03 dev liqo-fabric dst 192.0.2.9"},
		{"nft delete table ip liqo-tui", "missing: nft table ip liqo-tui"},
		{"nft flush chain ip liqo-tui classify", `missing: nft rule classify 12: meta mark 0xc00101c0 ct zone set 4545`},
		{"nft delete chain ip liqo-tui clamp", "missing: nft chain clamp"},
		{"nft insert rule ip liqo-tui classify drop", "unexpected: nft rule classify 1: # not ours: verdict 0"},
		{"nft insert rule ip liqo-tui clamp tcp dport { 80, 443 } counter", "unexpected: nft rule clamp 1: # not ours: meta"},
		{"nft insert rule ip liqo-tui clamp ip ttl 1 drop", "unexpected: nft rule clamp 1: # not ours: payload"},
		{"nft delete element ip liqo-tui to-real { 10.60.0.0/16 }", `missing: nft element to-real { 10.60.0.0/16 comment "pods of b" : 10.244.0.0/16 }`},
		{"nft add element ip liqo-tui own-addresses { 192.0.2.0/24 }", "unexpected: nft element own-addresses { 192.0.2.0/24 }"},
		{"nft add element ip liqo-tui own-addresses { 192.0.2.0-192.0.2.6 }", "unexpected: nft element own-addresses {"},
		{"nft add element ip liqo-tui to-peers { 192.0.2.0/24 : 0xc00202c0 }", "unexpected: nft element to-peers { 192.0.2.0/24 : 0xc00202c0 }"},
		{"nft delete element ip liqo-tui from-peers { liqo-tunnel }", `missing: nft element from-peers { "liqo-tunnel" comment "b" : 0xc00101c0 }`},
		{"nft flush set ip liqo-tui wireguard-ports", `missing: nft element wireguard-ports { 51840 comment "b" }`},
		{"nft add element ip liqo-tui tunnels { eth0 }", `unexpected: nft element tunnels { "eth0" }`},
	} {
		a.Gateway.Run(strings.Fields(c.damage)...)
		lines := a.SyncTo(a.Gateway, a.GatewayKernel, a.State(a.Inputs(b)))
		if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, c.says) }) {
			t.Errorf("%s: got\n  %s\nwant a line that begins with\n  %s", c.damage, strings.Join(lines, "\n  "), c.says)
		}
		if again := a.SyncTo(a.Gateway, a.GatewayKernel, a.State(a.Inputs(b))); len(again) != 0 {
			t.Errorf("%s: not repaired at once: %q", c.damage, again)
		}
		works()
	}
	for _, damage := range []string{
		"ip route flush table 18000", "ip rule del pref 105", "ip link del liqo-fabric", "nft delete table ip liqo-tui",
	} {
		a.Nodes[1].Run(strings.Fields(damage)...)
		if lines := a.SyncTo(a.Nodes[1], a.NodeKernels[1], a.NodeState(1)); len(lines) == 0 {
			t.Errorf("node: %s: not noticed", damage)
		}
		works()
	}
}

func TestLostTunnelIsMadeAgain(t *testing.T) {
	a, b := linuxtest.NewPair(t)
	podA, podB := a.Pod(1, "podA", "10.244.2.2"), b.Pod(1, "podB", "10.244.2.2")
	podB.Whoami(":8080")
	b.Gateway.Run("ip", "link", "del", gateway.TunnelDevice)
	linuxtest.WaitFor(t, "end of the device", func() bool {
		lines, err := []string(nil), error(nil)
		b.Gateway.Do(func() { lines, err = b.GatewayKernel.Sync(b.State(b.Inputs(a))) })
		return err == nil && slices.Contains(lines, "missing: tunnel liqo-tunnel")
	})
	linuxtest.ExpectFrom(t, podA, "10.60.2.2", "podB sees 10.61.2.2")
}

func TestRemoveLeavesTheNamespaceAsItWas(t *testing.T) {
	wan := netns.New(t, "wan")
	remapped := gateway.CIDRs{Pod: linuxtest.Prefixes("10.60.0.0/16"), External: linuxtest.Prefixes("10.71.0.0/16")}
	a := linuxtest.NewCluster(t, wan, "a", gateway.Server, "198.51.100", "10.244.1.5", remapped)
	key, err := wgtypes.GeneratePrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	peer := &linuxtest.Cluster{Name: "b", Key: key}
	before := map[*netns.Namespace]string{}
	all := map[*netns.Namespace]*linux.Kernel{a.Gateway: a.GatewayKernel, a.Nodes[0]: a.NodeKernels[0], a.Nodes[1]: a.NodeKernels[1]}
	for n := range all {
		// Objects of other programs next to ours stay.
		n.Script("ip rule add pref 999 lookup 4242\nip rule add fwmark 0x11 lookup 200\nip route add 192.0.2.0/24 dev lo table 200")
		if n != a.Gateway {
			n.Script("ip rule add pref 100 lookup local") // as Cilium does
		}
		before[n] = n.DumpAll()
	}
	for range 2 {
		a.SyncAll(peer)
		for n, k := range all {
			if n.DumpAll() == before[n] {
				t.Fatalf("%s: Sync changed nothing: the test sees nothing", n.Name)
			}
			n.Do(func() { err = k.Remove() })
			if err != nil {
				t.Fatalf("%s: remove: %v", n.Name, err)
			}
			if after := n.DumpAll(); after != before[n] {
				t.Errorf("%s: got\n%s\nwant\n%s", n.Name, after, before[n])
			}
			n.Do(func() { err = k.Remove() })
			if err != nil {
				t.Errorf("%s: remove again: %v", n.Name, err)
			}
		}
	}
}

// By default, peers get addresses of class E. The kernel, its firewall and NAT accept these addresses like
// others.
func TestPeersAreReachedInClassE(t *testing.T) {
	a, b := linuxtest.NewClusters(t)
	a.Remapped = gateway.CIDRs{Pod: linuxtest.Prefixes("254.255.0.0/16"), External: linuxtest.Prefixes("240.0.0.0/16")}
	b.Remapped = gateway.CIDRs{Pod: linuxtest.Prefixes("253.18.0.0/16"), External: linuxtest.Prefixes("247.112.0.0/16")}
	a.SyncAll(b)
	b.SyncAll(a)
	b.AwaitHandshake(0)
	podA, podB := a.Pod(1, "podA", "10.244.2.2"), b.Pod(1, "podB", "10.244.2.2")
	podA.Whoami(":8080")
	podB.Whoami(":8080")
	linuxtest.ExpectFrom(t, podA, "254.255.2.2", "podB sees 253.18.2.2")
	linuxtest.ExpectFrom(t, podB, "253.18.2.2", "podA sees 254.255.2.2")
	linuxtest.ExpectFrom(t, a.Nodes[0], "254.255.2.2", "podB sees 247.112.0.0")
	linuxtest.ExpectFrom(t, b.Nodes[1], "253.18.2.2", "podA sees 240.0.0.0")
}

// A cluster's own LAN and the other end of its tunnel are in the ranges of the peer. If nodes did not leave
// out these addresses, no packet would arrive here.
func TestAddressesThatAreLeftOutOfAPeersRangesStayReachable(t *testing.T) {
	wan := netns.New(t, "wan")
	wan.Sysctl("ip_forward", "1")
	whole := gateway.CIDRs{Pod: linuxtest.Prefixes("203.0.0.0/16"), External: linuxtest.Prefixes("198.51.0.0/16")}
	a := linuxtest.NewCluster(t, wan, "a", gateway.Server, "198.51.100", "10.244.1.5", whole)
	b := linuxtest.NewCluster(t, wan, "b", gateway.Client, "203.0.113", "10.244.1.6",
		gateway.CIDRs{Pod: linuxtest.Prefixes("10.61.0.0/16"), External: linuxtest.Prefixes("10.72.0.0/16")})
	a.SyncTo(a.Gateway, a.GatewayKernel, a.State(a.Inputs(b)))
	var spared []ipam.Reservation
	for _, p := range linuxtest.Prefixes("198.51.100.1/32", "198.51.100.2/32", "198.51.100.3/32", "203.0.113.2/32") {
		spared = append(spared, ipam.Reservation{Prefix: p})
	}
	a.Remapped = gateway.CIDRs{Pod: ipam.Without(whole.Pod, spared), External: ipam.Without(whole.External, spared)}
	a.SyncNodes()
	for i, n := range a.Nodes { // the kernel returns sets of neighbouring intervals unchanged
		if lines := a.SyncTo(n, a.NodeKernels[i], a.NodeState(i)); len(lines) != 0 {
			t.Errorf("%s: second sync: %q", n.Name, lines)
		}
	}
	b.SyncAll(a)
	b.AwaitHandshake(0)
	podA, podB := a.Pod(1, "podA", "10.244.2.2"), b.Pod(1, "podB", "10.244.2.2")
	podA.Whoami(":8080")
	podB.Whoami(":8080")
	wan.Whoami("198.51.100.1:8080")
	linuxtest.ExpectFrom(t, podA, "203.0.2.2", "podB sees 10.61.2.2")
	linuxtest.ExpectFrom(t, podB, "10.61.2.2", "podA sees 203.0.2.2")
	linuxtest.ExpectFrom(t, a.Nodes[1], "198.51.100.1", "wan sees 198.51.100.3")
	linuxtest.ExpectFrom(t, podA, "198.51.100.1", "wan sees 198.51.100.3") // masqueraded, as to any host outside
}

func TestPeerThatIsKnownLaterConnectsAndItsSessionStays(t *testing.T) {
	wan := netns.New(t, "wan")
	wan.Sysctl("ip_forward", "1")
	a := linuxtest.NewCluster(t, wan, "a", gateway.Server, "198.51.100", "10.244.1.5",
		gateway.CIDRs{Pod: linuxtest.Prefixes("10.60.0.0/16"), External: linuxtest.Prefixes("10.71.0.0/16")})
	b := linuxtest.NewCluster(t, wan, "b", gateway.Client, "203.0.113", "10.244.1.6",
		gateway.CIDRs{Pod: linuxtest.Prefixes("10.61.0.0/16"), External: linuxtest.Prefixes("10.72.0.0/16")})
	without := a.Inputs(b)
	without.Peers[0].PublicKey = wgtypes.Key{}
	a.SyncTo(a.Gateway, a.GatewayKernel, a.State(without))
	if _, err := a.PeerStats(0); !errors.Is(err, linux.ErrNoPeer) {
		t.Errorf("without peer: got %v, want %v", err, linux.ErrNoPeer)
	}
	b.SyncAll(a)

	lines := a.SyncTo(a.Gateway, a.GatewayKernel, a.State(a.Inputs(b)))
	want := []string{fmt.Sprintf("tunnel liqo-tunnel: peer none → %s", b.Key.PublicKey())}
	if !slices.Equal(lines, want) {
		t.Errorf("peer known: got %q, want %q", lines, want)
	}
	// The client's first handshake got no answer, and WireGuard repeats it only after 5 s.
	var err error
	b.Gateway.Do(func() { err = b.GatewayKernel.Redial(gateway.TunnelDevice, netip.AddrPort{}) })
	if err != nil {
		t.Fatal(err)
	}
	var first linux.PeerStats
	started := time.Now()
	linuxtest.WaitFor(t, "handshake", func() bool {
		first, err = a.PeerStats(0)
		return err == nil && !first.Handshake.IsZero()
	})
	if took := time.Since(started); took > 2*time.Second {
		t.Errorf("handshake after redial took %v", took)
	}
	if first.Implementation == "" || !first.Endpoint.IsValid() {
		t.Errorf("got %+v, want implementation and endpoint", first)
	}
	// Other changes don't affect the session: there is no new handshake.
	in := a.Inputs(b)
	in.Nodes = in.Nodes[:1]
	in.Peers[0].MTU = 1300
	if lines := a.SyncTo(a.Gateway, a.GatewayKernel, a.State(in)); len(lines) == 0 {
		t.Error("no difference found")
	}
	linuxtest.PingThrough(t, a, b)
	if now, err := a.PeerStats(0); err != nil || now.Handshake != first.Handshake {
		t.Errorf("handshake: got %v, %v, want that of %v", now.Handshake, err, first.Handshake)
	}
}

func TestServerFollowsAClientThatMoves(t *testing.T) {
	a, b := linuxtest.NewPair(t)
	before, err := a.PeerStats(0)
	if err != nil {
		t.Fatal(err)
	}
	// The server had one endpoint in its settings, as after its own restart.
	in := a.Inputs(b)
	in.Peers[0].Endpoint = before.Endpoint
	a.SyncTo(a.Gateway, a.GatewayKernel, a.State(in))

	// The client starts again: its namespace stays, but its device and port change. With the process, only
	// the userspace device ends, so the test removes the kernel's device.
	b.Gateway.Do(b.GatewayKernel.Close)
	_, _ = b.Gateway.Try("ip", "link", "del", gateway.TunnelDevice)
	b.GatewayKernel = b.Kernel(b.Gateway)
	if lines := b.SyncTo(b.Gateway, b.GatewayKernel, b.State(b.Inputs(a))); !slices.Contains(lines, "missing: tunnel liqo-tunnel") {
		t.Errorf("restart: got %q, want a missing tunnel", lines)
	}
	var after linux.PeerStats
	linuxtest.WaitFor(t, "new endpoint", func() bool {
		after, err = a.PeerStats(0)
		return err == nil && after.Endpoint != before.Endpoint
	})
	if lines := a.SyncTo(a.Gateway, a.GatewayKernel, a.State(in)); len(lines) != 0 {
		t.Errorf("server undoes roaming: %q", lines)
	}
	// A new endpoint in the settings takes effect.
	in.Peers[0].Endpoint = netip.MustParseAddrPort("203.0.113.2:9")
	want := []string{fmt.Sprintf("tunnel liqo-tunnel: peer endpoint %s → 203.0.113.2:9", after.Endpoint)}
	if lines := a.SyncTo(a.Gateway, a.GatewayKernel, a.State(in)); !slices.Equal(lines, want) {
		t.Errorf("new endpoint: got %q, want %q", lines, want)
	}
}

func TestForgedPacketsAreDroppedAndCounted(t *testing.T) {
	a, b := linuxtest.NewPair(t)
	podA := a.Pod(1, "podA", "10.244.2.2")
	// The peer's gateway becomes hostile: it has no firewall, and sends any packets.
	b.Gateway.Script(`nft delete table ip liqo-tui
		ip addr add 192.0.2.99/32 dev lo
		ip route add 10.244.2.2/32 dev liqo-tunnel
		ip route add 198.51.100.3/32 dev liqo-tunnel`)
	inbox := podA.ListenUDP("10.244.2.2:7777")
	for i := range 2 {
		// Otherwise the packets would be dropped because nothing listens.
		_ = a.Nodes[i].ListenUDP("0.0.0.0:7777")
	}
	_ = a.Gateway.ListenUDP("0.0.0.0:7777")
	for _, c := range []struct {
		what, from, to, counter string
		sender                  *netns.Namespace
	}{
		{"source that is not the peer's", "192.0.2.99:0", "10.244.2.2:7777", gateway.DroppedSource, b.Gateway},
		{"destination that is a node", "10.244.1.6:0", "198.51.100.3:7777", gateway.DroppedDestination, b.Gateway},
		{"what only the fabric sends", "10.244.1.6:0", "10.244.2.2:6092", gateway.DroppedDestination, b.Gateway},
		{"the gateway's own ports", "169.254.18.2:0", "169.254.18.1:7777", gateway.DroppedInput, b.Gateway},
		{"ping from outside the tunnel", "0.0.0.0:0", "10.244.1.5:12345", gateway.DroppedInput, a.Nodes[0]},
		{"ping from a pod to the tunnel address", "0.0.0.0:0", "169.254.18.1:12345", gateway.DroppedInput, podA},
	} {
		if c.sender == podA {
			podA.Run("ip", "route", "replace", "169.254.18.1", "via", "169.254.1.1")
			a.Nodes[1].Run("ip", "route", "replace", "169.254.18.1", "via", a.NodeIP(0))
			a.Nodes[0].Run("ip", "route", "replace", "169.254.18.1", "via", a.GatewayIP)
		}
		before := a.Counters()[c.counter].Packets
		s := c.sender.ListenUDP(c.from)
		if _, err := s.WriteToUDPAddrPort([]byte("forged"), netip.MustParseAddrPort(c.to)); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		linuxtest.WaitFor(t, c.counter+": "+c.what, func() bool { return a.Counters()[c.counter].Packets == before+1 })
	}
	// A packet that the peer may send arrives, and it is the first packet that arrives.
	s := b.Gateway.ListenUDP("10.244.1.6:0")
	if _, err := s.WriteToUDPAddrPort([]byte("genuine"), netip.MustParseAddrPort("10.244.2.2:7777")); err != nil {
		t.Fatal(err)
	}
	if err := inbox.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 100)
	n, from, err := inbox.ReadFromUDPAddrPort(buffer)
	if err != nil || string(buffer[:n]) != "genuine" || from.Addr().Unmap() != netip.MustParseAddr("10.60.1.6") {
		t.Errorf("got %q from %v, %v", buffer[:n], from, err)
	}
	// A replacement of the table does not reset the counters.
	before := a.Counters()
	in := a.Inputs(b)
	in.Peers[0].MTU = 1300
	a.SyncTo(a.Gateway, a.GatewayKernel, a.State(in))
	if after := a.Counters()[gateway.DroppedSource]; after != before[gateway.DroppedSource] || after.Packets == 0 {
		t.Errorf("counter after replacing the table: got %+v, want %+v", after, before[gateway.DroppedSource])
	}
}

func TestNewTranslationAppliesToEstablishedFlows(t *testing.T) {
	a, b := linuxtest.NewPair(t)
	podA, podB := a.Pod(1, "podA", "10.244.2.2"), b.Pod(1, "podB", "10.244.2.2")
	podA.Whoami(":8080")
	podB.Whoami(":8080")
	linuxtest.ExpectFrom(t, podA, "10.60.2.2", "podB sees 10.61.2.2")
	flows := func(zone string) int {
		return strings.Count(a.Gateway.Run("cat", "/proc/net/nf_conntrack"), zone)
	}
	if _, err := a.Gateway.Try("test", "-r", "/proc/net/nf_conntrack"); err == nil && flows("zone=4545") == 0 {
		t.Fatal("no flow in the tunnel's zone")
	}
	a.Remapped = gateway.CIDRs{Pod: linuxtest.Prefixes("10.64.0.0/16"), External: linuxtest.Prefixes("10.75.0.0/16")}
	a.SyncAll(b)
	if _, err := a.Gateway.Try("test", "-r", "/proc/net/nf_conntrack"); err == nil && flows("zone=4545") != 0 {
		t.Error("flows of the old translation are still there")
	}
	linuxtest.ExpectFrom(t, podA, "10.64.2.2", "podB sees 10.61.2.2")
	linuxtest.ExpectFrom(t, podB, "10.61.2.2", "podA sees 10.64.2.2")
}

func TestPodsLearnThePathMTU(t *testing.T) {
	a, b := linuxtest.NewPair(t)
	podA, podB := a.Pod(1, "podA", "10.244.2.2"), b.Pod(1, "podB", "10.244.2.2")
	inbox := podB.ListenUDP("0.0.0.0:7777")
	socket := podA.ListenUDP("10.244.2.2:0")
	linuxtest.DontFragment(t, socket)
	to := netip.MustParseAddrPort("10.60.2.2:7777")
	const headers = 28 // IPv4 and UDP
	// The pod's device takes 1500 bytes. The node's answer that the path takes 1340 comes later.
	linuxtest.WaitFor(t, "message that it is too long", func() bool {
		_, err := socket.WriteToUDPAddrPort(make([]byte, linuxtest.TunnelMTU-headers+1), to)
		return errors.Is(err, unix.EMSGSIZE)
	})
	if _, err := socket.WriteToUDPAddrPort(make([]byte, linuxtest.TunnelMTU-headers), to); err != nil {
		t.Fatalf("the longest that fits: %v", err)
	}
	if err := inbox.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	n, _, err := inbox.ReadFromUDPAddrPort(make([]byte, 2000))
	if err != nil || n != linuxtest.TunnelMTU-headers {
		t.Errorf("got %d bytes, %v, want %d: the longest that fits, and none longer", n, err, linuxtest.TunnelMTU-headers)
	}
}

// The agents call Sync on every event and every few seconds.
func BenchmarkSyncWithoutDifference(b *testing.B) {
	x, y := linuxtest.NewPair(b)
	want := x.State(x.Inputs(y))
	for b.Loop() {
		if lines := x.SyncTo(x.Gateway, x.GatewayKernel, want); len(lines) != 0 {
			b.Fatal(lines)
		}
	}
}

// Rules keep their handles, and the kernel uses each handle only once.
func TestRepairOfOneRuleLeavesTheOthersAlone(t *testing.T) {
	a, b := linuxtest.NewPair(t)
	want := a.State(a.Inputs(b))
	handles := func() map[string]string {
		found := map[string]string{}
		for line := range strings.Lines(a.Gateway.Run("nft", "--handle", "list", "table", "ip", gateway.TableName)) {
			if text, handle, ok := strings.Cut(strings.TrimSpace(line), " # handle "); ok {
				// The counters of objects grow meanwhile.
				found[text] = handle
			}
		}
		return found
	}
	before := handles()
	for _, damage := range []string{
		"nft insert rule ip liqo-tui clamp ip ttl 1 drop", "nft delete element ip liqo-tui to-real { 10.60.0.0/16 }",
		"nft add element ip liqo-tui to-peers { 192.0.2.0/24 : 0xc00202c0 }", "nft flush set ip liqo-tui peer-sources",
	} {
		a.Gateway.Run(strings.Fields(damage)...)
		if lines := a.SyncTo(a.Gateway, a.GatewayKernel, want); len(lines) == 0 {
			t.Errorf("%s: not noticed", damage)
		}
		if lines := a.SyncTo(a.Gateway, a.GatewayKernel, want); len(lines) != 0 {
			t.Errorf("%s: not repaired: %q", damage, lines)
		}
	}
	after := handles()
	for text, handle := range before {
		// Only the chain with the added rule is written again.
		if strings.Contains(text, "maxseg") {
			continue
		}
		if after[text] != handle {
			t.Errorf("%s: was handle %s, is %q now", text, handle, after[text])
		}
	}
	if len(before) < 20 {
		t.Errorf("only %d handles: the test sees nothing", len(before))
	}
}
