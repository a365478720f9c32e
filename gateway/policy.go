package gateway

import (
	"net/netip"
	"slices"
)

// name is what comments call the peer.
func (p Peer) name() string {
	if p.ClusterID == "" {
		return "the peer of " + TunnelName(p.Index)
	}
	return p.ClusterID
}

// firewall is the gateway's table. Its comments are for people who look at it
// with nft: they say which peer something is for, and why it is there.
func (in Inputs) firewall(peers []Peer) Table {
	sets := in.sets(peers)
	for _, p := range peers {
		sets = append(sets, addressSet(setRemote+itoa(p.Index), "networks of "+p.name()+" as seen from here",
			append(elements("pods", p.Remapped.Pod), elements("external", p.Remapped.External)...)))
	}
	if len(in.Hosts) > 0 {
		sets = append(sets, in.hostMap())
	}
	return Table{
		Name:     TableName,
		Counters: []string{Arrived, DroppedDestination, DroppedFabric, DroppedInput, DroppedOutput, DroppedSource},
		Sets:     sets,
		Chains: []Chain{
			{Name: "classify", Type: "filter", Hook: "prerouting", Priority: priorityRaw, Rules: classifyRules(peers)},
			{Name: "own-packets", Type: "filter", Hook: "output", Priority: priorityRaw, Rules: outputRules(peers)},
			{Name: "own-errors", Type: "route", Hook: "output", Priority: priorityMangle, Rules: errorRules()},
			{Name: "translate-destination", Type: "nat", Hook: "prerouting", Priority: priorityDNAT, Rules: in.destinationRules()},
			{Name: "own-address", Type: "filter", Hook: "input", Priority: priorityFilter, Rules: inputRules(peers)},
			{Name: "clamp", Type: "filter", Hook: "forward", Priority: priorityMangle, Rules: in.clampRules(peers)},
			{Name: "translate-source", Type: "nat", Hook: "postrouting", Priority: prioritySNAT, Rules: in.sourceRules()},
			{Name: "leave", Type: "filter", Hook: "postrouting", Priority: priorityLast, Rules: leaveRules()},
		},
	}
}

// classifyRules judge what came out of a tunnel by the addresses that were on
// the wire, so before conntrack and NAT; what is dropped costs no connection.
func classifyRules(peers []Peer) []FirewallRule {
	rules := []FirewallRule{
		rule("no peer sends from addresses that are not its own",
			Statement{Op: InputIn, Name: setTunnels}, Statement{Op: InputSourceIn, Not: true, Name: setPeers},
			Statement{Op: Count, Name: DroppedSource}, Statement{Op: Drop}),
		rule("a tunnel leads to pods and external addresses of this cluster only",
			Statement{Op: InputIn, Name: setTunnels}, Statement{Op: DestinationIn, Not: true, Name: setOwn},
			Statement{Op: Count, Name: DroppedDestination}, Statement{Op: Drop}),
	}
	rules = append(rules, untrackedInput(peers)...)
	for _, p := range peers {
		zone, mark := Statement{Op: SetZone, Number: uint32(Zone(p.Index))}, Statement{Op: SetMark, Number: Mark(p.Index)}
		rules = append(rules,
			rule("from "+p.name(), Statement{Op: InputIs, Name: TunnelName(p.Index)}, zone, mark),
			rule("to "+p.name(), Statement{Op: InputIn, Not: true, Name: setTunnels},
				Statement{Op: DestinationIn, Name: setRemote + itoa(p.Index)}, zone, mark))
	}
	return append(rules, rule("the fabric leads to peers only",
		Statement{Op: InputIs, Name: FabricDevice}, Statement{Op: MarkIs}, Statement{Op: Count, Name: DroppedFabric}, Statement{Op: Drop}))
}

// untrackedInput and untrackedOutput keep what the tunnel itself lives on out
// of conntrack: where pods have filled the kernel's table, no new connection is
// let through, and a tunnel that has to dial again would stay down for as long.
func untrackedInput(peers []Peer) []FirewallRule {
	const about = ": also where the table of connections is full"
	outside := []Statement{{Op: InputIn, Not: true, Name: setTunnels}, {Op: InputIs, Not: true, Name: FabricDevice}}
	untrack := func(what string, from []Statement, more ...Statement) FirewallRule {
		return rule(what+about, append(append(slices.Clone(from), more...), Statement{Op: Untrack}, Statement{Op: Accept})...)
	}
	rules := []FirewallRule{
		untrack("between nodes and gateways", outside, Statement{Op: UDPDestinationPort, Number: FabricPort}),
		untrack("pings and probes", []Statement{{Op: InputDestinationIn, Name: setEnds}}),
	}
	for _, p := range peers {
		port, ok := p.outerPort(UDPDestinationPort, UDPSourcePort)
		if ok {
			rules = append(rules, untrack("WireGuard of "+p.name(), outside, port))
		}
	}
	return rules
}

// outerPort tells the packets between the gateways, in one direction: by the
// server's port, which is at our end or at the peer's.
func (p Peer) outerPort(ofServer, ofClient Op) (Statement, bool) {
	port := Statement{Op: ofClient, Number: uint32(p.Endpoint.Port())}
	if p.Role == Server {
		port = Statement{Op: ofServer, Number: uint32(p.ListenPort)}
	}
	return port, port.Number != 0
}

func untrackedOutput() []FirewallRule {
	inside := Statement{Op: OutputIn, Name: setTunnels}
	return []FirewallRule{
		rule("between nodes and gateways", Statement{Op: UDPDestinationPort, Number: FabricPort}, Statement{Op: Untrack}),
		rule("pings, and answers to them", inside, Statement{Op: UDPSourcePort, Number: PingPort}, Statement{Op: Untrack}),
		rule("answers to probes", inside, Statement{Op: UDPSourcePort, Number: ProbePort}, Statement{Op: Untrack}),
		rule("probes", inside, Statement{Op: UDPDestinationPort, Number: ProbePort}, Statement{Op: Untrack}),
	}
}

// outputRules are for what the gateway itself sends.
func outputRules(peers []Peer) []FirewallRule {
	rules := untrackedOutput()
	for i, p := range peers {
		// The kernel's WireGuard lets its packets be fragmented: probes would
		// pass where batches of fragments don't. Userspace forbids it already.
		if outer, ok := p.outerPort(UDPSourcePort, UDPDestinationPort); ok {
			rules = append(rules, rule("WireGuard to "+p.name()+": in one piece, so that probes find the path's MTU",
				outer, Statement{Op: DontFragment}, Statement{Op: Untrack}))
		}
		// A pod whose packet was too long is told so by this gateway, and knows
		// the destination by its remapped address only: conntrack translates
		// the message in the zone of the flow. It does not say which one that
		// is; a gateway has one peer, and where it has several, the nodes' own
		// routes speak for the others.
		if i == 0 {
			rules = append(rules, rule("errors about flows to "+p.name()+" are translated as the flows are",
				Statement{Op: ICMPUnreachable}, Statement{Op: SetZone, Number: uint32(Zone(p.Index))}))
		}
	}
	return rules
}

// errorRules send such a message the way of the answers: with a remapped source,
// a node takes it from the fabric only.
func errorRules() []FirewallRule {
	return []FirewallRule{rule("errors about pods' flows go back by the fabric, as answers do",
		Statement{Op: ICMPUnreachable}, Statement{Op: Related}, Statement{Op: SetMark, Number: errorMark})}
}

func (in Inputs) destinationRules() []FirewallRule {
	rules := []FirewallRule{rule("to a peer: the wire carries its own addresses",
		Statement{Op: InputIn, Not: true, Name: setTunnels}, Statement{Op: DestinationByMap, Name: mapToReal})}
	if len(in.Hosts) > 0 {
		rules = append(rules, rule("from a peer to a host outside the cluster",
			Statement{Op: InputIn, Name: setTunnels}, Statement{Op: DestinationByMap, Name: mapToHosts}))
	}
	return rules
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
			rules = append(rules, rule("WireGuard of "+p.name()+", or of whoever claims to be it",
				Statement{Op: InputIn, Not: true, Name: setTunnels}, Statement{Op: UDPDestinationPort, Number: uint32(p.ListenPort)},
				Statement{Op: Count, Name: Arrived}, Statement{Op: Accept}))
		}
	}
	return append(rules,
		rule("ping between gateways", mine, ping, Statement{Op: Accept}),
		rule("probe of the path's MTU", mine, probe, Statement{Op: Accept}),
		rule("", mine, Statement{Op: ICMP}, Statement{Op: Accept}),
		rule("a tunnel leads to nothing else of this pod", Statement{Op: InputIn, Name: setTunnels}, count, drop),
		rule("pings are believed because they come through a tunnel", ping, count, drop),
		rule("and so are probes", probe, count, drop),
	)
}

// clampRules keep TCP from sending what the tunnel can't carry, where the
// sender does not learn it otherwise.
func (in Inputs) clampRules(peers []Peer) []FirewallRule {
	var rules []FirewallRule
	for _, p := range peers {
		size := Statement{Op: MaximumSegment, Number: uint32(p.carries(in.UnderlayMTU) - 40)} // IPv4 20, TCP 20
		rules = append(rules,
			rule("to "+p.name()+": segments that the path carries",
				Statement{Op: OutputIs, Name: TunnelName(p.Index)}, Statement{Op: TCPSYN}, size),
			rule("from "+p.name()+": likewise",
				Statement{Op: InputIs, Name: TunnelName(p.Index)}, Statement{Op: TCPSYN}, size))
	}
	return rules
}

func (in Inputs) sourceRules() []FirewallRule {
	return []FirewallRule{
		// The kernel's own WireGuard sends its encrypted packets with the
		// tunnel as their input, from the pod's address, which may be in
		// the peer's pod CIDR too: what goes to the nodes is translated.
		rule("from a peer: its pods appear under the addresses that they have here",
			Statement{Op: OutputIs, Name: FabricDevice}, Statement{Op: SourceByMap, Name: mapToRemapped}),
		// The peer knows no other address for them than the first external one.
		rule("to a peer: nodes, and pods in their host's network, share one address",
			Statement{Op: OutputIn, Name: setTunnels}, Statement{Op: SourceIn, Not: true, Name: setOwn},
			Statement{Op: SourceTo, Addr: in.Local.External[0].Addr()}),
	}
}

func leaveRules() []FirewallRule {
	return []FirewallRule{
		// The fabric's own packets inherit the mark, and would go round in a circle.
		rule("the mark has served: the packet around this one must not have it",
			Statement{Op: MarkIs, Number: errorMark}, Statement{Op: SetMark, Number: 0}),
		// ICMP errors of a related connection pass NAT as they are.
		rule("no peer sees an address that it does not know",
			Statement{Op: OutputIn, Name: setTunnels}, Statement{Op: SourceIn, Not: true, Name: setOwn},
			Statement{Op: Count, Name: DroppedOutput}, Statement{Op: Drop}),
	}
}

// sets are those that span all peers.
func (in Inputs) sets(peers []Peer) []Set {
	own := append(elements("pods", in.Local.Pod), elements("external", in.Local.External)...)
	tunnels := Set{Name: setTunnels, Key: KeyInterface, Comment: "WireGuard devices: one per peer"}
	sources := Set{Name: setPeers, Key: KeyInterfaceAddress, Comment: "what each peer sends from"}
	ends := Set{Name: setEnds, Key: KeyInterfaceAddress, Comment: "this gateway inside the tunnels"}
	toReal := Set{Name: mapToReal, Key: KeyAddress, Map: true, Comment: "a peer's networks as seen from here : as they are"}
	toRemapped := Set{Name: mapToRemapped, Key: KeyInterfaceAddress, Map: true, Comment: "a peer's networks as they are : as seen from here"}
	for _, p := range peers {
		dev := TunnelName(p.Index)
		end := netip.PrefixFrom(TunnelAddr(p.Role, p.Index).Addr(), 32)
		other := netip.PrefixFrom(PeerTunnelAddr(p.Role, p.Index).Addr(), 32)
		own = append(own, Element{Prefix: end, Comment: "gateway, for " + p.name()})
		tunnels.Elements = append(tunnels.Elements, Element{Interface: dev, Comment: p.name()})
		ends.Elements = append(ends.Elements, Element{Interface: dev, Prefix: end})
		sources.Elements = append(sources.Elements, Element{Interface: dev, Prefix: other, Comment: "gateway of " + p.name()})
		remapped := p.Remapped.all()
		for i, actual := range p.Real.all() {
			about := "pods of " + p.name()
			if i >= len(p.Real.Pod) {
				about = "external of " + p.name()
			}
			sources.Elements = append(sources.Elements, Element{Interface: dev, Prefix: actual, Comment: about})
			if actual == remapped[i] {
				continue
			}
			toReal.Elements = append(toReal.Elements, Element{Prefix: remapped[i], To: actual, Comment: about})
			toRemapped.Elements = append(toRemapped.Elements, Element{Interface: dev, Prefix: actual, To: remapped[i], Comment: about})
		}
	}
	return []Set{tunnels, sources, ends, addressSet(setOwn, "this cluster, as its peers know it", own), toReal, toRemapped}
}

// hostMap leads from external addresses to hosts outside the cluster.
func (in Inputs) hostMap() Set {
	s := Set{Name: mapToHosts, Key: KeyAddress, Map: true, Comment: "external addresses that stand for one host : its own"}
	for _, h := range in.Hosts {
		s.Elements = append(s.Elements, Element{Prefix: netip.PrefixFrom(h.External, 32), To: netip.PrefixFrom(h.Real, 32)})
	}
	return s
}
