//go:build linux

package linux_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux"
	"github.com/liqo-tui/liqo-tui/gateway/linux/linuxtest"
	"github.com/liqo-tui/liqo-tui/gateway/linux/netns"
	"github.com/liqo-tui/liqo-tui/internal/sample"
)

// shape is a pod network, and the addresses that its nodes have in the pods' range.
type shape struct {
	name string
	make func(t *testing.T) (a, b *linuxtest.Cluster)
}

func shapes() []shape {
	const dummyPod = "10.244.%[1]d.250"
	plain := func(add func(a *linuxtest.Cluster)) func(*testing.T) (a, b *linuxtest.Cluster) {
		return func(t *testing.T) (*linuxtest.Cluster, *linuxtest.Cluster) {
			a, b := linuxtest.NewClusters(t)
			add(a)
			return a, b
		}
	}
	return []shape{
		{"bridge", plain(func(a *linuxtest.Cluster) {
			for i, n := range a.Nodes {
				n.Script(fmt.Sprintf("ip link add cni0 type bridge\nip addr add 10.244.%d.1/24 brd + dev cni0\nip link set cni0 up", i+1))
			}
		})},
		{"ptp", plain(func(a *linuxtest.Cluster) {
			for i := range a.Nodes {
				name := fmt.Sprintf("near%d", i+1)
				a.Pod(i, name, fmt.Sprintf(dummyPod, i+1))
				a.Nodes[i].Run("ip", "addr", "add", fmt.Sprintf("10.244.%d.1/32", i+1), "dev", "v-"+name)
			}
		})},
		{"overlay", plain(func(a *linuxtest.Cluster) { a.Overlay() })},
		{"vpc", func(t *testing.T) (a, b *linuxtest.Cluster) {
			wan := netns.New(t, "wan")
			wan.Sysctl("ip_forward", "1")
			a = linuxtest.NewCluster(t, wan, "a", gateway.Client, "10.244.9", "10.244.1.5",
				gateway.CIDRs{Pod: linuxtest.Prefixes("10.60.0.0/16"), External: linuxtest.Prefixes("10.71.0.0/16")})
			b = linuxtest.NewCluster(t, wan, "b", gateway.Server, "203.0.113", "10.244.1.6",
				gateway.CIDRs{Pod: linuxtest.Prefixes("10.61.0.0/16"), External: linuxtest.Prefixes("10.72.0.0/16")})
			return a, b
		}},
	}
}

// connect connects both clusters. If announced is set, nodes of a report their addresses.
func connect(a, b *linuxtest.Cluster, announced bool) {
	in := a.Inputs(b)
	if announced {
		for i, n := range a.Nodes {
			n.Do(func() { in.Nodes[i].Addresses, _ = linux.Addresses() })
		}
	}
	a.SyncTo(a.Gateway, a.GatewayKernel, a.State(in))
	a.SyncNodes()
	b.SyncAll(a)
	if a.Role == gateway.Client {
		a.Redial()
	} else {
		b.Redial()
	}
}

// inPods returns the addresses of a namespace that are in the pods' range.
func inPods(n *netns.Namespace) []netip.Addr {
	var found []netip.Addr
	for line := range strings.Lines(n.Run("ip", "-4", "-o", "addr")) {
		a := netip.MustParsePrefix(strings.Fields(line)[3]).Addr()
		if linuxtest.Local().Pod[0].Contains(a) {
			found = append(found, a)
		}
	}
	return found
}

// remapped returns the address at which b sees an address of a.
func remapped(a netip.Addr) netip.Addr {
	four := a.As4()
	four[1] = 61
	return netip.AddrFrom4(four)
}

// visitors records the senders that have reached a namespace's ports.
type visitors struct {
	mu   sync.Mutex
	seen map[string]bool
}

func (v *visitors) note(name, network string, port uint16, from netip.Addr) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.seen[fmt.Sprintf("%s %s %d from %s", name, network, port, from)] = true
}

func (v *visitors) from(text string) []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	var found []string
	for s := range v.seen {
		if strings.Contains(s, text) {
			found = append(found, s)
		}
	}
	slices.Sort(found)
	return found
}

// open listens on ports of a namespace, on all of its addresses.
func (v *visitors) open(n *netns.Namespace, ports ...uint16) {
	for _, port := range ports {
		address := fmt.Sprintf("0.0.0.0:%d", port)
		l, u := n.Listen(address), n.ListenUDP(address)
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				from, _ := netip.ParseAddrPort(c.RemoteAddr().String())
				v.note(n.Name, "tcp", port, from.Addr())
				_ = c.Close()
			}
		}()
		go func() {
			for {
				_, from, err := u.ReadFromUDPAddrPort(make([]byte, 2000))
				if err != nil {
					return
				}
				v.note(n.Name, "udp", port, from.Addr().Unmap())
			}
		}()
	}
}

// knock sends a datagram and begins a connection.
func knock(t *testing.T, from *netns.Namespace, to netip.AddrPort) {
	t.Helper()
	from.Do(func() {
		for _, kind := range []int{unix.SOCK_DGRAM, unix.SOCK_STREAM} {
			fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = unix.Close(fd) })
			_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BROADCAST, 1)
			err = unix.Connect(fd, &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())})
			if err == nil && kind == unix.SOCK_DGRAM {
				_, err = unix.Write(fd, []byte("knock"))
			}
			if err != nil && !errors.Is(err, unix.EINPROGRESS) {
				t.Errorf("%s to %s: %v", from.Name, to, err)
			}
		}
	})
}

// refused returns the number of packets of peers that a cluster has dropped at gateways and nodes.
func refused(c *linuxtest.Cluster) uint64 {
	gw := c.Counters()
	sum := gw[gateway.DroppedNodes].Packets + gw[gateway.DroppedInput].Packets + gw[gateway.DroppedDestination].Packets
	for i, n := range c.Nodes {
		n.Do(func() {
			counters, _ := c.NodeKernels[i].Counters()
			sum += counters[gateway.DroppedNodes].Packets + counters[gateway.DroppedFabric].Packets
		})
	}
	return sum
}

// Nearly every pod network gives nodes addresses in the pods' range. Kubelets, API servers, node ports and
// other programs listen on these addresses.
func TestAPeerReachesNoNode(t *testing.T) {
	ports := []uint16{22, 6443, 8082, 10250, 31999} // no known program uses the last port
	const byIPTables, byNFTables = 30080, 30081
	all := shapes()
	if sample.Emulated() && !sample.All() { // each shape takes a minute on an emulated machine
		first := sample.Seed(t) / 3 % uint64(len(all))
		all = all[first : first+1]
	}
	for _, s := range all {
		for _, fence := range []string{"nodes", "gateway"} {
			t.Run(s.name+"/"+fence, func(t *testing.T) {
				a, b := s.make(t)
				connect(a, b, fence == "gateway")
				pod, client := a.Pod(1, "pod", "10.244.2.2"), b.Pod(1, "client", "10.244.2.3")
				all := &visitors{seen: map[string]bool{}}
				all.open(pod, 8080)
				for _, n := range a.Nodes {
					all.open(n, ports...)
					n.NFT(fmt.Sprintf(`table ip nat { chain PREROUTING { type nat hook prerouting priority -100
							fib daddr type local tcp dport %[1]d dnat to 10.244.2.2:8080
							fib daddr type local udp dport %[1]d dnat to 10.244.2.2:8080
}
}
						table ip kube-proxy { chain nat-prerouting { type nat hook prerouting priority dstnat
							fib daddr type local tcp dport %[2]d dnat to 10.244.2.2:8080
							fib daddr type local udp dport %[2]d dnat to 10.244.2.2:8080
}
}`, byIPTables, byNFTables))
					// Each fence is tested alone.
					if fence == "gateway" {
						n.Run("nft", "flush", "chain", "ip", "liqo-tui", "own-addresses")
						n.Run("nft", "flush", "chain", "ip", "liqo-tui", "arrive")
					}
				}
				if fence == "nodes" {
					a.Gateway.Run("nft", "flush", "chain", "ip", "liqo-tui", "nodes")
				}
				linuxtest.ExpectFrom(t, client, "10.61.2.7", whoami(a, 1, "other", "10.244.2.7", "10.60.2.3"))

				local := a.Pod(0, "local", "10.244.1.66")
				before, knocks := refused(a), uint64(0)
				for _, n := range a.Nodes {
					own := inPods(n)
					if len(own) == 0 {
						t.Fatalf("%s has no address in the pods' range: the test sees nothing", n.Name)
					}
					for _, address := range own {
						for _, port := range slices.Concat(ports, []uint16{byIPTables, byNFTables}) {
							knock(t, local, netip.AddrPortFrom(address, port))
							knock(t, client, netip.AddrPortFrom(remapped(address), port))
							knocks += 2
						}
					}
					for _, port := range ports {
						linuxtest.WaitFor(t, fmt.Sprintf("visit of the local pod at %s, port %d", n.Name, port), func() bool {
							return len(all.from(fmt.Sprintf("%s tcp %d from 10.244.", n.Name, port))) > 0 && len(all.from(fmt.Sprintf("%s udp %d from 10.244.", n.Name, port))) > 0
						})
					}
				}
				linuxtest.WaitFor(t, "visit of the local pod by node ports", func() bool {
					return len(all.from("pod tcp 8080 from ")) > 0 && len(all.from("pod udp 8080 from ")) > 0
				})
				linuxtest.WaitFor(t, "drop of all that the peer sent", func() bool { return refused(a) >= before+knocks })
				if got := all.from("from 10.60."); len(got) > 0 {
					t.Errorf("the peer's pod reached:\n%s", strings.Join(got, "\n"))
				}

				if fence == "nodes" { // nodes refuse packets to a new address at once
					a.Nodes[1].Run("ip", "addr", "add", "10.244.2.77/32", "dev", "lo")
					before := refused(a)
					knock(t, client, netip.MustParseAddrPort("10.61.2.77:22"))
					linuxtest.WaitFor(t, "drop at the new address", func() bool { return refused(a) >= before+2 })
					if got := all.from("from 10.60."); len(got) > 0 {
						t.Errorf("at the new address, the peer's pod reached %q", got)
					}
				}

				// Nodes get answers to their own requests, also if their address is in the pods' range.
				back := b.Pod(1, "back", "10.244.2.9")
				back.Whoami(":8080")
				for i, n := range a.Nodes {
					seen := "10.72.0.0"
					if s.name == "vpc" {
						seen = remapped(netip.MustParseAddr(a.NodeIP(i))).String()
					}
					linuxtest.ExpectFrom(t, n, "10.60.2.9", "back sees "+seen)
				}
			})
		}
	}
}

// whoami starts a pod that answers, and returns its answer to a client.
func whoami(c *linuxtest.Cluster, node int, name, ip, client string) string {
	c.Pod(node, name, ip).Whoami(":8080")
	return name + " sees " + client
}

// The gateway's pod also has an address in the pods' range, and it has ports for the cluster.
func TestAPeerReachesNothingOfAGateway(t *testing.T) {
	a, b := linuxtest.NewPair(t)
	all := &visitors{seen: map[string]bool{}}
	all.open(a.Gateway, 22, 8082, 31999)
	local, client := a.Pod(0, "local", "10.244.1.66"), b.Pod(1, "client", "10.244.2.3")
	for _, fence := range []string{"gateway", "nodes"} {
		t.Run(fence, func(t *testing.T) {
			if fence == "nodes" { // other is the gateway of another peer
				other := a.Pod(1, "other", "10.244.2.5")
				all.open(other, 8082)
				a.Nodes[1].NFT("add element ip liqo-tui gateways { 10.244.2.5 }")
				before := refused(a)
				knock(t, client, netip.MustParseAddrPort("10.61.2.5:8082"))
				linuxtest.WaitFor(t, "drop", func() bool { return refused(a) >= before+2 })
			} else {
				before := refused(a)
				for _, port := range []uint16{22, 8082, 31999} {
					knock(t, client, netip.AddrPortFrom(netip.MustParseAddr("10.61.1.5"), port))
					knock(t, local, netip.AddrPortFrom(netip.MustParseAddr("10.244.1.5"), port))
				}
				linuxtest.WaitFor(t, "visit of the local pod", func() bool { return len(all.from("from 10.244.1.66")) == 6 })
				linuxtest.WaitFor(t, "drop", func() bool { return refused(a) >= before+6 })
			}
			if got := all.from("from 10.60."); len(got) > 0 {
				t.Errorf("the peer's pod reached %q", got)
			}
			if got := all.from("from 10.244.2.3"); len(got) > 0 {
				t.Errorf("the peer's pod reached %q", got)
			}
		})
	}
	linuxtest.PingThrough(t, a, b)
	linuxtest.PingThrough(t, b, a)

	// A pod of the peer sends to the tunnel's end, and the peer's gateway lets the packets pass.
	b.Gateway.Script("ip route add 169.254.18.1/32 dev liqo-tunnel table 18100")
	inbox := a.Gateway.ListenUDP(fmt.Sprintf("169.254.18.1:%d", gateway.PingPort))
	before := a.Counters()[gateway.DroppedInput].Packets
	raw := udp4("10.244.2.3:12345", fmt.Sprintf("169.254.18.1:%d", gateway.PingPort), []byte("ping"))
	b.Gateway.Do(func() { sendRaw(t, raw, netip.MustParseAddr("169.254.18.1")) })
	linuxtest.WaitFor(t, "drop of a pod's ping", func() bool { return a.Counters()[gateway.DroppedInput].Packets > before })
	if err := inbox.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, from, err := inbox.ReadFromUDPAddrPort(make([]byte, 10)); err == nil {
		t.Errorf("a ping came from %s, want those of the other gateway only", from)
	}
}

// The pods' range may contain the Services' range, as with Cilium's default. A Service may lead to nodes: in
// every cluster, the Service of the API server does.
func TestNoServiceLeadsAPeerToNodes(t *testing.T) {
	a, b := linuxtest.NewPair(t)
	all := &visitors{seen: map[string]bool{}}
	for i, n := range a.Nodes {
		all.open(n, 6443)
		n.NFT(fmt.Sprintf(`table ip proxy2 { chain services { type nat hook prerouting priority dstnat
			ip daddr 10.244.200.1 tcp dport 443 dnat to %[1]s:6443
			ip daddr 10.244.200.1 udp dport 443 dnat to %[1]s:6443
			ip daddr 10.244.200.2 tcp dport 443 dnat to %[2]s:6443
			ip daddr 10.244.200.2 udp dport 443 dnat to %[2]s:6443
}
}`, a.NodeIP(i), a.NodeIP(1-i)))
	}
	client, local := b.Pod(1, "client", "10.244.2.3"), a.Pod(0, "local", "10.244.1.66")
	for _, service := range []string{"200.1:443", "200.2:443"} { // of this node, and of another one
		before := refused(a)
		knock(t, client, netip.MustParseAddrPort("10.61."+service))
		linuxtest.WaitFor(t, "drop of what is for "+service, func() bool { return refused(a) >= before+2 })
	}
	// Packets to the other node have the first node's address as their source.
	if got := all.from(""); len(got) > 0 {
		t.Errorf("the peer reached %q", got)
	}
	for _, service := range []string{"200.1:443", "200.2:443"} {
		knock(t, local, netip.MustParseAddrPort("10.244."+service))
	}
	linuxtest.WaitFor(t, "visits of the local pod", func() bool { return len(all.from("")) == 4 })
	// Peers reach the pods of a Service that are on the same node.
	for _, n := range a.Nodes {
		n.NFT("add rule ip proxy2 services ip daddr 10.244.200.3 tcp dport 8080 dnat to 10.244.1.7:8080")
	}
	linuxtest.ExpectFrom(t, client, "10.61.200.3", whoami(a, 0, "backend", "10.244.1.7", "10.60.2.3"))
}

// The rules of pod networks for a node's device depend on the device's addresses. An older agent has left an
// address, and the kernel adds one when the MTU grows.
func TestTheFabricHasNoAddressOfIPv6(t *testing.T) {
	n := newLonelyNode(t)
	n.Run("sh", "-c", "for f in all default; do echo 0 >/proc/sys/net/ipv6/conf/$f/disable_ipv6; done")
	addresses := func() string { return strings.TrimSpace(n.Run("ip", "-6", "addr", "show", "dev", "liqo-fabric")) }
	state := gateway.KernelState{Links: n.state(1).Links}
	n.Script("ip link add liqo-fabric mtu 1450 type vxlan id 4544 dstport 6092 nolearning\nip link set liqo-fabric address " + state.Links[0].MAC.String() + " up")
	if addresses() == "" {
		t.Fatal("the device of before has no address: the test sees nothing")
	}
	check := func(when string) {
		t.Helper()
		n.update(state)
		if got := addresses(); got != "" {
			t.Errorf("%s: got %s", when, got)
		}
	}
	check("a device of before")
	if lines := n.update(state); len(lines) != 0 {
		t.Errorf("again: %q", lines)
	}
	n.Run("ip", "link", "set", "liqo-fabric", "down")
	check("up again")
	n.Run("ip", "link", "set", "liqo-fabric", "mtu", "1000")
	check("with an MTU that had no room for IPv6")
	n.Run("ip", "link", "del", "liqo-fabric")
	check("a new device")
	n.Run("ip", "addr", "add", "fd00::1/64", "dev", "liqo-fabric")
	check("an address that somebody gave it")
}

// hostile removes the rules of a peer's gateway that limit its pods.
func hostile(b *linuxtest.Cluster) {
	b.Gateway.Run("ip", "rule", "add", "pref", "1", "iif", "lo", "to", "10.244.2.0/24", "lookup", "18100")
}

// A node unpacks each packet to an overlay's port, and trusts its content. One datagram could then speak as
// any local pod, or as a pod of another peer.
func TestAPeersDatagramsAreTakenOutOfNothing(t *testing.T) {
	const victimAt, local = "10.244.2.2:7777", "10.244.1.66"
	a, b := linuxtest.NewClusters(t)
	a.Overlay()
	connect(a, b, false)
	node := a.Nodes[1]
	victim := a.Pod(1, "victim", "10.244.2.2")
	inbox := victim.ListenUDP(victimAt)
	sender := a.Pod(0, "sender", local)
	hostile(b)
	node.Script("ip link add vx address 02:00:00:00:00:02 type vxlan id 1 dstport 4789 nolearning\nip link set vx up")
	node.Sysctl("conf/all/rp_filter", "0") // the packets' source is behind another device
	mac := gateway.MAC{2, 0, 0, 0, 0, 2}
	inner := func(text string) []byte { return udp4("10.244.1.9:5353", victimAt, []byte(text)) }
	asGeneve := append([]byte{0, 0, 0x65, 0x58, 0, 0, 1, 0}, vxlan(1, mac, inner("6081"))[8:]...) // RFC 8926: Ethernet, VNI 1
	geneve := &visitors{seen: map[string]bool{}}                                                  // instead of a Geneve device, which not every kernel has
	geneve.open(node, 6081)
	fabric := vxlan(a.NodeState(1).Links[0].VNI, gateway.FabricMAC(netip.MustParseAddr(a.NodeIP(1))), udp4("10.71.9.9:5353", victimAt, []byte("6092")))
	datagrams := []struct {
		port   uint16
		packet []byte
	}{
		{4789, vxlan(1, mac, inner("4789"))},
		{6081, asGeneve},
		{6092, fabric},
		{8472, vxlan(1, mac, inner("8472"))},
		// The pod network's packet contains a packet of the fabric, as if a gateway had sent it.
		{8472, vxlan(1, mac, udp4("10.244.1.5:4444", "10.244.2.0:6092", fabric))},
	}
	arrives := func(within time.Duration) string {
		buffer := make([]byte, 100)
		if err := inbox.SetReadDeadline(time.Now().Add(within)); err != nil {
			t.Fatal(err)
		}
		n, from, err := inbox.ReadFromUDPAddrPort(buffer)
		if err != nil {
			return ""
		}
		return fmt.Sprintf("%q from %s", buffer[:n], from)
	}
	for _, fence := range []string{"nodes", "gateway"} {
		if fence == "nodes" {
			a.Gateway.Run("nft", "flush", "chain", "ip", "liqo-tui", "nodes")
		} else {
			in := a.Inputs(b)
			in.Nodes[1].Addresses = inPods(node)
			a.SyncTo(a.Gateway, a.GatewayKernel, a.State(in))
			node.Run("nft", "flush", "chain", "ip", "liqo-tui", "own-addresses")
		}
		for _, d := range datagrams {
			before := refused(a)
			raw := udp4("10.244.2.3:4444", fmt.Sprintf("10.244.2.0:%d", d.port), d.packet)
			b.Gateway.Do(func() { sendRaw(t, raw, netip.MustParseAddr("10.244.2.0")) })
			linuxtest.WaitFor(t, fmt.Sprintf("drop of a datagram for %d", d.port), func() bool { return refused(a) == before+1 })
		}
		if got := arrives(50 * time.Millisecond); got != "" {
			t.Errorf("%s alone: the pod got %s", fence, got)
		}
		if got := geneve.from(""); len(got) > 0 {
			t.Errorf("%s alone: %q", fence, got)
		}
	}
	// The same packets from a pod of this cluster are unpacked, because only the pod network can prevent
	// this.
	for _, d := range datagrams {
		if d.port == 6092 {
			continue // see TestPodsDoNotSpeakOverTheFabric
		}
		socket := sender.ListenUDP("0.0.0.0:0")
		if _, err := socket.WriteToUDPAddrPort(d.packet, netip.AddrPortFrom(netip.MustParseAddr("10.244.2.0"), d.port)); err != nil {
			t.Fatal(err)
		}
		if d.port == 6081 {
			linuxtest.WaitFor(t, "datagram for 6081", func() bool { return len(geneve.from("from "+local)) > 0 })
			continue
		}
		if arrives(5*time.Second) == "" {
			t.Errorf("of a local pod, the datagram for %d is not taken out: the packets of this test prove nothing", d.port)
		}
	}
}

// Cilium marks a pod's packets with the identity of the pod. It reads the mark when a packet goes to a pod of
// the node.
func TestAPeersPacketsHaveNoMark(t *testing.T) {
	a, b := linuxtest.NewPair(t)
	node := a.Nodes[0] // the gateway's
	node.NFT(`table ip watch {
		counter marked { }
		counter clean { }
		chain identity { type filter hook prerouting priority -2147483648;
			iifname "v-gw-a" meta mark set 0x2210f00
		}
		chain look { type filter hook prerouting priority -450;
			iifname "liqo-fabric" meta mark != 0 counter name marked
			iifname "liqo-fabric" meta mark 0 counter name clean
		}
	}`)
	client := b.Pod(1, "client", "10.244.2.3")
	linuxtest.ExpectFrom(t, client, "10.61.1.7", whoami(a, 0, "near", "10.244.1.7", "10.60.2.3"))
	counted := func(name string) string { return node.Run("nft", "list", "counter", "ip", "watch", name) }
	if got := counted("marked"); !strings.Contains(got, "packets 0 ") {
		t.Errorf("packets of the peer with the gateway's mark: %s", got)
	}
	if got := counted("clean"); strings.Contains(got, "packets 0 ") {
		t.Errorf("no packet was seen: the test sees nothing: %s", got)
	}
}

// NAT changes no packet that belongs to no connection. The source of the packet is an address of the peer's
// cluster, and a gateway's pod here may have the same address.
func TestWhatIsNotTranslatedSpeaksAsNobody(t *testing.T) {
	const as, at = "10.244.2.5", "10.244.2.2"
	a, b := linuxtest.NewPair(t)
	node, victim := a.Nodes[1], a.Pod(1, "victim", at)
	node.Sysctl("conf/all/rp_filter", "0") // the packets' source is behind another device
	hostile(b)
	victim.NFT(`table ip watch { counter as-local { }; counter as-remote { }; chain look { type filter hook prerouting priority -400;
		ip saddr ` + as + ` counter name as-local
		ip saddr 10.60.2.5 counter name as-remote
	}; }`)
	from, to := netip.MustParseAddr(as), netip.MustParseAddr(at)
	packets := map[string][]byte{
		"a lone RST":           segment(as+":4444", at+":8080", 4),
		"SYN and FIN":          segment(as+":4444", at+":8080", 3),
		"a chunk of SCTP":      packet(unix.IPPROTO_SCTP, from, to, make([]byte, 28)),
		"an answer to no echo": packet(unix.IPPROTO_ICMP, from, to, []byte{0, 0, 0xff, 0xfd, 0, 1, 0, 1}),
	}
	refusedBy := map[string]func() uint64{
		"gateway": func() uint64 { return a.Counters()[gateway.DroppedSource].Packets },
		"nodes": func() (n uint64) {
			node.Do(func() {
				counters, err := a.NodeKernels[1].Counters()
				if err != nil {
					t.Error(err)
				}
				n = counters[gateway.DroppedFabric].Packets
			})
			return n
		},
		"none": func() uint64 {
			seen := regexp.MustCompile(`packets (\d+) `).FindStringSubmatch(victim.Run("nft", "list", "counter", "ip", "watch", "as-local"))
			n, err := strconv.ParseUint(seen[1], 10, 64)
			if err != nil {
				t.Error(err)
			}
			return n
		},
	}
	arrived := refusedBy["none"]
	for _, fence := range []string{"gateway", "nodes", "none"} {
		a.SyncNodes()
		node.NFT("add element ip liqo-tui gateways { " + as + " }") // the gateway of another peer has this address
		if fence != "gateway" {
			a.Gateway.Run("nft", "flush", "chain", "ip", "liqo-tui", "leave")
		}
		if fence != "nodes" {
			node.Run("nft", "flush", "chain", "ip", "liqo-tui", "fabric")
		}
		for what, p := range packets {
			before := refusedBy[fence]()
			b.Gateway.Do(func() { sendRaw(t, p, to) })
			linuxtest.WaitFor(t, fence+": drop of "+what+", or its arrival without a fence", func() bool { return refusedBy[fence]() == before+1 })
		}
		if got := arrived(); fence != "none" && got != 0 {
			t.Errorf("%s alone: %d packets came from a local pod's address", fence, got)
		}
	}
	// Translated packets arrive.
	b.Gateway.Do(func() { sendRaw(t, udp4(as+":4444", at+":8080", []byte("x")), to) })
	linuxtest.WaitFor(t, "datagram from the peer's address", func() bool {
		return !strings.Contains(victim.Run("nft", "list", "counter", "ip", "watch", "as-remote"), "packets 0 ")
	})
}

// segment returns a TCP segment with these flags.
func segment(src, dst string, flags byte) []byte {
	p := syn(src, dst, 1000)
	sum := uint32(^binary.BigEndian.Uint16(p[36:])) + uint32(flags) + uint32(^uint16(p[33])) // RFC 1624
	p[33] = flags
	binary.BigEndian.PutUint16(p[36:], ^uint16(sum>>16+sum&0xffff))
	return p
}

// A node answers no echo request of a peer, and accepts no packet that belongs to no connection.
func TestNodesAnswerPeersNothing(t *testing.T) {
	a, b := linuxtest.NewPair(t)
	a.Nodes[1].Script("ip link add cni0 type bridge\nip addr add 10.244.2.1/24 brd + dev cni0\nip link set cni0 up")
	hostile(b)
	a.Gateway.Run("nft", "flush", "chain", "ip", "liqo-tui", "leave") // the chain drops packets that are not translated
	send := func(what, to string, packet []byte) {
		t.Helper()
		before := refused(a)
		b.Gateway.Do(func() { sendRaw(t, packet, netip.MustParseAddr(to)) })
		linuxtest.WaitFor(t, "drop of "+what, func() bool { return refused(a) == before+1 })
	}
	from, to := netip.MustParseAddr("10.244.2.3"), netip.MustParseAddr("10.244.2.1")
	echo := []byte{8, 0, 0, 0, 0, 1, 0, 1}
	binary.BigEndian.PutUint16(echo[2:], checksum(echo))
	send("an echo", to.String(), packet(unix.IPPROTO_ICMP, from, to, echo))
	// The packet belongs to no connection, and its flags are invalid. So conntrack calls it invalid, and does
	// not translate its source.
	send("a packet of no connection", to.String(), segment("10.244.2.3:4444", "10.244.2.1:10250", 0x3f))
	for _, to := range []string{"10.244.2.255:9", "10.244.2.1:9"} {
		send("a datagram to "+to, netip.MustParseAddrPort(to).Addr().String(), udp4("10.244.2.3:4444", to, []byte("all of you")))
	}
	// A gateway's error about a node's packet arrives.
	in := a.Inputs(b)
	in.Peers[0].PathMTU = 1200
	a.SyncTo(a.Gateway, a.GatewayKernel, a.State(in))
	for i, n := range a.Nodes {
		socket := n.ListenUDP("0.0.0.0:0")
		linuxtest.DontFragment(t, socket)
		to := netip.MustParseAddrPort("10.60.2.3:7777")
		linuxtest.WaitFor(t, fmt.Sprintf("message to node %d that it is too long", i+1), func() bool {
			_, err := socket.WriteToUDPAddrPort(make([]byte, 1250), to)
			return errors.Is(err, unix.EMSGSIZE)
		})
	}
}

// Each peer's packets have their own counter, on any path.
func TestNodesCountWhatTheyRefuseOfEachPeer(t *testing.T) {
	a, b := linuxtest.NewPair(t)
	node, kernel := a.Nodes[1], a.NodeKernels[1]
	node.Script("ip link add cni0 type bridge\nip addr add 10.244.2.1/24 brd + dev cni0\nip link set cni0 up")
	node.Sysctl("conf/all/rp_filter", "0")
	node.Sysctl("conf/eth0/rp_filter", "0")
	in := gateway.NodeInputs{
		NodeIP: netip.MustParseAddr(a.NodeIP(1)), UnderlayMTU: a.Underlay, PodCIDRs: linuxtest.Local().Pod,
		Gateways: []gateway.Gateway{
			{Name: "gw-a", PodIP: netip.MustParseAddr(a.GatewayIP), MTU: a.MTU, RemoteCIDRs: slices.Concat(a.Remapped.Pod, a.Remapped.External), NodeIPs: []netip.Addr{netip.MustParseAddr(a.NodeIP(0))}},
			{Name: "gw-c", PodIP: netip.MustParseAddr("10.244.1.99"), MTU: a.MTU, RemoteCIDRs: linuxtest.Prefixes("10.99.0.0/16"), NodeIPs: []netip.Addr{netip.MustParseAddr(a.NodeIP(0))}},
		},
	}
	sync := func() {
		t.Helper()
		s, err := gateway.ComputeNode(in)
		if err != nil {
			t.Fatal(err)
		}
		a.SyncTo(node, kernel, s)
		if again := a.SyncTo(node, kernel, s); len(again) > 0 {
			t.Errorf("what was set is not what is found: %q", again)
		}
	}
	counted := func(first string) (packets uint64) {
		t.Helper()
		node.Do(func() {
			all, err := kernel.Refused()
			if err != nil {
				t.Fatal(err)
			}
			packets = all[netip.MustParseAddr(first)]
		})
		return packets
	}
	sync()
	client := b.Pod(1, "client", "10.244.2.3")
	a.Gateway.Run("nft", "flush", "chain", "ip", "liqo-tui", "nodes")
	knock(t, client, netip.MustParseAddrPort("10.61.2.1:10250"))
	linuxtest.WaitFor(t, "count of what the peer sends", func() bool { return counted("10.60.0.0") >= 2 })
	if got := counted("10.99.0.0"); got != 0 {
		t.Errorf("got %d packets of the peer that sent nothing", got)
	}
	// The packet comes through the pod network, from a node that does not know the owner of the address.
	a.Nodes[0].Script("ip route replace 10.244.2.0/24 via " + a.NodeIP(1) + "\nnft delete table ip cni") // otherwise the packet would be masqueraded
	a.Nodes[0].Do(func() {
		sendRaw(t, udp4("10.99.0.7:4444", "10.244.2.1:10250", []byte("x")), netip.MustParseAddr("10.244.2.1"))
	})
	linuxtest.WaitFor(t, "count of the other one's", func() bool { return counted("10.99.0.0") == 1 })
	// A change of another peer's ranges does not change this counter.
	in.Gateways[0].RemoteCIDRs = a.Remapped.Pod
	before := counted("10.60.0.0")
	sync()
	if got := counted("10.60.0.0"); got < before || counted("10.99.0.0") != 1 {
		t.Errorf("after a change: got %d and %d", got, counted("10.99.0.0"))
	}
}
