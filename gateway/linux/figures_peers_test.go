//go:build linux

package linux_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux"
	"github.com/liqo-tui/liqo-tui/gateway/linux/linuxtest"
	"github.com/liqo-tui/liqo-tui/gateway/linux/netns"
)

// network returns the n-th /22 after an address.
func network(first byte, n int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(first)<<24+uint32(n)<<10))), 22)
}

// bareNode is a node of a cluster with many peers. Only nodes have state of all peers, because each peer has
// its own gateway pod.
type bareNode struct {
	*netns.Namespace

	kernel *linux.Kernel
	peers  int
	change int // the number of changes of one peer
}

func newBareNode(b *testing.B, peers int) *bareNode {
	b.Helper()
	n := &bareNode{Namespace: netns.New(b, fmt.Sprintf("node%d", peers)), peers: peers}
	var err error
	if n.kernel, err = linux.New(linux.Options{}); err != nil {
		b.Fatal(err)
	}
	other := netns.New(b, "lan")
	netns.Veth(n.Namespace, "eth0", other, "eth0")
	n.Script("ip addr add 198.51.100.2/24 dev eth0\nip route add default via 198.51.100.1")
	other.Script("ip addr add 198.51.100.1/24 dev eth0")
	return n
}

func (n *bareNode) inputs() gateway.NodeInputs {
	in := gateway.NodeInputs{NodeIP: netip.MustParseAddr("198.51.100.2"), UnderlayMTU: 1500, PodCIDRs: linuxtest.Local().Pod}
	for i := range n.peers {
		in.Gateways = append(in.Gateways, gateway.Gateway{
			Name: fmt.Sprintf("gw-%d", i), PodIP: netip.AddrFrom4([4]byte{10, 244, byte(i >> 8), byte(i)}), MTU: linuxtest.TunnelMTU,
			RemoteCIDRs: []netip.Prefix{network(11, i), network(12, i)},
		})
	}
	in.Gateways[0].RemoteCIDRs[1] = network(13, n.change)
	return in
}

func (n *bareNode) state(b *testing.B) gateway.KernelState {
	b.Helper()
	s, err := gateway.ComputeNode(n.inputs())
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func (n *bareNode) sync(b *testing.B, s gateway.KernelState) cost {
	b.Helper()
	return costOf(b, n.Namespace, func() error {
		_, err := n.kernel.Sync(s)
		return err
	})
}

// changeOne brings a node to the state in which one of its peers has changed.
func (n *bareNode) changeOne(b *testing.B) cost {
	b.Helper()
	n.change++
	s := n.state(b)
	return costOf(b, n.Namespace, func() error {
		_, err := n.kernel.Update(s)
		return err
	})
}

func BenchmarkFigureOneChangedPeer(b *testing.B) {
	many, few := newBareNode(b, 1000), newBareNode(b, 10)
	many.sync(b, many.state(b))
	few.sync(b, few.state(b))
	a, c := inTurn(func() cost { return many.changeOne(b) }, func() cost { return few.changeOne(b) })
	cpu, wall := func(c cost) float64 { return milliseconds(c.cpu) }, func(c cost) float64 { return milliseconds(c.wall) }
	row(b, "one changed peer among 1000 against one among 10, CPU", "≤ 2", ratios(each(a, cpu), each(c, cpu)))
	row(b, "one changed peer among 1000 against one among 10, time", "≤ 2", ratios(each(a, wall), each(c, wall)))
	row(b, "  among 1000, ms of CPU", "", each(a, cpu))
	row(b, "  among 10, ms of CPU", "", each(c, cpu))
	var computed, compared []cost
	in := many.inputs()
	for range rounds {
		computed = append(computed, costOf(b, many.Namespace, func() error {
			_, err := gateway.ComputeNode(in)
			return err
		}))
		compared = append(compared, many.sync(b, many.state(b)))
	}
	row(b, "  what comes before: the state of a node with 1000 peers, ms of CPU", "", each(computed, cpu))
	row(b, "  what follows: a comparison of all of it with the kernel, ms of CPU", "", each(compared, cpu))
}

func BenchmarkFigureInstallPeers(b *testing.B) {
	n := newBareNode(b, 1000)
	state := n.state(b)
	var tables, all []cost
	for range rounds {
		tables = append(tables, n.sync(b, gateway.KernelState{Firewall: state.Firewall}))
		n.sync(b, gateway.KernelState{})
		all = append(all, n.sync(b, state))
		n.sync(b, gateway.KernelState{})
	}
	wall := func(c cost) float64 { return milliseconds(c.wall) }
	row(b, "installing the maps of 1000 peers, ms", "≤ 20", each(tables, wall))
	row(b, "  with routes, neighbours and forwarding entries, ms", "", each(all, wall))
}

// newFlowBound limits the growth of a cost with the number of peers. One rule for each of 1000 peers, in one
// chain, would cost nine times as much.
const newFlowBound = "≤ 1.15"

// sender is a pod whose packets begin flows. Most of their cost is conntrack, and the chains that only the
// first packet of a flow passes.
type sender struct {
	pod       *netns.Namespace
	forgetful []*netns.Namespace // the namespaces whose flows are deleted between runs
	to        netip.Addr
}

// newFlows sends one packet to each of many ports, and returns the nanoseconds
// of CPU that each took until it was dropped at the far end.
func (s sender) newFlows(b *testing.B) float64 {
	b.Helper()
	const flows = 5_000
	for _, n := range s.forgetful {
		var err error
		n.Do(func() { err = netlink.ConntrackTableFlush(netlink.ConntrackTable) })
		if err != nil {
			b.Fatal(err)
		}
	}
	c := costOf(b, s.pod, func() error {
		socket, err := net.ListenUDP("udp4", nil)
		if err != nil {
			return err
		}
		defer socket.Close()
		payload := []byte("new")
		for i := range flows {
			if _, err := socket.WriteToUDPAddrPort(payload, netip.AddrPortFrom(s.to, uint16(1024+i))); err != nil {
				return err
			}
		}
		return nil
	})
	return float64(c.cpu.Nanoseconds()) / flows
}

func compareNewFlows(b *testing.B, what, wanted string, many, few sender) {
	b.Helper()
	a, c := inTurn(func() float64 { return many.newFlows(b) }, func() float64 { return few.newFlows(b) })
	row(b, "a new flow "+what+", CPU", wanted, ratios(a, c))
	row(b, "  with many, ns", "", a)
	row(b, "  with two, ns", "", c)
}

func BenchmarkFigureNewFlowsOfNode(b *testing.B) {
	of := func(peers int) sender {
		n := newBareNode(b, peers)
		n.sync(b, n.state(b))
		// The pod sends, and the packets end in the overlay.
		pod := netns.New(b, "pod")
		netns.Veth(n.Namespace, "pod0", pod, "eth0")
		n.Script("ip addr add 169.254.1.1/32 dev pod0\nip route add 10.244.9.9/32 dev pod0")
		n.Sysctl("ip_forward", "1")
		pod.Script("ip addr add 10.244.9.9/32 dev eth0\nip route add 169.254.1.1 dev eth0\nip route add default via 169.254.1.1")
		// The last network but one, because a search does not begin there.
		return sender{pod, []*netns.Namespace{n.Namespace}, network(11, peers-1).Addr().Next()}
	}
	compareNewFlows(b, "on a node of 1000 peers against 2", newFlowBound, of(1000), of(2))
}

// BenchmarkFigureNewFlowsOfGateway puts the maps of a thousand peers into one gateway. A gateway has one
// peer, so these are the maps of this peer. The benchmark also measures as many peers as the code allows,
// each with its own rules, without a limit, because nothing makes such a gateway.
func BenchmarkFigureNewFlowsOfGateway(b *testing.B) {
	of := func(peers, networks int) sender {
		c, peer := linuxtest.NewClusters(b)
		in := c.Inputs(peer)
		sample := in.Peers[0]
		in.Peers = nil
		var batch string
		for p := range peers {
			one := sample
			one.Index, one.ListenPort, one.ClusterID = p, uint16(linuxtest.WireGuardPort+p), fmt.Sprintf("peer-%d", p)
			one.Real, one.Remapped = gateway.CIDRs{}, gateway.CIDRs{}
			for i := range networks {
				one.Real.Pod = append(one.Real.Pod, network(10, i))
				one.Remapped.Pod = append(one.Remapped.Pod, network(11, p*networks+i))
			}
			in.Peers = append(in.Peers, one)
			batch += fmt.Sprintf("ip link add %s type bridge\nip link set %[1]s up\n", onDeviceName(p))
		}
		c.Gateway.Script(batch) // a bridge without ports drops all packets
		c.SyncTo(c.Gateway, c.GatewayKernel, onDevice(c.State(in), oldDevice))
		last := network(11, peers*networks-1)
		c.Remapped = gateway.CIDRs{Pod: []netip.Prefix{last}}
		c.SyncNodes()
		return sender{c.Pod(1, "pod"+c.Name, "10.244.2.2"), []*netns.Namespace{c.Nodes[1], c.Nodes[0], c.Gateway}, last.Addr().Next()}
	}
	compareNewFlows(b, "through a gateway, 1000 networks of a peer against 2", newFlowBound, of(1, 1000), of(1, 2))
	compareNewFlows(b, "through a gateway of 64 peers against 2", "", of(64, 16), of(2, 16))
}

func onDeviceName(index int) string {
	if index == 0 {
		return oldDevice
	}
	return fmt.Sprintf("%s%d", oldDevice, index)
}
