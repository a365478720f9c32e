//go:build linux

package linux_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux"
	"github.com/liqo-tui/liqo-tui/gateway/linux/linuxtest"
	"github.com/liqo-tui/liqo-tui/gateway/linux/netns"
)

// A pod can send a packet of the fabric to a gateway, and so reach a peer with another pod's address. The
// answer goes to the other pod.
func TestAPodHearsNoAnswersToWhatItSaysAsAnother(t *testing.T) {
	a, b := linuxtest.NewPair(t)
	linuxtest.Echo(b.Pod(1, "echo", "10.244.2.2"))
	const echo = "10.60.2.2:7777" // as a sees it
	victim, forger := a.Pod(1, "victim", "10.244.2.2"), a.Pod(1, "forger", "10.244.2.66")
	inbox, own := victim.ListenUDP("10.244.2.2:5555"), forger.ListenUDP("0.0.0.0:5555")
	vni, underlay := a.NodeState(1).Links[0].VNI, netip.MustParseAddr(a.GatewayIP)
	next := func(c *net.UDPConn, within time.Duration) string {
		t.Helper()
		if err := c.SetReadDeadline(time.Now().Add(within)); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 100)
		n, from, err := c.ReadFromUDPAddrPort(b)
		if err != nil {
			return ""
		}
		return from.String() + " " + string(b[:n])
	}
	// All packets that reach the forger's device count, whatever their address is.
	var wire int
	var err error
	forger.Do(func() {
		ip := int(binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_IP)))
		wire, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, ip)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(wire) })
	heard := func() (all []byte) {
		packet := make([]byte, 2000)
		for {
			n, from, err := unix.Recvfrom(wire, packet, 0)
			if err != nil {
				return all
			}
			if at, ok := from.(*unix.SockaddrLinklayer); ok && at.Pkttype != unix.PACKET_OUTGOING {
				all = append(all, packet[:n]...)
			}
		}
	}
	say := func(as, payload string) {
		t.Helper()
		frame := vxlan(vni, gateway.FabricMAC(underlay), udp4(as, echo, []byte(payload)))
		if _, err := own.WriteToUDPAddrPort(frame, netip.AddrPortFrom(underlay, gateway.FabricPort)); err != nil {
			t.Fatal(err)
		}
	}
	say("10.244.2.2:5555", "forged")
	if got := next(inbox, 5*time.Second); got != echo+" forged" {
		t.Fatalf("the other pod got %q, want the answer to what was said in its name", got)
	}
	// The first answer that the forger gets is the answer to its own packet.
	say("10.244.2.66:5555", "own")
	if got := next(own, 5*time.Second); got != echo+" own" {
		t.Errorf("got %q, want the answer to its own packet", got)
	}
	if all := heard(); bytes.Contains(all, []byte("forged")) || !bytes.Contains(all, []byte("own")) {
		t.Errorf("to the forger came %q, want the answer to its own packet alone", all)
	}
}

// The fabric's packets do not prove who sent them. A pod that sends such packets could speak as any pod of
// another cluster.
func TestPodsDoNotSpeakOverTheFabric(t *testing.T) {
	a, _ := linuxtest.NewPair(t)
	victim := a.Pod(1, "victim", "10.244.2.2")
	inbox := victim.ListenUDP("10.244.2.2:7777")
	near, far := a.Pod(1, "near", "10.244.2.66"), a.Pod(0, "far", "10.244.1.66")
	vni := a.NodeState(1).Links[0].VNI
	forge := func(from *netns.Namespace, to, src string) {
		t.Helper()
		underlay := netip.MustParseAddr(to)
		socket := from.ListenUDP("0.0.0.0:0")
		defer socket.Close()
		frame := vxlan(vni, gateway.FabricMAC(underlay), udp4(src, "10.244.2.2:7777", []byte("forged")))
		if _, err := socket.WriteToUDPAddrPort(frame, netip.AddrPortFrom(underlay, gateway.FabricPort)); err != nil {
			t.Fatal(err)
		}
	}
	onNode := func(i int) uint64 {
		var count uint64
		a.Nodes[i].Do(func() {
			counters, err := a.NodeKernels[i].Counters()
			if err != nil {
				t.Error(err)
			}
			count = counters[gateway.DroppedFabric].Packets
		})
		return count
	}
	onGateway := func(int) uint64 { return a.Counters()[gateway.DroppedFabric].Packets }
	const remote = "10.60.2.2:5555"
	for _, c := range []struct {
		what    string
		from    *netns.Namespace
		to, src string
		counter func(int) uint64
		node    int // the node that drops the packet
	}{
		{"a pod to its own node", near, a.NodeIP(1), remote, onNode, 1},
		{"a pod to another node", far, a.NodeIP(1), remote, onNode, 0},
		{"a pod to the gateway, to have it passed on to a pod", near, a.GatewayIP, "192.0.2.7:5555", onGateway, 0},
	} {
		before := c.counter(c.node)
		forge(c.from, c.to, c.src)
		linuxtest.WaitFor(t, "drop of "+c.what, func() bool { return c.counter(c.node) == before+1 })
	}
	// A program on the node itself could send any packet, but not with any source address.
	before := onNode(1)
	forge(a.Nodes[0], a.NodeIP(1), "10.244.1.66:5555")
	linuxtest.WaitFor(t, "drop of what no gateway sends", func() bool { return onNode(1) == before+1 })

	// Without the rules, such a packet arrives, and it is the first packet that arrives.
	for _, n := range a.Nodes {
		n.Run("nft", "flush", "chain", "ip", "liqo-tui", "fabric")
		n.Run("nft", "flush", "chain", "ip", "liqo-tui", "leave")
	}
	forge(far, a.NodeIP(1), remote)
	if err := inbox.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	n, from, err := inbox.ReadFromUDPAddrPort(make([]byte, 100))
	if err != nil || n != len("forged") || from.String() != remote {
		t.Errorf("without the rules: got %d bytes from %v, %v: the packets of this test prove nothing", n, from, err)
	}
	if err := inbox.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, from, err := inbox.ReadFromUDPAddrPort(make([]byte, 100)); err == nil {
		t.Errorf("got another %d bytes from %v, want what was dropped to be gone", n, from)
	}
}

// Pod networks masquerade packets, and a simple pod network masquerades all packets that leave their node.
// Such a packet from a gateway's node would reach another node with an address of gateways' packets.
func TestAMasqueradeMakesNobodyAGateway(t *testing.T) {
	const ofBridge, guestAt = "10.244.2.1", "172.17.0.2"
	a, b := linuxtest.NewPair(t)
	near, victim := a.Nodes[0], a.Pod(1, "victim", "10.244.2.2")
	inbox := victim.ListenUDP("10.244.2.2:7777")
	pod, guest := a.Pod(0, "pod", "10.244.1.66"), a.Pod(0, "guest", guestAt) // guest is not known to Kubernetes
	a.Nodes[1].Run("ip", "addr", "add", ofBridge+"/32", "dev", "lo")
	near.NFT(`add rule ip cni masq ip saddr { 10.244.1.0/24, ` + guestAt + ` } ip daddr != 10.244.1.0/24 masquerade`)
	near.NFT(`table ip proxy2 { chain services { type nat hook prerouting priority dstnat
		ip daddr 10.96.0.9 udp dport 53 dnat to ` + a.NodeIP(1) + fmt.Sprintf(":%d", gateway.FabricPort) + `
	}; }`)
	frame := vxlan(a.NodeState(1).Links[0].VNI, gateway.FabricMAC(netip.MustParseAddr(a.NodeIP(1))), udp4("10.60.2.2:5555", "10.244.2.2:7777", []byte("forged")))
	cases := []struct {
		what string
		from *netns.Namespace
		to   netip.AddrPort
	}{
		{"a pod, to a node's address in the pods' range", pod, netip.AddrPortFrom(netip.MustParseAddr(ofBridge), gateway.FabricPort)},
		{"a pod, by a Service", pod, netip.MustParseAddrPort("10.96.0.9:53")},
		{"a container beside Kubernetes", guest, netip.AddrPortFrom(netip.MustParseAddr(a.NodeIP(1)), gateway.FabricPort)},
	}
	send := func(from *netns.Namespace, to netip.AddrPort) {
		t.Helper()
		socket := from.ListenUDP("0.0.0.0:0")
		defer socket.Close()
		if _, err := socket.WriteToUDPAddrPort(frame, to); err != nil {
			t.Fatal(err)
		}
	}
	dropped := func() (n uint64) {
		near.Do(func() {
			counters, err := a.NodeKernels[0].Counters()
			if err != nil {
				t.Error(err)
			}
			n = counters[gateway.DroppedFabric].Packets
		})
		return n
	}
	for _, c := range cases {
		before := dropped()
		send(c.from, c.to)
		linuxtest.WaitFor(t, "drop of what comes from "+c.what, func() bool { return dropped() == before+1 })
	}
	// Packets of a gateway, which are also masqueraded, pass.
	linuxtest.ExpectFrom(t, b.Pod(1, "client", "10.244.2.3"), "10.61.2.7", whoami(a, 1, "other", "10.244.2.7", "10.60.2.3"))

	near.Run("nft", "flush", "chain", "ip", "liqo-tui", "leave")
	for _, c := range cases {
		send(c.from, c.to)
		if err := inbox.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if n, from, err := inbox.ReadFromUDPAddrPort(make([]byte, 100)); err != nil || from.String() != "10.60.2.2:5555" {
			t.Errorf("without the rule, from %s: got %d bytes from %v, %v: the packets of this test prove nothing", c.what, n, from, err)
		}
	}
	if err := inbox.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, from, err := inbox.ReadFromUDPAddrPort(make([]byte, 100)); err == nil {
		t.Errorf("got another %d bytes from %v, want what was dropped to be gone", n, from)
	}
}

// If the pod network is an overlay, its device would get each packet of the fabric alone, and not many
// packets as one.
func TestOtherNodesReachTheGatewayByWayOfItsNode(t *testing.T) {
	a, b := linuxtest.NewClusters(t)
	a.Overlay()
	b.Overlay()
	a.SyncAll(b)
	b.SyncAll(a)
	b.AwaitHandshake(0)
	podA, podB := a.Pod(1, "podA", "10.244.2.2"), b.Pod(1, "podB", "10.244.2.2")
	podA.Whoami(":8080")
	podB.Whoami(":8080")
	overlaid := func(c *linuxtest.Cluster) string {
		return c.Nodes[1].Run("ip", "-s", "link", "show", "dev", linuxtest.OverlayDevice)
	}
	exchange := func() {
		t.Helper()
		linuxtest.ExpectFrom(t, podA, "10.60.2.2", "podB sees 10.61.2.2")
		linuxtest.ExpectFrom(t, podB, "10.61.2.2", "podA sees 10.60.2.2")
	}
	idle := overlaid(a)
	exchange()
	if overlaid(a) == idle {
		t.Fatal("nothing went over the overlay: the test sees nothing")
	}
	for _, c := range []*linuxtest.Cluster{a, b} {
		c.ByNode = true
		c.SyncNodes()
	}
	before := [2]string{overlaid(a), overlaid(b)}
	exchange()
	if after := [2]string{overlaid(a), overlaid(b)}; after != before {
		t.Errorf("packets over the overlays: got %v, want still %v", after, before)
	}

	// A complete checksum covers the destination address of the packet. Packets between namespaces of one
	// kernel usually have no complete checksum yet.
	peer := podB.ListenUDP("0.0.0.0:7777")
	checked := udp4(a.NodeIP(1)+":40000", fmt.Sprintf("%s:%d", a.NodeIP(0), gateway.FabricPort),
		vxlan(a.NodeState(1).Links[0].VNI, gateway.FabricMAC(netip.MustParseAddr(a.GatewayIP)), udp4("10.244.2.2:5555", "10.60.2.2:7777", []byte("complete"))))
	addChecksum(checked)
	a.Nodes[1].Do(func() { sendRaw(t, checked, netip.MustParseAddr(a.NodeIP(0))) })
	if err := peer.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, from, err := peer.ReadFromUDPAddrPort(make([]byte, 200)); err != nil || n != len("complete") {
		t.Errorf("a packet with a complete checksum: got %d bytes from %v, %v", n, from, err)
	}

	// A packet whose destination is no gateway is not forwarded, from any sender.
	victim := a.Pod(0, "victim", "10.244.1.66")
	inbox := victim.ListenUDP(fmt.Sprintf("0.0.0.0:%d", gateway.FabricPort))
	dropped := func() uint64 {
		var counters map[string]linux.Counter
		var err error
		a.Nodes[0].Do(func() { counters, err = a.NodeKernels[0].Counters() })
		if err != nil {
			t.Fatal(err)
		}
		return counters[gateway.DroppedFabric].Packets
	}
	count := dropped()
	frame := vxlan(a.NodeState(1).Links[0].VNI, gateway.FabricMAC(netip.MustParseAddr("10.244.1.66")), udp4("10.244.2.2:5555", "10.60.2.2:7777", []byte("forged")))
	socket := a.Nodes[1].ListenUDP("0.0.0.0:0")
	if _, err := socket.WriteToUDPAddrPort(frame, netip.AddrPortFrom(netip.MustParseAddr(a.NodeIP(0)), gateway.FabricPort)); err != nil {
		t.Fatal(err)
	}
	linuxtest.WaitFor(t, "drop of what is for no gateway", func() bool { return dropped() == count+1 })
	if err := inbox.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, from, err := inbox.ReadFromUDPAddrPort(make([]byte, 200)); err == nil {
		t.Errorf("a pod that is no gateway got %d bytes from %v", n, from)
	}
}

// addChecksum writes the checksum of a UDP packet.
func addChecksum(packet []byte) {
	udp := packet[20:]
	pseudo := append(slices.Clone(packet[12:20]), 0, unix.IPPROTO_UDP, udp[4], udp[5])
	binary.BigEndian.PutUint16(udp[6:], checksum(append(pseudo, udp...)))
}

// sendRaw sends a packet without a change.
func sendRaw(t *testing.T, packet []byte, to netip.Addr) {
	t.Helper()
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(socket) }()
	if err := unix.Sendto(socket, packet, 0, &unix.SockaddrInet4{Addr: to.As4()}); err != nil {
		t.Fatal(err)
	}
}

// vxlan returns a packet in a VXLAN packet (RFC 7348).
func vxlan(vni int, to gateway.MAC, packet []byte) []byte {
	b := []byte{0: 1 << 3, 7: 0} // the VNI is valid
	binary.BigEndian.PutUint32(b[4:], uint32(vni)<<8)
	b = append(b, to[:]...)
	b = append(b, 2, 0, 0, 0, 0, 1) // from a local MAC
	b = binary.BigEndian.AppendUint16(b, unix.ETH_P_IP)
	return append(b, packet...)
}

// If addresses are not remapped, a gateway's error has the gateway's own address, and the node's route to
// that address uses another device. Also a node that accepts packets only from the device of its own route
// has to accept the error.
func TestStrictNodesTakeGatewaysErrors(t *testing.T) {
	const path = 1200
	a, b := linuxtest.NewPair(t)
	pod := a.Pod(1, "pod", "10.244.2.2")
	in := a.Inputs(b)
	in.Peers[0].Real, in.Peers[0].PathMTU = a.Remapped, path
	a.SyncTo(a.Gateway, a.GatewayKernel, a.State(in))
	to := netip.MustParseAddrPort("10.60.2.2:7777")
	for _, filter := range []string{"1", "2"} {
		t.Run("rp_filter="+filter, func(t *testing.T) {
			a.Nodes[1].Sysctl("conf/all/rp_filter", filter)
			socket := pod.ListenUDP("10.244.2.2:0")
			defer socket.Close()
			linuxtest.DontFragment(t, socket)
			// conntrack knows a flow after its first packet.
			if _, err := socket.WriteToUDPAddrPort([]byte("small"), to); err != nil {
				t.Fatal(err)
			}
			linuxtest.WaitFor(t, "message that it is too long", func() bool {
				_, err := socket.WriteToUDPAddrPort(make([]byte, path), to)
				return errors.Is(err, unix.EMSGSIZE)
			})
			pod.Run("ip", "route", "flush", "cache")
			a.Nodes[1].Run("ip", "route", "flush", "cache")
		})
	}
	if got := a.Nodes[1].Run("cat", "/proc/sys/net/ipv4/conf/all/rp_filter"); strings.TrimSpace(got) != "2" {
		t.Errorf("the node's own filter is now %s", got)
	}
}

// A pod network may enable forwarding for its own devices alone. A peer's packets come by our device.
func TestNodesThatForwardNothingElseForwardTheFabric(t *testing.T) {
	a, b := linuxtest.NewPair(t)
	podA, podB := a.Pod(1, "podA", "10.244.2.2"), b.Pod(1, "podB", "10.244.2.2")
	for i, own := range []string{"v-gw-a", "v-podA"} {
		a.Nodes[i].Sysctl("ip_forward", "0") // for all devices
		a.Nodes[i].Sysctl("conf/eth0/forwarding", "1")
		a.Nodes[i].Sysctl("conf/"+own+"/forwarding", "1")
	}
	a.SyncNodes()
	podA.Whoami(":8080")
	podB.Whoami(":8080")
	linuxtest.ExpectFrom(t, podA, "10.60.2.2", "podB sees 10.61.2.2")
	linuxtest.ExpectFrom(t, podB, "10.61.2.2", "podA sees 10.60.2.2")
	if got := a.Nodes[1].Run("cat", "/proc/sys/net/ipv4/ip_forward"); strings.TrimSpace(got) != "0" {
		t.Errorf("the node's own setting is now %s", got)
	}
}

// A node on the path to the pod of another cluster reports that a packet is too long for the pod's device.
// The report has the node's own address, which the sender's cluster does not know.
func TestPodsHearErrorsOfTheOtherClustersNodes(t *testing.T) {
	const narrow = 1000
	a, b := linuxtest.NewPair(t)
	podA, podB := a.Pod(1, "podA", "10.244.2.2"), b.Pod(1, "podB", "10.244.2.2")
	b.Nodes[1].Run("ip", "link", "set", "v-podB", "mtu", strconv.Itoa(narrow))
	inbox := podB.ListenUDP("0.0.0.0:7777")
	socket := podA.ListenUDP("10.244.2.2:0")
	linuxtest.DontFragment(t, socket)
	to := netip.MustParseAddrPort("10.60.2.2:7777")
	const headers = 28
	linuxtest.WaitFor(t, "message that it is too long", func() bool {
		_, err := socket.WriteToUDPAddrPort(make([]byte, narrow-headers+1), to)
		return errors.Is(err, unix.EMSGSIZE)
	})
	if _, err := socket.WriteToUDPAddrPort(make([]byte, narrow-headers), to); err != nil {
		t.Errorf("the longest that fits: %v", err)
	}
	if err := inbox.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, _, err := inbox.ReadFromUDPAddrPort(make([]byte, 2000)); err != nil || n != narrow-headers {
		t.Errorf("got %d bytes, %v, want %d", n, err, narrow-headers)
	}
	if dropped := b.Counters()[gateway.DroppedOutput].Packets; dropped != 0 {
		t.Errorf("%d packets to the peer were dropped", dropped)
	}
}
