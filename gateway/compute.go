package gateway

import (
	"cmp"
	"math"
	"net/netip"
	"slices"
	"time"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
)

// keepalive is below the 30 s after which common NATs forget a UDP binding.
const keepalive = 15 * time.Second

// lastResort is the metric of a route that loses against every other. While a device's
// routes are missing, marked packets must not fall through to local pods that have the
// same addresses.
const lastResort = math.MaxInt32

// Counters of packets that the gateway refused.
const (
	// DroppedSource: packets from the tunnel whose source is not the peer's, or could not be
	// translated.
	DroppedSource = "dropped-source"
	// DroppedDestination: packets from the tunnel to an address that is not ours.
	DroppedDestination = "dropped-destination"
	// DroppedInput: packets to the gateway itself that are no pings, and pings that did not
	// come through the tunnel.
	DroppedInput = "dropped-input"
	// DroppedOutput: packets to the peer with a source that the peer must not see.
	DroppedOutput = "dropped-output"
	// DroppedFabric: packets that a sender outside the fabric, for example a pod, sent over
	// the fabric; and packets to or from addresses that the fabric does not serve.
	DroppedFabric = "dropped-fabric"
	// DroppedNodes: packets from a peer to an address of a node.
	DroppedNodes = "dropped-nodes"
	// Arrived counts all packets at a server's port, whoever sent them. If packets arrive
	// and none makes a handshake, the keys don't match.
	Arrived = "arrived"
	// PodsSent counts packets to the peer in flows that were answered.
	PodsSent = "pods-sent"
	// PodsReceived counts packets from the peer in such flows.
	PodsReceived = "pods-received"
)

// SetRefused is the set of peers' ranges. Each element counts the packets from its range that
// the node refused.
const SetRefused = "refused"

// Names within the table.
const (
	setTunnels     = "tunnels"
	setPeers       = "peer-sources"
	setSeen        = "peer-sources-here"
	setOwn         = "own-addresses" // as the peers know them
	setEnds        = "tunnel-addresses"
	setPeerEnds    = "peer-tunnel-addresses"
	setClosed      = "closed"
	setGiven       = "given"
	mapToReal      = "to-real"
	mapToHosts     = "to-hosts"
	mapToRemapped  = "to-remapped"
	mapFromPeers   = "from-peers"
	mapToPeers     = "to-peers"
	setPortsHere   = "wireguard-ports"
	setPortsThere  = "peers-wireguard-ports"
	setPods        = "local-pods"
	setRemotes     = "remotes"
	setGateways    = "gateways"
	setSenders     = "senders"
	priorityFirst  = math.MinInt32
	priorityRaw    = -300
	afterConntrack = -199
	priorityMangle = -150
	priorityDNAT   = -100
	priorityFilter = 0
	prioritySNAT   = 100
	// priorityLast sees packets as they will be on the wire, after SNAT.
	priorityLast = 300
)

// Compute returns the state of a gateway pod. It refuses inputs that no state can satisfy,
// see errAddress and the errors beside it. It leaves out the same nodes and addresses of
// nodes as [Inputs.Fitting].
func Compute(in Inputs) (KernelState, error) {
	if err := in.check(); err != nil {
		return KernelState{}, err
	}
	in, _ = in.Fitting()
	peers := slices.SortedFunc(slices.Values(in.Peers), func(a, b Peer) int { return a.Index - b.Index })
	s := KernelState{
		Links: []Link{fabricLink(in.PodIP, in.UnderlayMTU)},
		// The kernel's local table comes after our rules: a remote pod may have the address
		// of this pod, which is normal if both clusters have the same CIDR.
		Rules: []Rule{{Preference: LocalPref, Table: KernelLocal}, {Preference: ErrorPref, Mark: errorMark, Table: LocalTable}},
		// Nodes ask by ARP whether they reach this pod. With 3, the kernel also answers for
		// addresses of other devices. With 1, which clusters with IPVS set, it does not answer.
		Settings: []Setting{{FabricDevice, Forwarding, 1}, {FabricDevice, ReversePath, 0}, {FabricDevice, AnswerARP, 3}},
	}
	for _, p := range peers {
		s.Tunnels = append(s.Tunnels, p.tunnel(in.LinkMTU(p)))
		s.Rules = append(s.Rules,
			Rule{Preference: RemotePref, Mark: Mark(p.Index), Input: FabricDevice, Table: RemoteTable + p.Index},
			Rule{Preference: TunnelPref, Input: TunnelName(p.Index), Table: LocalTable})
		s.Settings = append(s.Settings, tunnelSettings(TunnelName(p.Index))...)
		s.Routes = append(s.Routes, in.routes(p)...)
	}
	s.Routes = append(s.Routes, in.localRoutes()...)
	s.reach(in.NodeIP, in.NodeIP)
	for _, n := range in.Nodes {
		if n.IP != in.NodeIP {
			s.reach(n.IP, n.IP)
		}
	}
	s.Firewall = in.firewall(peers)
	s.sort()
	return s, nil
}

// tunnelSettings let packets of remote pods in, although they may have the addresses of local
// pods or of this pod. If the machine demands strict reverse paths
// (net.ipv4.conf.all.rp_filter=1, which a pod inherits and can't change), the kernel checks
// with the packet's mark, which leads to the same route as the mark of the answers.
func tunnelSettings(device string) []Setting {
	return []Setting{{device, Forwarding, 1}, {device, ReversePath, 0}, {device, ReversePathMark, 1}, {device, AcceptLocal, 1}}
}

func fabricLink(underlay netip.Addr, mtu int) Link {
	return Link{Name: FabricDevice, Alias: "liqo-tui: between nodes and gateways", VNI: fabricVNI, Port: FabricPort, MAC: FabricMAC(underlay), MTU: mtu - vxlanOverhead, Up: true}
}

// reach makes an underlay address usable as a next hop in the fabric. The fabric's packets
// are sent to the address by, which may be that of a node that passes them on.
func (s *KernelState) reach(underlay, by netip.Addr) {
	mac := FabricMAC(underlay)
	s.Neighbors = append(s.Neighbors, Neighbor{Device: FabricDevice, IP: underlay, MAC: mac})
	s.Forwards = append(s.Forwards, Forward{Device: FabricDevice, MAC: mac, To: by})
}

// LinkMTU is the MTU of a tunnel's device: the wanted one, or less if the path to the peer
// carries less. Fragments of the outer packet cost more than smaller inner packets, and
// userspace WireGuard loses whole batches to them. LinkMTU is also no more than what this
// cluster's fabric carries: the search for the path's MTU is answered by the tunnel's other
// end, so it can't find the limit of the fabric behind this end.
func (in Inputs) LinkMTU(p Peer) int {
	fabric := in.UnderlayMTU
	for _, n := range in.Nodes {
		if n.MTU > 0 {
			fabric = min(fabric, n.MTU)
		}
	}
	return min(p.MTU, cmp.Or(p.UnderlayMTU, in.UnderlayMTU)-Overhead, fabric-vxlanOverhead)
}

// carries is the longest packet that is sent to the peer.
func (in Inputs) carries(p Peer) int {
	mtu := in.LinkMTU(p)
	if known := cmp.Or(p.PathMTU, p.UnprovenMTU); known > 0 {
		mtu = min(mtu, known)
	}
	return mtu
}

func (p Peer) tunnel(mtu int) Tunnel {
	t := Tunnel{
		Device:         TunnelName(p.Index),
		Alias:          "liqo-tui: tunnel to " + p.name(),
		Role:           p.Role,
		Implementation: p.Implementation,
		Address:        TunnelAddr(p.Role, p.Index),
		MTU:            mtu,
		Up:             true,
		PrivateKey:     p.PrivateKey.clamped(),
		ListenPort:     p.ListenPort,
		PublicKey:      p.PublicKey,
		NextKey:        p.NextKey,
	}
	if p.Endpoint.IsValid() && p.PublicKey != (wgtypes.Key{}) {
		t.Endpoint = p.Endpoint
		t.Keepalive = keepalive
	}
	return t
}

// routes returns the peer's own routing table. It must have a route for every marked packet.
func (in Inputs) routes(p Peer) []Route {
	table := RemoteTable + p.Index
	routes := []Route{{Table: table, Type: Unreachable, Destination: netip.PrefixFrom(netip.IPv4Unspecified(), 0), Metric: lastResort}}
	mtu := in.carries(p)
	if mtu == in.LinkMTU(p) {
		mtu = 0 // the device's
	}
	for _, c := range p.Real.all() {
		routes = append(routes, Route{Table: table, Type: Unicast, Destination: c, Device: TunnelName(p.Index), MTU: mtu})
	}
	return routes
}

// localRoutes returns the routing table for packets from a tunnel. Packets to pods that no
// node has announced go to this gateway's own node: it uses the pod network's routes. The
// pod's default route is no substitute: pod networks drop a pod's packets if their source
// is not the pod's address.
func (in Inputs) localRoutes() []Route {
	var routes []Route
	lead := func(to netip.Prefix, node netip.Addr) {
		routes = append(routes, Route{Table: LocalTable, Type: Unicast, Destination: to, Via: node, Device: FabricDevice})
	}
	for _, n := range in.Nodes {
		// The node itself: answers to its own packets, which left with the first external
		// address as their source.
		lead(netip.PrefixFrom(n.IP, 32), n.IP)
		for _, p := range n.Pods {
			lead(p, n.IP)
		}
	}
	lead(netip.PrefixFrom(in.NodeIP, 32), in.NodeIP)
	for _, h := range in.Hosts {
		// A pod is reached by its own node.
		if !slices.ContainsFunc(in.Local.Pod, func(c netip.Prefix) bool { return c.Contains(h.Real) }) {
			lead(netip.PrefixFrom(h.Real, 32), in.NodeIP)
		}
	}
	for _, c := range in.Local.Pod {
		lead(c, in.NodeIP)
	}
	// After conntrack has translated what it knows, no other external address is in use. The
	// type is not "unreachable": the kernel would send the error to the peer's real address,
	// which may also be a local pod's address.
	for _, c := range outermost(in.Local.External) {
		routes = append(routes, Route{Table: LocalTable, Type: Blackhole, Destination: c})
	}
	return dedupe(routes)
}

// dedupe drops routes whose destination an earlier route has. That happens if a node's pods
// have the node's own address, or if one node has the whole pod range.
func dedupe(routes []Route) []Route {
	seen := make(map[netip.Prefix]bool, len(routes))
	return slices.DeleteFunc(routes, func(r Route) bool {
		defer func() { seen[r.Destination] = true }()
		return seen[r.Destination]
	})
}
