//go:build linux

package linux

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/liqo-tui/liqo-tui/gateway"
)

// cluster is a cluster of two nodes in one machine. A pod of node n has an
// address in 10.244.n.0/24; the gateway pod is on node 1. Every cluster has
// the same pod CIDR, nodes route to each other's pods and masquerade what
// leaves the pod network, as common CNIs do.
type cluster struct {
	t        testing.TB
	name     string
	role     gateway.Role
	lan      string // first three octets of the nodes' network
	key      wgtypes.Key
	nodes    [2]*namespace
	gateway  *namespace
	gwIP     string
	remapped gateway.CIDRs // how it sees the other cluster

	gwKernel    *Kernel
	nodeKernels [2]*Kernel
}

const (
	wireguardPort = 51840
	tunnelMTU     = 1340
)

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

// local are the CIDRs of each cluster: the same, which is the hard case.
func local() gateway.CIDRs {
	return gateway.CIDRs{Pod: prefixes("10.244.0.0/16"), External: prefixes("10.70.0.0/16")}
}

func newCluster(t testing.TB, wan *namespace, name string, role gateway.Role, lan, gwIP string, remapped gateway.CIDRs) *cluster {
	t.Helper()
	key, err := wgtypes.GeneratePrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, name: name, role: role, lan: lan, key: key, gwIP: gwIP, remapped: remapped}
	wan.script("ip link add lan-" + name + " type bridge\nip link set lan-" + name + " up\nip addr add " + lan + ".1/24 dev lan-" + name)
	for i := range c.nodes {
		n := newNamespace(t, fmt.Sprintf("node-%s%d", name, i+1))
		port := fmt.Sprintf("port-%s%d", name, i+1)
		veth(wan, port, n, "eth0")
		wan.run("ip", "link", "set", port, "master", "lan-"+name)
		n.script("ip addr add " + c.nodeIP(i) + "/24 dev eth0\nip route add default via " + lan + ".1")
		n.sysctl("ip_forward", "1")
		// What distributions set: loose would hide asymmetric paths.
		n.sysctl("conf/all/rp_filter", "1")
		other := 1 - i
		n.run("ip", "route", "add", fmt.Sprintf("10.244.%d.0/24", other+1), "via", c.nodeIP(other))
		n.nft(`table ip cni {
			chain masq { type nat hook postrouting priority srcnat; policy accept;
				ip saddr 10.244.0.0/16 ip daddr != 10.244.0.0/16 masquerade
				ip saddr != 10.244.0.0/16 ip daddr 10.244.0.0/16 masquerade
			}
		}`)
		c.nodes[i] = n
	}
	// NodePort of the gateway.
	c.nodes[0].nft(`table ip proxy {
		chain nodeport { type nat hook prerouting priority dstnat; policy accept;
			fib daddr type local udp dport 51840-51841 dnat to ` + gwIP + `
		}
	}`)
	c.gateway = c.pod(0, "gw-"+name, gwIP)
	c.gateway.do(func() { err = PrepareNamespace() })
	if err != nil {
		t.Fatal(err)
	}
	c.gwKernel = c.kernel(c.gateway)
	for i, n := range c.nodes {
		c.nodeKernels[i] = c.kernel(n)
	}
	return c
}

func (c *cluster) kernel(n *namespace) *Kernel {
	c.t.Helper()
	k, err := New(Options{})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { n.do(k.Close) })
	return k
}

func (c *cluster) nodeIP(i int) string { return fmt.Sprintf("%s.%d", c.lan, i+2) }

// pod starts a pod: a namespace behind a node.
func (c *cluster) pod(node int, name, ip string) *namespace {
	c.t.Helper()
	p := newNamespace(c.t, name)
	host := "v-" + name
	veth(c.nodes[node], host, p, "eth0")
	c.nodes[node].script("ip addr add 169.254.1.1/32 dev " + host + "\nip route add " + ip + "/32 dev " + host)
	p.script("ip addr add " + ip + "/32 dev eth0\nip route add 169.254.1.1 dev eth0\nip route add default via 169.254.1.1")
	return p
}

func (c *cluster) inputs(peer *cluster) gateway.Inputs {
	in := gateway.Inputs{PodIP: netip.MustParseAddr(c.gwIP), UnderlayMTU: 1500, Local: local()}
	for i := range c.nodes {
		in.Nodes = append(in.Nodes, gateway.Node{
			Name: c.nodes[i].name, IP: netip.MustParseAddr(c.nodeIP(i)), PodCIDRs: prefixes(fmt.Sprintf("10.244.%d.0/24", i+1)),
		})
	}
	p := gateway.Peer{
		ClusterID: peer.name, Role: c.role, Real: local(), Remapped: c.remapped,
		PrivateKey: gateway.PrivateKey(c.key), PublicKey: peer.key.PublicKey(), MTU: tunnelMTU,
	}
	if c.role == gateway.Server {
		p.ListenPort = wireguardPort
	} else {
		p.Endpoint = netip.AddrPortFrom(netip.MustParseAddr(peer.nodeIP(0)), wireguardPort)
	}
	in.Peers = []gateway.Peer{p}
	return in
}

func (c *cluster) state(in gateway.Inputs) gateway.State {
	c.t.Helper()
	s, err := gateway.Compute(in)
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

func (c *cluster) nodeState(i int) gateway.State {
	c.t.Helper()
	s, err := gateway.ComputeNode(gateway.NodeInputs{
		NodeIP: netip.MustParseAddr(c.nodeIP(i)), UnderlayMTU: 1500, PodCIDRs: local().Pod,
		Gateways: []gateway.Gateway{{
			Name: "gw-" + c.name, PodIP: netip.MustParseAddr(c.gwIP), MTU: tunnelMTU,
			RemoteCIDRs: append(append([]netip.Prefix(nil), c.remapped.Pod...), c.remapped.External...),
		}},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

// syncTo makes one namespace match and returns what differed.
func (c *cluster) syncTo(n *namespace, k *Kernel, s gateway.State) []string {
	c.t.Helper()
	var lines []string
	var err error
	n.do(func() { lines, err = k.Sync(s) })
	if err != nil {
		c.t.Fatalf("%s: sync: %v", n.name, err)
	}
	return lines
}

func (c *cluster) syncAll(peer *cluster) {
	c.t.Helper()
	c.syncTo(c.gateway, c.gwKernel, c.state(c.inputs(peer)))
	for i, n := range c.nodes {
		c.syncTo(n, c.nodeKernels[i], c.nodeState(i))
	}
}

func (c *cluster) peerStats(index int) (PeerStats, error) {
	var s PeerStats
	var err error
	c.gateway.do(func() { s, err = c.gwKernel.Peer(gateway.TunnelName(index)) })
	return s, err
}

func (c *cluster) awaitHandshake(index int) {
	c.t.Helper()
	waitFor(c.t, "handshake of "+c.name, func() bool {
		s, err := c.peerStats(index)
		return err == nil && !s.Handshake.IsZero()
	})
}

func (c *cluster) counters() map[string]Counter {
	c.t.Helper()
	var m map[string]Counter
	var err error
	c.gateway.do(func() { m, err = c.gwKernel.Counters() })
	if err != nil {
		c.t.Fatal(err)
	}
	return m
}

// newPair returns two connected clusters. A, the server, sees B's pods as
// 10.60.0.0/16; B, the client, sees A's as 10.61.0.0/16.
func newPair(t testing.TB) (a, b *cluster) {
	t.Helper()
	wan := newNamespace(t, "wan")
	wan.sysctl("ip_forward", "1")
	a = newCluster(t, wan, "a", gateway.Server, "198.51.100", "10.244.1.5",
		gateway.CIDRs{Pod: prefixes("10.60.0.0/16"), External: prefixes("10.71.0.0/16")})
	b = newCluster(t, wan, "b", gateway.Client, "203.0.113", "10.244.1.6",
		gateway.CIDRs{Pod: prefixes("10.61.0.0/16"), External: prefixes("10.72.0.0/16")})
	a.syncAll(b)
	b.syncAll(a)
	b.awaitHandshake(0)
	return a, b
}

// waitFor polls, because the kernel does not tell.
func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no %s after 10 s", what)
		}
	}
}

// expectFrom asks a server from a namespace and checks who the server thinks
// asked, and that big answers (which need the segment size to be right) arrive.
func expectFrom(t *testing.T, n *namespace, to, want string) {
	t.Helper()
	const size = 200_000
	got, rest, err := n.get("", to+":8080", size)
	if err != nil {
		t.Errorf("%s to %s: %v", n.name, to, err)
		return
	}
	if got != want || rest != size {
		t.Errorf("%s to %s: got %q and %d bytes, want %q and %d", n.name, to, got, rest, want, size)
	}
}

// pingThrough sends a datagram from gateway to gateway inside the tunnel, and
// checks that it arrives under the sender's tunnel address.
func pingThrough(t *testing.T, from, to *cluster) {
	t.Helper()
	own := netip.AddrPortFrom(gateway.TunnelAddr(from.role, 0).Addr(), gateway.PingPort)
	peer := netip.AddrPortFrom(gateway.TunnelAddr(to.role, 0).Addr(), gateway.PingPort)
	sender, receiver := from.gateway.listenUDP(own.String()), to.gateway.listenUDP(peer.String())
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
		t.Errorf("%s to %s: got %d bytes from %v, %v, want 4 from %v", from.name, to.name, n, source, err, own)
	}
}
