//go:build linux

package linux_test

import (
	"errors"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux"
	"github.com/liqo-tui/liqo-tui/gateway/linux/linuxtest"
	"github.com/liqo-tui/liqo-tui/gateway/linux/netns"
)

// Pods can have addresses in the range of another node: Calico lends such addresses, and AWS has only such
// addresses. Strict nodes accept a peer's packet only from the fabric. The pod network accepts only packets
// of the gateway's pod that have its own address.
func TestPacketsReachPodsWhereTheyAre(t *testing.T) {
	a, b := linuxtest.NewPair(t)
	a.Nodes[0].NFT(`table ip strict {
		counter foreign { }
		chain pods { type filter hook prerouting priority raw; policy accept;
			iifname "v-gw-a" ip saddr != 10.244.1.5 counter name foreign drop
		}
	}`)
	borrowed := a.Pod(1, "borrowed", "10.244.1.77")
	a.Nodes[0].Run("ip", "route", "add", "10.244.1.77/32", "via", a.NodeIP(1))
	unknown := a.Pod(0, "unknown", "10.244.9.9") // no node announces this address
	a.Nodes[1].Run("ip", "route", "add", "10.244.9.9/32", "via", a.NodeIP(0))
	in := a.Inputs(b)
	in.Nodes[1].Pods = append(in.Nodes[1].Pods, netip.MustParsePrefix("10.244.1.77/32"))
	a.SyncTo(a.Gateway, a.GatewayKernel, a.State(in))
	borrowed.Whoami(":8080")
	unknown.Whoami(":8080")
	client := b.Pod(1, "client", "10.244.2.2")
	linuxtest.ExpectFrom(t, client, "10.61.1.77", "borrowed sees 10.60.2.2")
	linuxtest.ExpectFrom(t, client, "10.61.9.9", "unknown sees 10.60.2.2")
	if got := a.Nodes[0].Run("nft", "list", "counter", "ip", "strict", "foreign"); !strings.Contains(got, "packets 0 ") {
		t.Errorf("the gateway's pod sent peers' packets by its own device:\n%s", got)
	}
}

// Hosts outside of the cluster can reach the port, but their packets are dropped.
func TestStrangersDoNotSpeakOverTheFabric(t *testing.T) {
	stranger := netns.New(t, "wan")
	stranger.Sysctl("ip_forward", "1")
	a := linuxtest.NewCluster(t, stranger, "a", gateway.Server, "198.51.100", "10.244.1.5",
		gateway.CIDRs{Pod: linuxtest.Prefixes("10.60.0.0/16"), External: linuxtest.Prefixes("10.71.0.0/16")})
	a.SyncAll(&linuxtest.Cluster{Name: "b", Key: wgtypes.Key{0: 16, 31: 64}})
	victim := a.Pod(1, "victim", "10.244.2.2")
	inbox := victim.ListenUDP("10.244.2.2:7777")
	stranger.Run("ip", "route", "add", a.GatewayIP+"/32", "via", a.NodeIP(0))
	a.Nodes[0].Run("nft", "delete", "table", "ip", "cni") // otherwise its packets would be masqueraded
	forge := func(to, from, dest string) {
		t.Helper()
		underlay := netip.MustParseAddr(to)
		socket := stranger.ListenUDP("198.51.100.1:0")
		defer socket.Close()
		frame := vxlan(a.NodeState(1).Links[0].VNI, gateway.FabricMAC(underlay), udp4(from, dest, []byte("forged")))
		if _, err := socket.WriteToUDPAddrPort(frame, netip.AddrPortFrom(underlay, gateway.FabricPort)); err != nil {
			t.Fatal(err)
		}
	}
	onNode := func() uint64 {
		var count uint64
		a.Nodes[1].Do(func() {
			counters, err := a.NodeKernels[1].Counters()
			if err != nil {
				t.Error(err)
			}
			count = counters[gateway.DroppedFabric].Packets
		})
		return count
	}
	onGateway := func() uint64 { return a.Counters()[gateway.DroppedFabric].Packets }
	const peers, pods = "10.60.2.2:5555", "10.244.2.2:7777"
	before := onNode()
	forge(a.NodeIP(1), peers, pods)
	linuxtest.WaitFor(t, "drop on the node", func() bool { return onNode() == before+1 })
	before = onGateway()
	forge(a.GatewayIP, pods, peers)
	linuxtest.WaitFor(t, "drop on the gateway", func() bool { return onGateway() == before+1 })
	// Without the rule, the packet arrives, and it is the first packet that arrives.
	a.Nodes[1].Run("nft", "flush", "chain", "ip", "liqo-tui", "arrive")
	forge(a.NodeIP(1), peers, pods)
	if err := inbox.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 100)
	if _, from, err := inbox.ReadFromUDPAddrPort(buffer); err != nil || from.String() != peers {
		t.Errorf("without the rule: got a packet from %v, %v: the packets of this test prove nothing", from, err)
	}
	if err := inbox.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, from, err := inbox.ReadFromUDPAddrPort(buffer); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got another packet from %v, %v: what was dropped has arrived", from, err)
	}
}

// The address of a former gateway's pod may belong to another pod, which listens on the port of gateways.
func TestNodesSendNothingToAGatewayThatIsGone(t *testing.T) {
	a, _ := linuxtest.NewPair(t)
	in := gateway.NodeInputs{
		NodeIP: netip.MustParseAddr(a.NodeIP(1)), UnderlayMTU: 1500, PodCIDRs: linuxtest.Local().Pod,
		Gateways: []gateway.Gateway{{
			Name: "gw-a", PodIP: netip.MustParseAddr("10.244.1.66"), MTU: a.MTU, RemoteCIDRs: a.Remapped.Pod,
			NodeIPs: []netip.Addr{netip.MustParseAddr(a.NodeIP(0))},
		}},
	}
	sync := func() {
		t.Helper()
		s, err := gateway.ComputeNode(in)
		if err != nil {
			t.Fatal(err)
		}
		a.SyncTo(a.Nodes[1], a.NodeKernels[1], s)
	}
	heir := a.Pod(0, "heir", "10.244.1.66")
	a.Nodes[0].NFT("add element ip liqo-tui gateways { 10.244.1.66 }") // as on all other nodes
	inbox := heir.ListenUDP("10.244.1.66:6092")
	// The watch table sees packets that leave the cluster by the default route.
	a.Nodes[1].NFT(`table ip watch {
		counter out { }
		chain forward { type filter hook postrouting priority 0; policy accept;
			ip daddr 10.60.0.0/16 oifname "eth0" counter name out
		}
	}`)
	client := a.Pod(1, "client", "10.244.2.2")
	send := func() {
		t.Helper()
		socket := client.ListenUDP("10.244.2.2:0")
		defer socket.Close()
		if _, err := socket.WriteToUDPAddrPort([]byte("secret"), netip.MustParseAddrPort("10.60.2.2:7777")); err != nil {
			t.Fatal(err)
		}
	}
	arrives := func(within time.Duration) bool {
		t.Helper()
		if err := inbox.SetReadDeadline(time.Now().Add(within)); err != nil {
			t.Fatal(err)
		}
		_, _, err := inbox.ReadFromUDPAddrPort(make([]byte, 2000))
		return err == nil
	}
	sync()
	if send(); !arrives(5 * time.Second) {
		t.Fatal("nothing arrives while the pod is there: the test sees nothing")
	}
	in.Gateways[0].Gone = true
	sync()
	if send(); arrives(100 * time.Millisecond) {
		t.Error("the pod that has the address now got a peer's packet")
	}
	if got := a.Nodes[1].Run("nft", "list", "counter", "ip", "watch", "out"); !strings.Contains(got, "packets 0 ") {
		t.Errorf("it left the cluster instead:\n%s", got)
	}
	in.Gateways[0].Gone = false
	sync()
	if send(); !arrives(5 * time.Second) {
		t.Error("nothing arrives with the pod back")
	}
}

// A cluster has 100 nodes with 100 single addresses each. If one pod comes or goes, the kernel gets one
// message.
func TestOnePodOfTenThousandIsOneRouteMessage(t *testing.T) {
	n := newLonelyNode(t) // acts as a gateway's pod
	in := gateway.Inputs{
		PodIP: netip.MustParseAddr("198.51.100.2"), NodeIP: netip.MustParseAddr("192.168.0.1"), UnderlayMTU: 1500,
		Local: gateway.CIDRs{Pod: linuxtest.Prefixes("10.0.0.0/8"), External: linuxtest.Prefixes("172.20.0.0/16")},
	}
	pod := func(node, i int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), byte(node), 7}), 32)
	}
	for node := range 100 {
		next := gateway.Node{Name: "node" + string(rune('a'+node)), IP: netip.AddrFrom4([4]byte{192, 168, 0, byte(node + 1)})}
		for i := range 100 {
			next.Pods = append(next.Pods, pod(node, i))
		}
		in.Nodes = append(in.Nodes, next)
	}
	compute := func() gateway.KernelState {
		t.Helper()
		s, err := gateway.Compute(in)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	began := time.Now()
	n.update(compute())
	t.Logf("10,000 routes set up in %s", time.Since(began).Round(time.Millisecond))
	messages := n.routeMessages(func() {
		in.Nodes[40].Pods = append(in.Nodes[40].Pods, pod(40, 200))
		began = time.Now()
		lines := n.update(compute())
		t.Logf("one more in %s", time.Since(began).Round(time.Millisecond))
		if len(lines) != 1 {
			t.Errorf("it says %q, want one line", lines)
		}
	})
	if messages != 1 {
		t.Errorf("one pod more: %d messages about routes, want 1", messages)
	}
	messages = n.routeMessages(func() {
		in.Nodes[40].Pods = in.Nodes[40].Pods[:100]
		in.Nodes[70].Pods = append(in.Nodes[70].Pods, pod(40, 200))
		n.update(compute())
	})
	if messages != 1 {
		t.Errorf("its address is on another node: %d messages about routes, want 1", messages)
	}
	began = time.Now()
	n.expect(compute())
	t.Logf("all compared in %s", time.Since(began).Round(time.Millisecond))
}

// kube-proxy may keep all Services' addresses on a device of the node. The kernel does not send from them. It
// sends from a secondary address if a route names the address.
func TestANodesAddressesAreThoseThatItSendsFrom(t *testing.T) {
	n := netns.New(t, "node")
	lan := netns.New(t, "lan")
	netns.Veth(n, "eth0", lan, "eth0")
	n.Script(`ip addr add 198.51.100.2/24 dev eth0
ip addr add 198.51.100.9/24 dev eth0
ip link add cni0 type bridge
ip addr add 10.244.1.1/24 dev cni0
ip link add copy type bridge
ip addr add 10.244.1.1/32 dev copy
ip link add v-pod type bridge
ip addr add 169.254.1.1/32 dev v-pod`)
	// Not every kernel has such devices.
	if _, err := n.Try("ip", "link", "add", "kube-ipvs0", "type", "dummy"); err == nil {
		n.Run("ip", "addr", "add", "10.96.0.1/32", "dev", "kube-ipvs0")
	}
	var got []netip.Addr
	var err error
	n.Do(func() { got, err = linux.Addresses() })
	if want := []netip.Addr{netip.MustParseAddr("10.244.1.1"), netip.MustParseAddr("198.51.100.2"), netip.MustParseAddr("198.51.100.9")}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

// routeMessages counts the kernel's messages about routes while do runs.
func (n *lonelyNode) routeMessages(do func()) int {
	n.t.Helper()
	var socket *nl.NetlinkSocket
	var err error
	n.Do(func() { socket, err = nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_IPV4_ROUTE) })
	if err != nil {
		n.t.Fatal(err)
	}
	defer socket.Close()
	do()
	// The message about the last route ends the count.
	n.Run("ip", "route", "add", "203.0.113.0/24", "via", "198.51.100.1")
	defer n.Run("ip", "route", "del", "203.0.113.0/24")
	count := 0
	for {
		messages, _, err := socket.Receive()
		if err != nil {
			n.t.Fatal(err)
		}
		for _, m := range messages {
			// struct rtmsg contains the old, short number of the table.
			if m.Header.Type == unix.RTM_NEWROUTE && m.Data[4] == unix.RT_TABLE_MAIN {
				return count
			}
			if m.Header.Type == unix.RTM_NEWROUTE || m.Header.Type == unix.RTM_DELROUTE {
				count++
			}
		}
	}
}

// The node has lost its address. New packets to a peer must not leave unencrypted by the default route.
func TestWhatIsForAPeerIsDroppedWhereItsRouteCantBeSet(t *testing.T) {
	n := newLonelyNode(t)
	n.update(n.state(1))
	n.Script("ip addr del 198.51.100.2/24 dev eth0\nip addr add 198.51.100.7/24 dev eth0\nip route replace default via 198.51.100.1")
	var err error
	n.Do(func() { _, err = n.kernel.Update(n.state(1, 2)) })
	if err == nil || !strings.Contains(err.Error(), "11.2.0.0/16") {
		t.Errorf("got %v, want an error that names the route", err)
	}
	if out, err := n.Try("ip", "route", "get", "11.2.0.1"); err == nil {
		t.Errorf("what is for the second peer goes %s", out)
	}
	var has, had bool
	n.Do(func() {
		has, _ = linux.HasAddress(netip.MustParseAddr("198.51.100.7"))
		had, _ = linux.HasAddress(netip.MustParseAddr("198.51.100.2"))
	})
	if !has || had {
		t.Errorf("the new address is there: %v, the old one: %v", has, had)
	}
	n.Script("ip addr add 198.51.100.2/24 dev eth0")
	n.update(n.state(1, 2))
	if out := n.Run("ip", "route", "get", "11.2.0.1"); !strings.Contains(out, "dev liqo-fabric") {
		t.Errorf("with its address back, what is for the second peer goes %s", out)
	}
}
