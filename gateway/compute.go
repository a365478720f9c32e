package gateway

import (
	"cmp"
	"math"
	"net/netip"
	"slices"
	"time"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
)

// keepalive is shorter than 30 s, because common NATs forget a UDP binding after 30 s without a packet.
const keepalive = 15 * time.Second

// lastResort is the largest metric. The kernel uses a route with this metric only if no other route of
// the table matches. The route is needed while a tunnel's device has no routes: packets to a remote pod
// must not reach a local pod with the same address.
const lastResort = math.MaxInt32

// Names of counters of packets in the nftables tables of gateways and nodes. A counter whose name begins
// with "dropped-" counts refused packets.
const (
	// DroppedSource counts packets from the tunnel whose source is not an address of the peer, or
	// could not be translated.
	DroppedSource = "dropped-source"
	// DroppedDestination counts packets from the tunnel whose destination is neither a pod nor an
	// external address of this cluster, and packets from the tunnel to the fabric's port.
	DroppedDestination = "dropped-destination"
	// DroppedInput counts refused packets to the gateway pod itself. The pod accepts pings and questions
	// about the path's MTU, and only through the tunnel.
	DroppedInput = "dropped-input"
	// DroppedOutput counts packets to the peer with a source that the peer must not see.
	DroppedOutput = "dropped-output"
	// DroppedFabric counts packets over the fabric from a sender outside of it, for example a pod. On
	// a gateway, it also counts packets from the fabric whose destination is not a peer. On a node,
	// it also counts packets from the fabric whose source is not a peer.
	DroppedFabric = "dropped-fabric"
	// DroppedNodes counts packets from a peer to an address of a node.
	DroppedNodes = "dropped-nodes"
	// DroppedClosed counts packets from a peer to pods and external addresses that are closed to it.
	DroppedClosed = "dropped-closed"
	// Arrived counts all packets at a server's port from any sender. If packets arrive and no
	// handshake follows, the keys don't match.
	Arrived = "arrived"
	// PodsSent counts packets to the peer in answered flows: packets of both directions were seen.
	PodsSent = "pods-sent"
	// PodsReceived counts packets from the peer in answered flows.
	PodsReceived = "pods-received"
)

// SetRefused is the name of a set with the ranges of peers. Each element counts the packets from its
// range that the node refused.
const SetRefused = "refused"

// SetClosedLately is the name of a set with the latest endpoints that were closed to peers. At most
// LatelySize are kept, each for LatelyTime since the last dropped packet.
const (
	SetClosedLately = "closed-lately"
	LatelySize      = 16
	LatelyTime      = 10 * time.Minute
)

// Names of sets and maps in the nftables table of a gateway or node, and priorities of its chains. The
// comments of the sets (ruleset.go, node.go) describe the contents.
const (
	setTunnels     = "tunnels"
	setPeers       = "peer-sources"
	setSeen        = "peer-sources-here"
	setOwn         = "own-addresses" // this cluster's addresses on the wire
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
	setOpen        = "open-to-" // and the tunnel's device
	priorityFirst  = math.MinInt32
	priorityRaw    = -300
	afterConntrack = -199
	priorityMangle = -150
	priorityDNAT   = -100
	// priorityAllow is before the rules that count packets of answered flows.
	priorityAllow  = -10
	priorityFilter = 0
	prioritySNAT   = 100
	// priorityLast is after SNAT. Its rules see the addresses that packets have on the wire.
	priorityLast = 300
)

// Compute returns the wanted kernel state of a gateway pod. It returns an error for inputs that no
// state can satisfy: see errAddress and the errors beside it. It leaves out the nodes and the
// addresses of nodes that [Inputs.Fitting] leaves out.
func Compute(in Inputs) (KernelState, error) {
	if err := in.Check(); err != nil {
		return KernelState{}, err
	}
	in, _ = in.Fitting()
	peers := slices.SortedFunc(slices.Values(in.Peers), func(a, b Peer) int { return a.Index - b.Index })
	s := KernelState{
		Links: []Link{fabricLink(in.PodIP, in.UnderlayMTU)},
		// Our rules come before the kernel's local table, because a remote pod may have the
		// address of this pod if both clusters have the same CIDR.
		Rules: []Rule{{Preference: LocalPref, Table: KernelLocal}, {Preference: ErrorPref, Mark: errorMark, Table: LocalTable}},
		// Nodes test by ARP whether they reach this pod. AnswerARP 3 lets the kernel also answer for
		// addresses of other devices. Clusters with IPVS set 1, and then the kernel does not answer.
		Settings: []Setting{{FabricDevice, Forwarding, 1}, {FabricDevice, ReversePath, 0}, {FabricDevice, AnswerARP, 3}},
	}
	var remote []Route
	for _, p := range peers {
		s.Tunnels = append(s.Tunnels, p.tunnel(in.LinkMTU(p)))
		s.Rules = append(s.Rules,
			Rule{Preference: RemotePref, Mark: Mark(p.Index), Input: FabricDevice, Table: RemoteTable + p.Index},
			Rule{Preference: TunnelPref, Input: TunnelName(p.Index), Table: LocalTable})
		s.Settings = append(s.Settings, tunnelSettings(TunnelName(p.Index))...)
		remote = append(remote, in.routes(p)...)
	}
	s.Routes = in.localRoutes(remote)
	nodes := make([]netip.Addr, 1, len(in.Nodes)+1)
	nodes[0] = in.NodeIP
	for _, n := range in.Nodes {
		nodes = append(nodes, n.IP)
	}
	slices.SortFunc(nodes, netip.Addr.Compare) // cheaper than sorting neighbours and forwarding entries
	nodes = slices.Compact(nodes)
	s.Neighbors, s.Forwards = make([]Neighbor, 0, len(nodes)), make([]Forward, 0, len(nodes))
	for _, n := range nodes {
		s.reach(n, n)
	}
	s.Firewall = in.firewall(peers)
	s.sort()
	return s, nil
}

// tunnelSettings let in packets of remote pods, although their sources may be addresses of local pods
// or of this pod. A machine may check reverse paths strictly (net.ipv4.conf.all.rp_filter=1), and a
// pod can't change that. On such a machine, the kernel has to check the reverse path with the
// packet's mark: with the mark, it finds the route back into the tunnel.
func tunnelSettings(device string) []Setting {
	return []Setting{{device, Forwarding, 1}, {device, ReversePath, 0}, {device, ReversePathMark, 1}, {device, AcceptLocal, 1}}
}

func fabricLink(underlay netip.Addr, mtu int) Link {
	return Link{Name: FabricDevice, Alias: "liqo-tui: between nodes and gateways", VNI: fabricVNI, Port: FabricPort, MAC: FabricMAC(underlay), MTU: mtu - vxlanOverhead, Up: true}
}

// reach makes an underlay address usable as a next hop in the fabric. The outer VXLAN packets are sent to the
// address in the parameter by. That address may belong to a node that forwards them.
func (s *KernelState) reach(underlay, by netip.Addr) {
	mac := FabricMAC(underlay)
	s.Neighbors = append(s.Neighbors, Neighbor{Device: FabricDevice, IP: underlay, MAC: mac})
	s.Forwards = append(s.Forwards, Forward{Device: FabricDevice, MAC: mac, To: by})
}

// LinkMTU returns the MTU of a tunnel's device. It is the smallest of three: the wanted MTU, the MTU of
// the route to the endpoint less WireGuard's overhead, and the longest packet of this cluster's
// fabric. A longer packet would need fragments outside of the tunnel. They cost more than smaller
// packets in the tunnel, and userspace WireGuard loses whole batches because of them. The search for the
// path's MTU can't find the limit of this cluster's fabric, because it ends in the two gateways.
func (in Inputs) LinkMTU(p Peer) int {
	fabric := in.UnderlayMTU
	for _, n := range in.Nodes {
		if n.MTU > 0 {
			fabric = min(fabric, n.MTU)
		}
	}
	return min(p.MTU, cmp.Or(p.UnderlayMTU, in.UnderlayMTU)-Overhead, fabric-vxlanOverhead)
}

// WireGuard pads packets to a multiple of paddedTo bytes. It does not pad beyond the device's MTU (in
// the kernel: beyond the route's).
const paddedTo = 16

// carries returns the length of the longest packet that the gateway sends to the peer, in bytes. If it is
// less than the device's MTU, the length is a multiple of paddedTo. A longer packet would be padded beyond
// what the path carries, and the pod network or this machine would send each datagram as two fragments.
func (in Inputs) carries(p Peer) int {
	mtu := in.LinkMTU(p)
	if known := cmp.Or(p.PathMTU, p.UnprovenMTU); known > 0 && known < mtu {
		mtu = known - known%paddedTo
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

// routes returns the peer's own routing table. It has a route for every packet with the peer's mark: at
// least the one with lastResort.
func (in Inputs) routes(p Peer) []Route {
	table := RemoteTable + p.Index
	routes := []Route{{Table: table, Type: Unreachable, Destination: netip.PrefixFrom(netip.IPv4Unspecified(), 0), Metric: lastResort}}
	mtu := in.carries(p)
	if mtu == in.LinkMTU(p) {
		mtu = 0 // the route uses the device's MTU
	}
	for _, c := range p.Real.all() {
		routes = append(routes, Route{Table: table, Type: Unicast, Destination: c, Device: TunnelName(p.Index), MTU: mtu})
	}
	return routes
}

// localRoutes returns the routing table for packets from a tunnel. Packets to a pod that no node has
// announced go to this gateway's node, which has the pod network's routes. The pod's default route
// is no replacement: pod networks drop a packet if its source is not the sending pod's address. The
// result ends with the parameter others.
func (in Inputs) localRoutes(others []Route) []Route {
	most := 1 + len(in.Hosts) + len(in.Local.Pod) + len(in.Local.External)
	for _, n := range in.Nodes {
		most += 1 + len(n.Pods)
	}
	// Thousands of routes are kept and sorted as numbers first. That costs a fraction of their memory and time.
	const position = 24 // bits, for 16 million routes
	places, hops := make([]uint64, 0, most), make([]uint32, 0, most)
	add := func(to netip.Prefix, hop uint32) {
		places, hops = append(places, numberOf(to)<<position|uint64(len(hops))), append(hops, hop)
	}
	lead := func(to netip.Prefix, node netip.Addr) { add(to, number(node)) }
	for _, n := range in.Nodes {
		// Packets of the node itself leave with the first external address as their source. This
		// route is for the answers.
		lead(netip.PrefixFrom(n.IP, 32), n.IP)
		for _, p := range n.Pods {
			lead(p, n.IP)
		}
	}
	lead(netip.PrefixFrom(in.NodeIP, 32), in.NodeIP)
	for _, h := range in.Hosts {
		// If the host is a pod, the routes to pods lead to it.
		if !slices.ContainsFunc(in.Local.Pod, func(c netip.Prefix) bool { return c.Contains(h.Real) }) {
			lead(netip.PrefixFrom(h.Real, 32), in.NodeIP)
		}
	}
	for _, c := range in.Local.Pod {
		lead(c, in.NodeIP)
	}
	// Conntrack has already translated the external addresses in use, so all others are dropped. The
	// type is not "unreachable", because the kernel would send the error to the peer's real address.
	// A local pod may have this address, and would get the error.
	const blackhole = 0
	for _, c := range outermost(in.Local.External) {
		add(c, blackhole)
	}
	slices.Sort(places)
	routes := make([]Route, 0, len(places)+len(others))
	for i, p := range places {
		// If two routes have the same destination, the earlier one counts. That happens if a node's pods have the
		// node's own address, or if one node has the whole pod range.
		if i > 0 && p>>position == places[i-1]>>position {
			continue
		}
		r := Route{Table: LocalTable, Type: Blackhole, Destination: prefixOf(p >> position)}
		if hop := hops[p&(1<<position-1)]; hop != blackhole {
			r.Type, r.Via, r.Device = Unicast, addressOf(hop), FabricDevice
		}
		routes = append(routes, r)
	}
	return append(routes, others...)
}
