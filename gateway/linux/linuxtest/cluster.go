//go:build linux

// Package linuxtest provides whole clusters for tests of the data plane: gateways, nodes and pods in network
// namespaces of one machine.
package linuxtest

import (
	"fmt"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux"
	"github.com/liqo-tui/liqo-tui/gateway/linux/netns"
)

// Cluster is a cluster of two nodes in one machine. A pod of node n has an
// address in 10.244.n.0/24; the gateway pod is on node 1. Every cluster has the
// same pod CIDR. Nodes route to each other's pods, and masquerade packets that
// leave the pod network, as common CNIs do.
type Cluster struct {
	t         testing.TB
	WAN       *netns.Namespace // the network between the two clusters
	lan       string           // first three octets of the nodes' network
	Name      string
	Role      gateway.Role
	Key       wgtypes.Key
	Nodes     [2]*netns.Namespace
	Gateway   *netns.Namespace
	GatewayIP string
	Remapped  gateway.CIDRs // the ranges under which it sees the other cluster
	MTU       int           // of its tunnels and of its nodes' routes
	// Underlay is the MTU of its network, of its nodes and of its pods.
	Underlay int
	// ByNode makes nodes send to the gateway's pod through the pod's node.
	ByNode bool
	// Given are the hosts that the peer may reach, as nodes know them.
	Given []netip.Addr

	GatewayKernel *linux.Kernel
	NodeKernels   [2]*linux.Kernel
}

// Parameters of every tunnel.
const (
	WireGuardPort = 51840
	TunnelMTU     = 1340
)

// Prefixes parses CIDRs, and panics if one is invalid.
func Prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

// Local returns the CIDRs of both clusters. They are equal, which is the hard case.
func Local() gateway.CIDRs {
	return gateway.CIDRs{Pod: Prefixes("10.244.0.0/16"), External: Prefixes("10.70.0.0/16")}
}

// NewCluster makes a cluster whose nodes have addresses lan.2 and lan.3 and
// whose gateway pod runs no gateway yet.
func NewCluster(t testing.TB, wan *netns.Namespace, name string, role gateway.Role, lan, gwIP string, remapped gateway.CIDRs) *Cluster {
	t.Helper()
	key, err := wgtypes.GenerateKey() // not clamped, like the operator's keys
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{t: t, WAN: wan, Name: name, Role: role, lan: lan, Key: key, GatewayIP: gwIP, Remapped: remapped, MTU: TunnelMTU, Underlay: ethernet}
	wan.Script("ip link add lan-" + name + " type bridge\nip link set lan-" + name + " up\nip addr add " + lan + ".1/24 dev lan-" + name)
	for i := range c.Nodes {
		n := netns.New(t, fmt.Sprintf("node-%s%d", name, i+1))
		port := fmt.Sprintf("port-%s%d", name, i+1)
		netns.Veth(wan, port, n, "eth0")
		wan.Run("ip", "link", "set", port, "master", "lan-"+name)
		n.Script("ip addr add " + c.NodeIP(i) + "/24 dev eth0\nip route add default via " + lan + ".1")
		n.Sysctl("ip_forward", "1")
		// Distributions set this. The loose mode would hide asymmetric paths.
		n.Sysctl("conf/all/rp_filter", "1")
		other := 1 - i
		n.Run("ip", "route", "add", fmt.Sprintf("10.244.%d.0/24", other+1), "via", c.NodeIP(other))
		n.NFT(`table ip cni {
			chain masq { type nat hook postrouting priority srcnat; policy accept;
				ip saddr 10.244.0.0/16 ip daddr != 10.244.0.0/16 masquerade
				ip saddr != 10.244.0.0/16 ip daddr 10.244.0.0/16 masquerade
			}
		}`)
		c.Nodes[i] = n
	}
	// NodePort of the gateway.
	c.Nodes[0].NFT(`table ip proxy {
		chain nodeport { type nat hook prerouting priority dstnat; policy accept;
			fib daddr type local udp dport 51840-51841 dnat to ` + gwIP + `
		}
	}`)
	c.Gateway = c.Pod(0, "gw-"+name, gwIP)
	// A pod inherits these values from its node, and has no right to change them.
	c.Gateway.Sysctl("ip_forward", "0")
	c.Gateway.Sysctl("conf/all/rp_filter", "1")
	c.Gateway.Sysctl("conf/all/accept_local", "0")
	c.GatewayKernel = c.Kernel(c.Gateway)
	for i, n := range c.Nodes {
		c.NodeKernels[i] = c.Kernel(n)
	}
	return c
}

const ethernet = 1500

// Widen changes the MTU of the cluster's network.
func (c *Cluster) Widen(mtu int) {
	c.Underlay = mtu
	for i, n := range c.Nodes {
		c.widen(c.WAN, fmt.Sprintf("port-%s%d", c.Name, i+1))
		c.widen(n, "eth0")
	}
	c.widen(c.WAN, "lan-"+c.Name)
	c.widen(c.Nodes[0], "v-gw-"+c.Name)
	c.widen(c.Gateway, "eth0")
}

func (c *Cluster) widen(n *netns.Namespace, device string) {
	if c.Underlay != ethernet {
		n.Run("ip", "link", "set", device, "mtu", strconv.Itoa(c.Underlay))
	}
}

// OverlayDevice is the device of the pod network that Overlay makes.
const OverlayDevice = "overlay"

// Overlay makes the path between the nodes' pods a VXLAN, like flannel's.
func (c *Cluster) Overlay() {
	mac := func(i int) string { return fmt.Sprintf("02:00:00:00:00:0%d", i+1) }
	c.Underlay = ethernet - 50
	for i, n := range c.Nodes {
		other := 1 - i
		n.Script(fmt.Sprintf(`ip link add %[1]s address %[2]s mtu %[3]d type vxlan id 1 dstport 8472 local %[4]s nolearning
			ip addr add 10.244.%[5]d.0/32 dev %[1]s
			ip link set %[1]s up
			bridge fdb add %[6]s dev %[1]s dst %[7]s
			ip neigh add 10.244.%[8]d.0 lladdr %[6]s dev %[1]s nud permanent
			ip route replace 10.244.%[8]d.0/24 via 10.244.%[8]d.0 dev %[1]s onlink`,
			OverlayDevice, mac(i), c.Underlay, c.NodeIP(i), i+1, mac(other), c.NodeIP(other), other+1))
	}
	c.widen(c.Nodes[0], "v-gw-"+c.Name)
	c.widen(c.Gateway, "eth0")
}

// Kernel returns a driver for a namespace of the cluster.
func (c *Cluster) Kernel(n *netns.Namespace) *linux.Kernel {
	c.t.Helper()
	k, err := linux.New(linux.Options{})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { n.Do(k.Close) })
	return k
}

// NodeIP is the address of a node.
func (c *Cluster) NodeIP(i int) string { return fmt.Sprintf("%s.%d", c.lan, i+2) }

// Pod starts a pod: a namespace behind a node.
func (c *Cluster) Pod(node int, name, ip string) *netns.Namespace {
	c.t.Helper()
	p := netns.New(c.t, name)
	host := "v-" + name
	netns.Veth(c.Nodes[node], host, p, "eth0")
	c.widen(c.Nodes[node], host)
	c.widen(p, "eth0")
	c.Nodes[node].Script("ip addr add 169.254.1.1/32 dev " + host + "\nip route add " + ip + "/32 dev " + host)
	p.Script("ip addr add " + ip + "/32 dev eth0\nip route add 169.254.1.1 dev eth0\nip route add default via 169.254.1.1")
	return p
}

// Inputs returns the inputs of the gateway.
func (c *Cluster) Inputs(peer *Cluster) gateway.Inputs {
	in := gateway.Inputs{PodIP: netip.MustParseAddr(c.GatewayIP), NodeIP: netip.MustParseAddr(c.NodeIP(0)), UnderlayMTU: c.Underlay, Local: Local()}
	for i := range c.Nodes {
		in.Nodes = append(in.Nodes, gateway.Node{
			Name: c.Nodes[i].Name, IP: netip.MustParseAddr(c.NodeIP(i)), Pods: Prefixes(fmt.Sprintf("10.244.%d.0/24", i+1)),
		})
	}
	p := gateway.Peer{
		ClusterID: peer.Name, Role: c.Role, Real: Local(), Remapped: c.Remapped,
		PrivateKey: gateway.PrivateKey(c.Key), PublicKey: peer.Key.PublicKey(), MTU: c.MTU,
	}
	if c.Role == gateway.Server {
		p.ListenPort = WireGuardPort
	} else {
		p.Endpoint = netip.AddrPortFrom(netip.MustParseAddr(peer.NodeIP(0)), WireGuardPort)
	}
	in.Peers = []gateway.Peer{p}
	return in
}

// State computes the state of the gateway.
func (c *Cluster) State(in gateway.Inputs) gateway.KernelState {
	c.t.Helper()
	s, err := gateway.Compute(in)
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

// NodeState computes the state of a node.
func (c *Cluster) NodeState(i int) gateway.KernelState {
	c.t.Helper()
	var host netip.Addr
	if c.ByNode && i != 0 {
		host = netip.MustParseAddr(c.NodeIP(0))
	}
	s, err := gateway.ComputeNode(gateway.NodeInputs{
		NodeIP: netip.MustParseAddr(c.NodeIP(i)), UnderlayMTU: c.Underlay, PodCIDRs: Local().Pod,
		Gateways: []gateway.Gateway{{
			Name: "gw-" + c.Name, PodIP: netip.MustParseAddr(c.GatewayIP), MTU: c.MTU,
			RemoteCIDRs: append(append([]netip.Prefix(nil), c.Remapped.Pod...), c.Remapped.External...),
			NodeIPs:     []netip.Addr{netip.MustParseAddr(c.NodeIP(0))},
			HostIP:      host,
			Hosts:       c.Given,
		}},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

// SyncTo makes one namespace match s, and returns the differences.
func (c *Cluster) SyncTo(n *netns.Namespace, k *linux.Kernel, s gateway.KernelState) []string {
	c.t.Helper()
	var lines []string
	var err error
	n.Do(func() { lines, err = k.Sync(s) })
	if err != nil {
		c.t.Fatalf("%s: sync: %v", n.Name, err)
	}
	return lines
}

// SyncAll brings the gateway and the nodes to their states.
func (c *Cluster) SyncAll(peer *Cluster) {
	c.t.Helper()
	c.SyncTo(c.Gateway, c.GatewayKernel, c.State(c.Inputs(peer)))
	c.SyncNodes()
}

// SyncNodes brings the nodes to their states.
func (c *Cluster) SyncNodes() {
	c.t.Helper()
	for i, n := range c.Nodes {
		c.SyncTo(n, c.NodeKernels[i], c.NodeState(i))
	}
}

// PeerStats returns the gateway's facts about a peer.
func (c *Cluster) PeerStats(index int) (linux.PeerStats, error) {
	var s linux.PeerStats
	var err error
	c.Gateway.Do(func() { s, err = c.GatewayKernel.Peer(gateway.TunnelName(index)) })
	return s, err
}

// AwaitHandshake waits for a handshake of the gateway.
func (c *Cluster) AwaitHandshake(index int) {
	c.t.Helper()
	WaitFor(c.t, "handshake of "+c.Name, func() bool {
		s, err := c.PeerStats(index)
		return err == nil && !s.Handshake.IsZero()
	})
}

// Redial repeats the handshake until it is answered, as a client's agent does. A server does not accept two
// handshakes within 20 ms, and accepts none while it starts. A new tunnel's own first handshake gets its time: if
// a redial meets the answer to an earlier initiation, wireguard-go can mix the two, and the tunnel then carries
// packets in one direction only. A client's agent sees the silence, and dials again.
func (c *Cluster) Redial() {
	c.t.Helper()
	var asked time.Time
	if s, err := c.PeerStats(0); err == nil && s.Handshake.IsZero() {
		asked = time.Now()
	}
	WaitFor(c.t, "handshake of "+c.Name, func() bool {
		if time.Since(asked) > 500*time.Millisecond {
			asked = time.Now()
			var err error
			c.Gateway.Do(func() { err = c.GatewayKernel.Redial(gateway.TunnelName(0), netip.AddrPort{}) })
			if err != nil {
				c.t.Fatal(err)
			}
		}
		s, err := c.PeerStats(0)
		return err == nil && !s.Handshake.IsZero() // Redial has cleared the time of the earlier handshake
	})
}

// Counters returns the firewall counters of the gateway.
func (c *Cluster) Counters() map[string]linux.Counter {
	c.t.Helper()
	var m map[string]linux.Counter
	var err error
	c.Gateway.Do(func() { m, err = c.GatewayKernel.Counters() })
	if err != nil {
		c.t.Fatal(err)
	}
	return m
}

// NewPair returns two connected clusters; see NewClusters.
func NewPair(t testing.TB) (a, b *Cluster) {
	t.Helper()
	a, b = NewClusters(t)
	a.SyncAll(b)
	b.SyncAll(a)
	b.AwaitHandshake(0)
	return a, b
}

// NewClusters returns two clusters without gateways. A, the server, sees B's
// pods as 10.60.0.0/16; B, the client, sees A's as 10.61.0.0/16.
func NewClusters(t testing.TB) (a, b *Cluster) {
	t.Helper()
	wan := netns.New(t, "wan")
	wan.Sysctl("ip_forward", "1")
	a = NewCluster(t, wan, "a", gateway.Server, "198.51.100", "10.244.1.5",
		gateway.CIDRs{Pod: Prefixes("10.60.0.0/16"), External: Prefixes("10.71.0.0/16")})
	b = NewCluster(t, wan, "b", gateway.Client, "203.0.113", "10.244.1.6",
		gateway.CIDRs{Pod: Prefixes("10.61.0.0/16"), External: Prefixes("10.72.0.0/16")})
	return a, b
}

// patience is long, because WireGuard repeats a lost handshake after 5 s, and machines are busy.
const patience = 30 * time.Second

// WaitFor polls until ok returns true, because the kernel sends no event.
func WaitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no %s after %s", what, patience)
		}
	}
}

// ExpectFrom sends a request to a server from a namespace. It checks the client's address as the server sees
// it, and that large answers arrive, which need the right segment size.
func ExpectFrom(t *testing.T, n *netns.Namespace, to, want string) {
	t.Helper()
	const size = 200_000
	got, rest, err := n.Get("", to+":8080", size)
	if err != nil {
		t.Errorf("%s to %s: %v", n.Name, to, err)
		return
	}
	if got != want || rest != size {
		t.Errorf("%s to %s: got %q and %d bytes, want %q and %d", n.Name, to, got, rest, want, size)
	}
}

// PingThrough sends a datagram from gateway to gateway inside the tunnel, and
// checks that it arrives under the sender's tunnel address.
func PingThrough(t *testing.T, from, to *Cluster) {
	t.Helper()
	own := netip.AddrPortFrom(gateway.TunnelAddr(from.Role, 0).Addr(), gateway.PingPort)
	peer := netip.AddrPortFrom(gateway.TunnelAddr(to.Role, 0).Addr(), gateway.PingPort)
	sender, receiver := from.Gateway.ListenUDP(own.String()), to.Gateway.ListenUDP(peer.String())
	defer sender.Close()
	defer receiver.Close()
	if _, err := sender.WriteToUDPAddrPort([]byte("ping"), peer); err != nil {
		t.Fatal(err)
	}
	if err := receiver.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	n, source, err := receiver.ReadFromUDPAddrPort(make([]byte, 10))
	if err != nil || n != 4 || netip.AddrPortFrom(source.Addr().Unmap(), source.Port()) != own {
		t.Errorf("%s to %s: got %d bytes from %v, %v, want 4 from %v", from.Name, to.Name, n, source, err, own)
	}
}
