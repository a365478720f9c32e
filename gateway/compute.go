package gateway

import (
	"math"
	"net/netip"
	"slices"
	"time"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
)

// keepalive is below the 30 s after which common NATs forget a UDP binding.
const keepalive = 15 * time.Second

// lastResort makes a route lose against every other: without a device's
// routes, marked packets must not fall through to local pods that have the
// same addresses.
const lastResort = math.MaxInt32

// Counters of packets that the gateway refused.
const (
	// DroppedSource: came out of the tunnel with a source that is not the peer's.
	DroppedSource = "dropped-source"
	// DroppedDestination: came out of the tunnel for an address that is not ours.
	DroppedDestination = "dropped-destination"
	// DroppedInput: for the gateway itself and not a ping, or a ping that did
	// not come through the tunnel.
	DroppedInput = "dropped-input"
	// DroppedOutput: would have left for the peer with a source that it must
	// not see.
	DroppedOutput = "dropped-output"
	// Arrived counts all packets at a server's port, whoever sent them: where
	// none makes a handshake, the keys don't match.
	Arrived = "arrived"
)

// Names within the table.
const (
	setTunnels     = "tunnels"
	setPeers       = "peer-sources"
	setOwn         = "own-addresses" // as the peers know them
	setEnds        = "tunnel-addresses"
	mapToReal      = "to-real"
	mapToHosts     = "to-hosts"
	mapToRemapped  = "to-remapped"
	setRemote      = "remote-" // + index
	setPods        = "local-pods"
	setRemotes     = "remotes"
	priorityRaw    = -300
	priorityMangle = -150
	priorityDNAT   = -100
	priorityFilter = 0
	prioritySNAT   = 100
	// priorityLast sees packets as they will be on the wire, after SNAT.
	priorityLast = 300
)

// Compute returns the state of a gateway pod. It refuses inputs that no state
// can satisfy; see ErrAddress and its neighbours.
func Compute(in Inputs) (State, error) {
	if err := in.check(); err != nil {
		return State{}, err
	}
	peers := slices.SortedFunc(slices.Values(in.Peers), func(a, b Peer) int { return a.Index - b.Index })
	s := State{
		Links: []Link{fabricLink(in.PodIP, in.UnderlayMTU)},
		// The kernel's own addresses come after ours, because a remote pod may
		// have the address of this pod: that is normal where CIDRs are equal.
		Rules:    []Rule{{Preference: LocalPref, Table: KernelLocal}, {Preference: ErrorPref, Mark: errorMark, Table: LocalTable}},
		Settings: []Setting{{FabricDevice, Forwarding, 1}, {FabricDevice, ReversePath, 0}},
	}
	for _, p := range peers {
		s.Tunnels = append(s.Tunnels, p.tunnel(in.UnderlayMTU))
		s.Rules = append(s.Rules,
			Rule{Preference: RemotePref, Mark: Mark(p.Index), Input: FabricDevice, Table: RemoteTable + p.Index},
			Rule{Preference: TunnelPref, Input: TunnelName(p.Index), Table: LocalTable})
		s.Settings = append(s.Settings, tunnelSettings(TunnelName(p.Index))...)
		s.Routes = append(s.Routes, p.routes(in.UnderlayMTU)...)
	}
	s.Routes = append(s.Routes, in.localRoutes()...)
	for _, n := range in.Nodes {
		s.reach(n.IP)
	}
	s.Firewall = in.firewall(peers)
	s.sort()
	return s, nil
}

// tunnelSettings let packets of remote pods in, which may have the addresses of
// local pods or of this one. Where the machine insists on strict reverse paths
// (net.ipv4.conf.all.rp_filter=1, which a pod inherits and can't change), the
// mark finds the way back: it is that of the answers.
func tunnelSettings(device string) []Setting {
	return []Setting{{device, Forwarding, 1}, {device, ReversePath, 0}, {device, ReversePathMark, 1}, {device, AcceptLocal, 1}}
}

func fabricLink(underlay netip.Addr, mtu int) Link {
	return Link{Name: FabricDevice, VNI: fabricVNI, Port: FabricPort, MAC: FabricMAC(underlay), MTU: mtu - vxlanOverhead, Up: true}
}

// reach makes an underlay address usable as a next hop in the fabric.
func (s *State) reach(underlay netip.Addr) {
	mac := FabricMAC(underlay)
	s.Neighbors = append(s.Neighbors, Neighbor{Device: FabricDevice, IP: underlay, MAC: mac})
	s.Forwards = append(s.Forwards, Forward{Device: FabricDevice, MAC: mac, To: underlay})
}

// LinkMTU is that of the tunnel's device: what was asked for, or less if the
// underlay carries less. Fragments of the outer packet cost more than smaller
// inner ones, and userspace WireGuard loses whole batches to them.
func (p Peer) LinkMTU(underlay int) int { return min(p.MTU, underlay-Overhead) }

// carries is the longest packet that is sent to the peer.
func (p Peer) carries(underlay int) int {
	if p.PathMTU > 0 {
		return min(p.PathMTU, p.LinkMTU(underlay))
	}
	return p.LinkMTU(underlay)
}

func (p Peer) tunnel(underlay int) Tunnel {
	t := Tunnel{
		Device:         TunnelName(p.Index),
		Role:           p.Role,
		Implementation: p.Implementation,
		Address:        TunnelAddr(p.Role, p.Index),
		MTU:            p.LinkMTU(underlay),
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

// routes is the peer's own table. It has to answer for every marked packet.
func (p Peer) routes(underlay int) []Route {
	table := RemoteTable + p.Index
	routes := []Route{{Table: table, Type: Unreachable, Destination: netip.PrefixFrom(netip.IPv4Unspecified(), 0), Metric: lastResort}}
	mtu := p.carries(underlay)
	if mtu == p.LinkMTU(underlay) {
		mtu = 0 // the device's
	}
	for _, c := range p.Real.all() {
		routes = append(routes, Route{Table: table, Type: Unicast, Destination: c, Device: TunnelName(p.Index), MTU: mtu})
	}
	return routes
}

// localRoutes is the table for what came out of a tunnel. What it does not
// know goes to the pod's default route, so that CNIs that do not give each
// node a CIDR get a chance to deliver.
func (in Inputs) localRoutes() []Route {
	var routes []Route
	for _, n := range in.Nodes {
		// The node itself: replies to its own packets, which left under the
		// first external address.
		to := append([]netip.Prefix{netip.PrefixFrom(n.IP, 32)}, n.PodCIDRs...)
		for _, c := range to {
			routes = append(routes, Route{Table: LocalTable, Type: Unicast, Destination: c, Via: n.IP, Device: FabricDevice})
		}
	}
	for _, h := range in.Hosts {
		routes = append(routes, Route{
			Table: LocalTable, Type: Unicast, Destination: netip.PrefixFrom(h.Real, 32), Via: in.ownNode(), Device: FabricDevice,
		})
	}
	// Nothing else of ours answers at external addresses once conntrack has undone
	// what it can. Not "unreachable": the error would be sent to the peer's
	// real address, which may be a local pod's too.
	for _, c := range outermost(in.Local.External) {
		routes = append(routes, Route{Table: LocalTable, Type: Blackhole, Destination: c})
	}
	return dedupe(routes)
}

// ownNode is the address of the node that the gateway pod is on, or of another
// one where nodes' pod CIDRs are not known: any of them knows the way out.
func (in Inputs) ownNode() netip.Addr {
	for _, n := range in.Nodes {
		if slices.ContainsFunc(n.PodCIDRs, func(p netip.Prefix) bool { return p.Contains(in.PodIP) }) {
			return n.IP
		}
	}
	return in.Nodes[0].IP
}

// dedupe drops routes to a destination that an earlier one has: a node whose
// pod CIDR is its own /32.
func dedupe(routes []Route) []Route {
	seen := make(map[netip.Prefix]bool, len(routes))
	return slices.DeleteFunc(routes, func(r Route) bool {
		defer func() { seen[r.Destination] = true }()
		return seen[r.Destination]
	})
}

// firewall is the gateway's table.
func (in Inputs) firewall(peers []Peer) Table {
	sets, mss := in.sets(peers), []FirewallRule(nil)
	// What came out of a tunnel is judged by the addresses that were on the
	// wire, so before conntrack and NAT; what is dropped costs no connection.
	classify := []FirewallRule{
		rule(Statement{Op: InputIn, Name: setTunnels}, Statement{Op: InputSourceIn, Not: true, Name: setPeers},
			Statement{Op: Count, Name: DroppedSource}, Statement{Op: Drop}),
		rule(Statement{Op: InputIn, Name: setTunnels}, Statement{Op: DestinationIn, Not: true, Name: setOwn},
			Statement{Op: Count, Name: DroppedDestination}, Statement{Op: Drop}),
	}
	for _, p := range peers {
		zone := Statement{Op: SetZone, Number: uint32(Zone(p.Index))}
		remote := setRemote + itoa(p.Index)
		sets = append(sets, addressSet(remote, p.Remapped.all()))
		classify = append(classify,
			rule(Statement{Op: InputIs, Name: TunnelName(p.Index)}, zone, Statement{Op: SetMark, Number: Mark(p.Index)}),
			rule(Statement{Op: InputIn, Not: true, Name: setTunnels}, Statement{Op: DestinationIn, Name: remote},
				zone, Statement{Op: SetMark, Number: Mark(p.Index)}))
		size := Statement{Op: MaximumSegment, Number: uint32(p.carries(in.UnderlayMTU) - 40)} // IPv4 20, TCP 20
		mss = append(mss,
			rule(Statement{Op: OutputIs, Name: TunnelName(p.Index)}, Statement{Op: TCPSYN}, size),
			rule(Statement{Op: InputIs, Name: TunnelName(p.Index)}, Statement{Op: TCPSYN}, size))
	}
	translate := []FirewallRule{rule(Statement{Op: InputIn, Not: true, Name: setTunnels}, Statement{Op: DestinationByMap, Name: mapToReal})}
	if len(in.Hosts) > 0 {
		toHosts := Set{Name: mapToHosts, Key: KeyAddress, Map: true}
		for _, h := range in.Hosts {
			toHosts.Elements = append(toHosts.Elements, Element{Prefix: netip.PrefixFrom(h.External, 32), To: netip.PrefixFrom(h.Real, 32)})
		}
		sets = append(sets, toHosts)
		translate = append(translate, rule(Statement{Op: InputIn, Name: setTunnels}, Statement{Op: DestinationByMap, Name: mapToHosts}))
	}
	return Table{
		Name:     TableName,
		Counters: []string{Arrived, DroppedDestination, DroppedInput, DroppedOutput, DroppedSource},
		Sets:     sets,
		Chains: []Chain{
			{Name: "classify", Type: "filter", Hook: "prerouting", Priority: priorityRaw, Rules: classify},
			{Name: "own-packets", Type: "filter", Hook: "output", Priority: priorityRaw, Rules: outputRules(peers)},
			{Name: "own-errors", Type: "route", Hook: "output", Priority: priorityMangle, Rules: errorRules()},
			{Name: "translate-destination", Type: "nat", Hook: "prerouting", Priority: priorityDNAT, Rules: translate},
			{Name: "own-address", Type: "filter", Hook: "input", Priority: priorityFilter, Rules: inputRules(peers)},
			{Name: "clamp", Type: "filter", Hook: "forward", Priority: priorityMangle, Rules: mss},
			{Name: "translate-source", Type: "nat", Hook: "postrouting", Priority: prioritySNAT, Rules: []FirewallRule{
				// The kernel's own WireGuard sends its encrypted packets with the
				// tunnel as their input, from the pod's address, which may be in
				// the peer's pod CIDR too: what goes to the nodes is translated.
				rule(Statement{Op: OutputIs, Name: FabricDevice}, Statement{Op: SourceByMap, Name: mapToRemapped}),
				// Nodes and pods in their host's network: the peer knows no
				// other address for them than the first external one.
				rule(Statement{Op: OutputIn, Name: setTunnels}, Statement{Op: SourceIn, Not: true, Name: setOwn},
					Statement{Op: SourceTo, Addr: in.Local.External[0].Addr()}),
			}},
			// ICMP errors of a related connection pass NAT as they are.
			{Name: "leave", Type: "filter", Hook: "postrouting", Priority: priorityLast, Rules: []FirewallRule{
				// The fabric's own packets inherit the mark, and would go round in a circle.
				rule(Statement{Op: MarkIs, Number: errorMark}, Statement{Op: SetMark, Number: 0}),
				rule(Statement{Op: OutputIn, Name: setTunnels}, Statement{Op: SourceIn, Not: true, Name: setOwn},
					Statement{Op: Count, Name: DroppedOutput}, Statement{Op: Drop}),
			}},
		},
	}
}

// outputRules are for what the gateway itself sends.
func outputRules(peers []Peer) []FirewallRule {
	var rules []FirewallRule
	for i, p := range peers {
		// The kernel's WireGuard lets its packets be fragmented: probes would
		// pass where batches of fragments don't. Userspace forbids it already.
		outer := Statement{Op: UDPDestinationPort, Number: uint32(p.Endpoint.Port())}
		if p.Role == Server {
			outer = Statement{Op: UDPSourcePort, Number: uint32(p.ListenPort)}
		}
		if outer.Number != 0 {
			rules = append(rules, rule(outer, Statement{Op: DontFragment}))
		}
		// A pod whose packet was too long is told so by this gateway, and knows
		// the destination by its remapped address only: conntrack translates
		// the message in the zone of the flow. It does not say which one that
		// is; a gateway has one peer, and where it has several, the nodes' own
		// routes speak for the others.
		if i == 0 {
			rules = append(rules, rule(Statement{Op: ICMPUnreachable}, Statement{Op: SetZone, Number: uint32(Zone(p.Index))}))
		}
	}
	return rules
}

// errorRules send such a message the way of the answers: with a remapped source,
// a node takes it from the fabric only.
func errorRules() []FirewallRule {
	return []FirewallRule{rule(Statement{Op: ICMPUnreachable}, Statement{Op: Related}, Statement{Op: SetMark, Number: errorMark})}
}

// inputRules: a tunnel leads to the gateway's ping responder and to nothing
// else of it, and nobody but the tunnel leads there: pings are not
// authenticated otherwise.
func inputRules(peers []Peer) []FirewallRule {
	mine := Statement{Op: InputDestinationIn, Name: setEnds}
	ping := Statement{Op: UDPDestinationPort, Number: PingPort}
	probe := Statement{Op: UDPDestinationPort, Number: ProbePort}
	count, drop := Statement{Op: Count, Name: DroppedInput}, Statement{Op: Drop}
	var rules []FirewallRule
	for _, p := range peers {
		if p.Role == Server {
			rules = append(rules, rule(Statement{Op: InputIn, Not: true, Name: setTunnels},
				Statement{Op: UDPDestinationPort, Number: uint32(p.ListenPort)}, Statement{Op: Count, Name: Arrived}, Statement{Op: Accept}))
		}
	}
	return append(rules,
		rule(mine, ping, Statement{Op: Accept}),
		rule(mine, probe, Statement{Op: Accept}),
		rule(mine, Statement{Op: ICMP}, Statement{Op: Accept}),
		rule(Statement{Op: InputIn, Name: setTunnels}, count, drop),
		rule(ping, count, drop),
		rule(probe, count, drop),
	)
}

// sets are those that span all peers.
func (in Inputs) sets(peers []Peer) []Set {
	own := in.Local.all()
	tunnels := Set{Name: setTunnels, Key: KeyInterface}
	sources := Set{Name: setPeers, Key: KeyInterfaceAddress}
	ends := Set{Name: setEnds, Key: KeyInterfaceAddress}
	toReal := Set{Name: mapToReal, Key: KeyAddress, Map: true}
	toRemapped := Set{Name: mapToRemapped, Key: KeyInterfaceAddress, Map: true}
	for _, p := range peers {
		dev := TunnelName(p.Index)
		end := netip.PrefixFrom(TunnelAddr(p.Role, p.Index).Addr(), 32)
		other := netip.PrefixFrom(PeerTunnelAddr(p.Role, p.Index).Addr(), 32)
		own = append(own, end)
		tunnels.Elements = append(tunnels.Elements, Element{Interface: dev})
		ends.Elements = append(ends.Elements, Element{Interface: dev, Prefix: end})
		sources.Elements = append(sources.Elements, Element{Interface: dev, Prefix: other})
		remapped := p.Remapped.all()
		for i, actual := range p.Real.all() {
			sources.Elements = append(sources.Elements, Element{Interface: dev, Prefix: actual})
			if actual == remapped[i] {
				continue
			}
			toReal.Elements = append(toReal.Elements, Element{Prefix: remapped[i], To: actual})
			toRemapped.Elements = append(toRemapped.Elements, Element{Interface: dev, Prefix: actual, To: remapped[i]})
		}
	}
	return []Set{tunnels, sources, ends, addressSet(setOwn, own), toReal, toRemapped}
}
