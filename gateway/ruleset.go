package gateway

import (
	"net/netip"
	"slices"
	"strings"
)

func (p Peer) name() string {
	if p.ClusterID == "" {
		return "the peer of " + TunnelName(p.Index)
	}
	return p.ClusterID
}

// firewall returns the gateway's nftables table. The comments in the table are for people who use
// nft. They name the peer and the purpose of an entry.
func (in Inputs) firewall(peers []Peer) Table {
	sets := append(in.sets(peers), in.senders(), in.closed())
	sets = append(sets, portSets(peers)...)
	sets = append(sets, openSets(peers)...)
	if len(in.Hosts) > 0 {
		sets = append(sets, in.hostMap())
	}
	table := Table{
		Name:     TableName,
		Counters: []string{Arrived, DroppedClosed, DroppedDestination, DroppedFabric, DroppedInput, DroppedNodes, DroppedOutput, DroppedSource, PodsReceived, PodsSent},
		Sets:     sets,
		Chains: []Chain{
			{Name: "classify", Type: "filter", Hook: "prerouting", Priority: priorityRaw, Rules: classifyRules(peers)},
			{Name: "nodes", Type: "filter", Hook: "prerouting", Priority: afterConntrack, Rules: closedRules()},
			{Name: "own-packets", Type: "filter", Hook: "output", Priority: priorityRaw, Rules: in.outputRules(peers)},
			{Name: "own-errors", Type: "route", Hook: "output", Priority: priorityMangle, Rules: errorRules()},
			{Name: "translate-destination", Type: "nat", Hook: "prerouting", Priority: priorityDNAT, Rules: in.destinationRules()},
			{Name: "own-address", Type: "filter", Hook: "input", Priority: priorityFilter, Rules: in.inputRules(peers)},
			{Name: "clamp", Type: "filter", Hook: "forward", Priority: priorityMangle, Rules: in.clampRules(peers)},
			{Name: "answered", Type: "filter", Hook: "forward", Priority: priorityFilter, Rules: answeredRules()},
			{Name: "translate-source", Type: "nat", Hook: "postrouting", Priority: prioritySNAT, Rules: in.sourceRules()},
			{Name: "leave", Type: "filter", Hook: "postrouting", Priority: priorityLast, Rules: leaveRules()},
		},
	}
	if rules := allowRules(peers); len(rules) > 0 {
		table.Chains = append(table.Chains, Chain{Name: "allow", Type: "filter", Hook: "forward", Priority: priorityAllow, Rules: rules})
	}
	return table
}

// classifyRules judge packets from a tunnel by their addresses on the wire. So the rules run before
// conntrack and NAT, and a dropped packet makes no conntrack entry.
func classifyRules(peers []Peer) []FirewallRule {
	rules := []FirewallRule{
		rule("a peer sends only from its own addresses",
			Statement{Op: InputIn, Name: setTunnels}, Statement{Op: InputSourceIn, Not: true, Name: setPeers},
			Statement{Op: Count, Name: DroppedSource}, Statement{Op: Drop}),
		rule("a tunnel leads to pods and external addresses of this cluster only",
			Statement{Op: InputIn, Name: setTunnels}, Statement{Op: DestinationIn, Not: true, Name: setOwn},
			Statement{Op: Count, Name: DroppedDestination}, Statement{Op: Drop}),
		// This pod's addresses may be in the pods' range. Without this rule, a peer's packet to
		// such an address could go to a node, and the node could send it back to this pod. Then
		// the packet would come in at eth0, and would count as a pod's packet.
		rule("of this pod, a tunnel leads only to its own end",
			Statement{Op: InputIn, Name: setTunnels}, Statement{Op: DestinationUnicast, Not: true},
			Statement{Op: InputDestinationIn, Not: true, Name: setEnds}, Statement{Op: Count, Name: DroppedInput}, Statement{Op: Drop}),
		rule("and only from the other end",
			Statement{Op: InputIn, Name: setTunnels}, Statement{Op: InputDestinationIn, Name: setEnds},
			Statement{Op: InputSourceIn, Not: true, Name: setPeerEnds}, Statement{Op: Count, Name: DroppedInput}, Statement{Op: Drop}),
		// A peer's packet to the fabric's port could reach this cluster's gateway for another peer. Without this
		// rule, that gateway would treat it as a packet from a node, and forward the packet inside it.
		rule("no peer sends over the fabric",
			Statement{Op: InputIn, Name: setTunnels}, Statement{Op: UDPDestinationPort, Number: FabricPort},
			Statement{Op: Count, Name: DroppedDestination}, Statement{Op: Drop}),
		rule("only nodes of this cluster send over the fabric",
			Statement{Op: InputIs, Not: true, Name: FabricDevice}, Statement{Op: UDPDestinationPort, Number: FabricPort},
			Statement{Op: SourceIn, Not: true, Name: setSenders}, Statement{Op: Count, Name: DroppedFabric}, Statement{Op: Drop}),
	}
	rules = append(rules, untrackedInput(peers)...)
	rules = append(rules,
		rule("from a peer: its mark", Statement{Op: MarkByInput, Name: mapFromPeers}),
		rule("to a peer: its mark", Statement{Op: InputIn, Not: true, Name: setTunnels}, Statement{Op: MarkByDestination, Name: mapToPeers}))
	for _, p := range peers {
		rules = append(rules, rule("flows with "+p.name(),
			Statement{Op: MarkIs, Number: Mark(p.Index)}, Statement{Op: SetZone, Number: uint32(Zone(p.Index))}))
	}
	return append(rules, rule("the fabric leads to peers only",
		Statement{Op: InputIs, Name: FabricDevice}, Statement{Op: MarkIs}, Statement{Op: Count, Name: DroppedFabric}, Statement{Op: Drop}))
}

// closedRules refuse packets from peers to nodes' own addresses in the pods' range. Nodes refuse such packets
// themselves if the packets come over the fabric. But if no node has announced an address, packets to it take
// the pod network. Answers pass, because a node may open connections from such an address.
func closedRules() []FirewallRule {
	tunnel := Statement{Op: InputIn, Name: setTunnels}
	return []FirewallRule{
		rule("answers", tunnel, Statement{Op: Answer}, Statement{Op: Accept}),
		rule("no peer reaches nodes", tunnel, Statement{Op: DestinationIn, Name: setClosed}, Statement{Op: Count, Name: DroppedNodes}, Statement{Op: Drop}),
	}
}

// untrackedInput and untrackedOutput keep the tunnel's own packets out of conntrack. While
// connections of pods fill the kernel's conntrack table, the kernel lets no new connection
// through. Then a tunnel that has to dial again would stay down.
func untrackedInput(peers []Peer) []FirewallRule {
	const about = ": also where the table of connections is full"
	outside := []Statement{{Op: InputIs, Not: true, Name: FabricDevice}, {Op: InputIn, Not: true, Name: setTunnels}}
	untrack := func(what string, from []Statement, more ...Statement) FirewallRule {
		return rule(what+about, append(append(slices.Clone(from), more...), Statement{Op: Untrack}, Statement{Op: Accept})...)
	}
	rules := []FirewallRule{
		untrack("between nodes and gateways", outside, Statement{Op: UDPDestinationPort, Number: FabricPort}),
		untrack("pings and the search for the path's MTU", []Statement{{Op: InputDestinationIn, Name: setEnds}}),
	}
	for _, set := range portSets(peers) {
		port := Statement{Op: UDPDestinationPortIn, Name: set.Name}
		if set.Name == setPortsThere {
			port.Op = UDPSourcePortIn
		}
		rules = append(rules, untrack("WireGuard", outside, port))
	}
	return rules
}

// portSets match the packets between the gateways by the server's port, at our end or at
// the peer's. Most gateways have only one of the two sets.
func portSets(peers []Peer) []Set {
	here := Set{Name: setPortsHere, Key: KeyPort, Comment: "of this gateway: where peers dial"}
	there := Set{Name: setPortsThere, Key: KeyPort, Comment: "of peers: where this gateway dials"}
	for _, p := range peers {
		if p.Role == Server {
			here.addPort(p.ListenPort, p.name())
		} else {
			there.addPort(p.Endpoint.Port(), p.name())
		}
	}
	return slices.DeleteFunc([]Set{here, there}, func(s Set) bool { return len(s.Elements) == 0 })
}

// addPort adds a port, unless it is 0. Several peers can have the same port.
func (s *Set) addPort(port uint16, about string) {
	const others = " and others" // nft takes 128 bytes of comment
	i := slices.IndexFunc(s.Elements, func(e Element) bool { return e.Port == port })
	switch {
	case port == 0:
	case i < 0:
		s.Elements = append(s.Elements, Element{Port: port, Comment: about})
	case !strings.HasSuffix(s.Elements[i].Comment, others):
		s.Elements[i].Comment += others
	}
}

func (in Inputs) untrackedOutput() []FirewallRule {
	inside := Statement{Op: OutputIn, Name: setTunnels}
	rules := []FirewallRule{
		rule("between nodes and gateways", Statement{Op: UDPDestinationPort, Number: FabricPort}, Statement{Op: Untrack}),
		rule("pings, and answers to them", inside, Statement{Op: UDPSourcePort, Number: PingPort}, Statement{Op: Untrack}),
		rule("answers about the path's MTU", inside, Statement{Op: UDPSourcePort, Number: PathMTUPort}, Statement{Op: Untrack}),
		rule("questions about the path's MTU", inside, Statement{Op: UDPDestinationPort, Number: PathMTUPort}, Statement{Op: Untrack}),
	}
	if in.Services {
		rules = append(rules,
			rule("exported Services", inside, Statement{Op: TCPSourcePort, Number: ExportsPort}, Statement{Op: Untrack}),
			rule("questions about exported Services", inside, Statement{Op: TCPDestinationPort, Number: ExportsPort}, Statement{Op: Untrack}))
	}
	return rules
}

func (in Inputs) outputRules(peers []Peer) []FirewallRule {
	rules := in.untrackedOutput()
	for _, set := range portSets(peers) {
		port := Statement{Op: UDPSourcePortIn, Name: set.Name}
		if set.Name == setPortsThere {
			port.Op = UDPDestinationPortIn
		}
		// The kernel's WireGuard lets routers split its packets into fragments. Without this
		// rule, a question about the path's MTU would pass in fragments, even on a path that
		// loses fragments if many come in a row. Userspace WireGuard forbids fragments itself.
		rules = append(rules, rule("WireGuard: in one piece, so that the search finds the path's MTU",
			port, Statement{Op: DontFragment}, Statement{Op: Untrack}))
	}
	if len(peers) > 0 {
		// If a pod's packet is too long, this gateway sends the pod an ICMP error. The pod knows only the
		// remapped address of the destination, so conntrack has to translate the error in the flow's zone.
		// The error does not name the zone, so the rule uses the zone of the first peer. A gateway has only
		// one peer. Errors about further peers would come from the nodes, because the nodes' routes have an
		// MTU.
		p := peers[0]
		rules = append(rules, rule("errors about flows to "+p.name()+" are translated as the flows are",
			Statement{Op: ICMPUnreachable}, Statement{Op: SetZone, Number: uint32(Zone(p.Index))}))
	}
	return rules
}

// errorRules send the gateway's ICMP errors over the fabric, as answers are sent. A node accepts
// packets with a remapped source only from the fabric.
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

// inputRules let a tunnel reach the gateway's ping responder and nothing else of the gateway. Only the tunnel
// leads to the responder, because nothing else authenticates pings. Exported Services are served in the same
// way, if the gateways exchange Services.
func (in Inputs) inputRules(peers []Peer) []FirewallRule {
	mine := Statement{Op: InputDestinationIn, Name: setEnds}
	ping := Statement{Op: UDPDestinationPort, Number: PingPort}
	question := Statement{Op: UDPDestinationPort, Number: PathMTUPort}
	count, drop := Statement{Op: Count, Name: DroppedInput}, Statement{Op: Drop}
	var rules []FirewallRule
	if slices.ContainsFunc(portSets(peers), func(s Set) bool { return s.Name == setPortsHere }) {
		rules = append(rules, rule("WireGuard of peers, or of senders that claim to be peers",
			Statement{Op: InputIn, Not: true, Name: setTunnels}, Statement{Op: UDPDestinationPortIn, Name: setPortsHere},
			Statement{Op: Count, Name: Arrived}, Statement{Op: Accept}))
	}
	rules = append(rules,
		rule("ping between gateways", mine, ping, Statement{Op: Accept}),
		rule("question about the path's MTU", mine, question, Statement{Op: Accept}))
	exports := Statement{Op: TCPDestinationPort, Number: ExportsPort}
	if in.Services {
		// Connections between gateways are not tracked, so an answer is recognized by its source port. A
		// packet that opens a connection is no answer. If the rule accepted it, the peer could reach every
		// port of this pod from this source port.
		rules = append(rules,
			rule("question about exported Services", mine, exports, Statement{Op: Accept}),
			rule("answers to this gateway's questions", mine, Statement{Op: TCPSourcePort, Number: ExportsPort},
				Statement{Op: TCPOpens, Not: true}, Statement{Op: Accept}))
	}
	rules = append(rules,
		rule("", mine, Statement{Op: ICMP}, Statement{Op: Accept}),
		rule("of this pod, a tunnel leads to nothing else", Statement{Op: InputIn, Name: setTunnels}, count, drop),
		rule("pings count only if they come through a tunnel", ping, count, drop),
		rule("and so do questions about the path's MTU", question, count, drop),
	)
	if in.Services {
		rules = append(rules, rule("only the peer's gateway reads the exported Services", exports, count, drop))
	}
	return rules
}

// clampRules limit the length of TCP segments to the length that the tunnel carries. Some senders
// don't learn this length in another way.
func (in Inputs) clampRules(peers []Peer) []FirewallRule {
	var rules []FirewallRule
	for _, p := range peers {
		size := Statement{Op: MaximumSegment, Number: uint32(in.carries(p) - 40)} // IPv4 20, TCP 20
		rules = append(rules, rule("from "+p.name()+" and to it: segments that the path carries",
			Statement{Op: MarkIs, Number: Mark(p.Index)}, Statement{Op: TCPSYN}, size))
	}
	return rules
}

// allowRules let a peer that is [Peer.Closed] open connections only to its open endpoints. They judge each
// packet of a connection, so they also end connections that were opened before the peer was closed. Conntrack
// has to keep the entries of such connections. Without the entry, the next packet of this cluster's pod would
// create an entry in which the pod opens the connection. Then the peer's packets would pass as answers.
func allowRules(peers []Peer) []FirewallRule {
	var rules []FirewallRule
	for _, p := range peers {
		if !p.Closed {
			continue
		}
		from, accept := Statement{Op: InputIs, Name: TunnelName(p.Index)}, Statement{Op: Accept}
		rules = append(rules,
			rule("answers of "+p.name()+", and errors about packets to it", from, Statement{Op: Answer}, accept),
			rule("open to "+p.name(), from, Statement{Op: EndpointIn, Name: setOpen + TunnelName(p.Index)}, accept))
		if len(p.Open) > 0 {
			rules = append(rules, rule("errors about answers to "+p.name(), from, Statement{Op: ICMP}, Statement{Op: Related}, accept))
		}
		rules = append(rules,
			rule("for admins: the latest dropped destinations", from, Statement{Op: Remember, Name: SetClosedLately}),
			rule("everything else is closed to "+p.name(), from, Statement{Op: Count, Name: DroppedClosed}, Statement{Op: Drop}))
	}
	return rules
}

// openSets returns a set with the open endpoints of each closed peer, and a set with the endpoints of dropped
// packets.
func openSets(peers []Peer) []Set {
	var sets []Set
	for _, p := range peers {
		if !p.Closed {
			continue
		}
		s := Set{Name: setOpen + TunnelName(p.Index), Key: KeyEndpoint, Comment: "where " + p.name() + " may open connections"}
		for _, e := range p.Open {
			s.Elements = append(s.Elements, Element{Prefix: netip.PrefixFrom(e.Addr, 32), Protocol: e.Protocol, Port: e.Port})
		}
		slices.SortFunc(s.Elements, compareElement)
		s.Elements = slices.Compact(s.Elements)
		sets = append(sets, s)
	}
	if len(sets) > 0 {
		sets = append(sets, Set{Name: SetClosedLately, Key: KeyEndpoint, Lately: true, Comment: "where peers wanted to go, and did not get"})
	}
	return sets
}

// answeredRules count packets of answered flows in each direction, because such packets prove a
// path from pod to pod. A repeated SYN is no proof: conntrack may have seen an answer to the first
// SYN, so the flow counts as answered. But a pod repeats a SYN only if the answer has not reached it.
func answeredRules() []FirewallRule {
	answered := Statement{Op: Established}
	return []FirewallRule{
		rule("a repeated SYN proves nothing", Statement{Op: TCPSYN}, Statement{Op: Accept}),
		rule("flows that were answered: to a peer", Statement{Op: OutputIn, Name: setTunnels}, answered, Statement{Op: Count, Name: PodsSent}),
		rule("flows that were answered: from a peer", Statement{Op: InputIn, Name: setTunnels}, answered, Statement{Op: Count, Name: PodsReceived}),
	}
}

func (in Inputs) sourceRules() []FirewallRule {
	return []FirewallRule{
		// Only packets to the nodes are translated, not WireGuard's encrypted packets. For the
		// kernel, these also come in by the tunnel. Their source is this pod's address, which
		// may be in the peer's pod CIDR. So without this condition, the map could match them.
		rule("from a peer: its pods appear under the addresses that they have here",
			Statement{Op: OutputIs, Name: FabricDevice}, Statement{Op: SourceByMap, Name: mapToRemapped}),
		// The peer knows only one address for all nodes, the first external address.
		rule("to a peer: nodes, and pods in their host's network, share one address",
			Statement{Op: OutputIn, Name: setTunnels}, Statement{Op: SourceIn, Not: true, Name: setOwn},
			Statement{Op: SourceTo, Addr: in.Local.External[0].Addr()}),
	}
}

func leaveRules() []FirewallRule {
	return []FirewallRule{
		// The fabric's device puts the packet into an outer packet, which inherits the mark. With the mark,
		// the outer packet would be sent into the fabric again.
		rule("the packet around this packet must not have the mark",
			Statement{Op: MarkIs, Number: errorMark}, Statement{Op: SetMark, Number: 0}),
		// NAT does not change the source of an ICMP error if the flow's own source is not
		// translated. No peer knows a node's address, so the pod's address replaces it.
		rule("errors of nodes about pods' packets come from the pods",
			Statement{Op: OutputIn, Name: setTunnels}, Statement{Op: SourceIn, Not: true, Name: setOwn},
			Statement{Op: ICMP}, Statement{Op: Related}, Statement{Op: SourceOfError}),
		// NAT does not translate packets that are invalid for conntrack, such as a lone RST or a
		// segment outside the window. Their source may then be an address of this cluster, even
		// the address of a gateway pod.
		rule("a peer appears here only under its own addresses",
			Statement{Op: OutputIs, Name: FabricDevice}, Statement{Op: InputIn, Name: setTunnels}, Statement{Op: InputSourceIn, Not: true, Name: setSeen},
			Statement{Op: Count, Name: DroppedSource}, Statement{Op: Drop}),
		rule("a peer sees only addresses that it knows",
			Statement{Op: OutputIn, Name: setTunnels}, Statement{Op: SourceIn, Not: true, Name: setOwn},
			Statement{Op: Count, Name: DroppedOutput}, Statement{Op: Drop}),
	}
}

// sets returns the sets that have entries for all peers.
func (in Inputs) sets(peers []Peer) []Set {
	own := append(elements("pods", in.Local.Pod), elements("external", in.Local.External)...)
	tunnels := Set{Name: setTunnels, Key: KeyInterface, Comment: "WireGuard devices: one per peer"}
	sources := Set{Name: setPeers, Key: KeyInterfaceAddress, Comment: "what each peer sends from"}
	seen := Set{Name: setSeen, Key: KeyInterfaceAddress, Comment: "what each peer sends from, as seen from here"}
	ends := Set{Name: setEnds, Key: KeyInterfaceAddress, Comment: "this gateway inside the tunnels"}
	others := Set{Name: setPeerEnds, Key: KeyInterfaceAddress, Comment: "the peers' gateways inside the tunnels"}
	// The comments of maps have the form "keys : values".
	toReal := Set{Name: mapToReal, Key: KeyAddress, Value: ValuePrefix, Comment: "a peer's networks as seen from here : as they are"}
	toRemapped := Set{Name: mapToRemapped, Key: KeyInterfaceAddress, Value: ValuePrefix, Comment: "a peer's networks as they are : as seen from here"}
	fromPeers := Set{Name: mapFromPeers, Key: KeyInterface, Value: ValueMark, Comment: "WireGuard devices : marks of their packets"}
	toPeers := Set{Name: mapToPeers, Key: KeyAddress, Value: ValueMark, Comment: "a peer's networks as seen from here : marks of packets to it"}
	for _, p := range peers {
		dev := TunnelName(p.Index)
		end := netip.PrefixFrom(TunnelAddr(p.Role, p.Index).Addr(), 32)
		other := netip.PrefixFrom(PeerTunnelAddr(p.Role, p.Index).Addr(), 32)
		own = append(own, Element{Prefix: end, Comment: "gateway, for " + p.name()})
		tunnels.Elements = append(tunnels.Elements, Element{Interface: dev, Comment: p.name()})
		ends.Elements = append(ends.Elements, Element{Interface: dev, Prefix: end})
		others.Elements = append(others.Elements, Element{Interface: dev, Prefix: other})
		sources.Elements = append(sources.Elements, Element{Interface: dev, Prefix: other, Comment: "gateway of " + p.name()})
		fromPeers.Elements = append(fromPeers.Elements, Element{Interface: dev, Mark: Mark(p.Index), Comment: p.name()})
		remapped := p.Remapped.all()
		for i, actual := range p.Real.all() {
			about := "pods of " + p.name()
			if i >= len(p.Real.Pod) {
				about = "external of " + p.name()
			}
			sources.Elements = append(sources.Elements, Element{Interface: dev, Prefix: actual, Comment: about})
			seen.Elements = append(seen.Elements, Element{Interface: dev, Prefix: remapped[i], Comment: about})
			toPeers.Elements = append(toPeers.Elements, Element{Prefix: remapped[i], Mark: Mark(p.Index), Comment: about})
			if actual == remapped[i] {
				continue
			}
			toReal.Elements = append(toReal.Elements, Element{Prefix: remapped[i], To: actual, Comment: about})
			toRemapped.Elements = append(toRemapped.Elements, Element{Interface: dev, Prefix: actual, To: remapped[i], Comment: about})
		}
		for _, a := range p.aliases() {
			about := "while " + p.name() + " is renumbered"
			seen.Elements = append(seen.Elements, Element{Interface: dev, Prefix: a.Seen, Comment: about})
			toPeers.Elements = append(toPeers.Elements, Element{Prefix: a.Seen, Mark: Mark(p.Index), Comment: about})
			if a.Seen != a.Real {
				toReal.Elements = append(toReal.Elements, Element{Prefix: a.Seen, To: a.Real, Comment: about})
			}
		}
	}
	return []Set{tunnels, sources, seen, ends, others, addressSet(setOwn, "this cluster, as its peers know it", own), fromPeers, toPeers, toReal, toRemapped}
}

// senders returns the addresses from which nodes send packets. A node may send to a pod from
// an address in the pods' range, for example from the address of a bridge or of an
// overlay's device. These addresses change with the pods on the node. A node may also send
// from a link-local address, which pod networks give to the node's end of a pod's link. No
// router passes on packets from such an address.
func (in Inputs) senders() Set {
	nodes := make([]netip.Addr, 1, 1+2*len(in.Nodes))
	nodes[0] = in.NodeIP
	for _, n := range in.Nodes {
		nodes = append(append(nodes, n.IP), n.Addresses...)
	}
	slices.SortFunc(nodes, netip.Addr.Compare) // cheaper than sorting the elements
	ranges := append(elements("pods, and devices that lead to them", in.Local.Pod), Element{Prefix: linkLocal(), Comment: "the node's end of this pod's link"})
	return addressSet(setSenders, "where nodes of this cluster send from", hosts(slices.Compact(nodes), ranges...))
}

// closed returns the set of the nodes' own addresses in the pods' range.
func (in Inputs) closed() Set {
	var all []netip.Addr
	keep := func(addresses ...netip.Addr) {
		for _, a := range addresses {
			if slices.ContainsFunc(in.Local.Pod, func(c netip.Prefix) bool { return c.Contains(a) }) {
				all = append(all, a)
			}
		}
	}
	keep(in.NodeIP)
	for _, n := range in.Nodes {
		keep(n.IP)
		keep(n.Addresses...)
	}
	return addressSet(setClosed, "nodes, under addresses in the pods' range", hosts(all))
}

func (in Inputs) hostMap() Set {
	s := Set{Name: mapToHosts, Key: KeyAddress, Value: ValuePrefix, Comment: "external addresses that stand for one host : its own"}
	for _, h := range in.Hosts {
		s.Elements = append(s.Elements, Element{Prefix: netip.PrefixFrom(h.External, 32), To: netip.PrefixFrom(h.Real, 32)})
	}
	return s
}
