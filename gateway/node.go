package gateway

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/liqo-tui/liqo-tui/internal/ipam"
)

// beforeMasquerade is just before the chains of the CNI and of kube-proxy, which masquerade at priority 100.
// The first chain that sets the source of a connection decides.
const beforeMasquerade = 99

// ComputeNode returns the wanted kernel state of a node. It has routes to the gateways, and
// rules. The rules keep the CNI from changing the sources of packets to the gateways, and refuse
// packets of peers to the node itself.
func ComputeNode(in NodeInputs) (KernelState, error) {
	if err := in.check(); err != nil {
		return KernelState{}, err
	}
	s := KernelState{
		Links: []Link{fabricLink(in.NodeIP, in.UnderlayMTU)},
		Rules: []Rule{{Preference: NodeErrorPref, Mark: errorMark, Table: ErrorTable}, {Preference: NodePref, Table: NodeTable}},
		// Forwarding is for machines on which net.ipv4.ip_forward is 0 and the pod network enables it
		// for its own devices, as OVN-Kubernetes does. The setting belongs to our device, and disappears
		// with the device.
		//
		// ReversePathMark is for machines that set rp_filter for all devices. If a machine sets
		// rp_filter only as the default of new devices, the kernel does not check our device,
		// because ReversePath is 0 there. Then marks don't matter.
		Settings: []Setting{{FabricDevice, Forwarding, 1}, {FabricDevice, ReversePath, 0}, {FabricDevice, ReversePathMark, 1}},
	}
	for _, c := range in.closed() {
		s.Routes = append(s.Routes, Route{Table: NodeTable, Type: Blackhole, Destination: c})
	}
	var remotes, refused, gateways []Element
	for _, g := range in.Gateways {
		// The elements have no comments: there may be thousands, and the routes name the
		// gateway.
		remotes = append(remotes, elements("", g.RemoteCIDRs)...)
		if g.Gone {
			// Without a route, packets to the peer would leave the cluster. The type is not
			// "unreachable", because a sender that gets this error gives up, although the gateway
			// will soon have another pod.
			for _, c := range g.RemoteCIDRs {
				s.Routes = append(s.Routes, Route{Table: NodeTable, Type: Blackhole, Destination: c})
			}
			continue
		}
		if g.HostIP.IsValid() {
			s.reach(g.PodIP, g.HostIP)
		} else {
			s.reach(g.PodIP, g.PodIP)
		}
		own := netip.PrefixFrom(g.PodIP, 32)
		s.Routes = append(s.Routes, Route{Table: ErrorTable, Type: Unicast, Destination: own, Via: g.PodIP, Device: FabricDevice})
		gateways = append(gateways, Element{Prefix: own, Comment: g.Name})
		for _, c := range g.RemoteCIDRs {
			s.Routes = append(s.Routes, Route{
				Table: NodeTable, Type: Unicast, Destination: c, Via: g.PodIP, Device: FabricDevice,
				Source: in.NodeIP, MTU: min(g.MTU, cmp.Or(g.UnderlayMTU, in.UnderlayMTU)-vxlanOverhead),
			})
		}
	}
	for _, e := range remotes {
		e.Counts = true
		refused = append(refused, e)
	}
	s.Firewall = Table{
		Name:     TableName,
		Counters: []string{DroppedFabric, DroppedNodes},
		Sets: []Set{
			{Name: setGateways, Key: KeyHost, Comment: "pods that send over the fabric", Elements: gateways},
			addressSet(setGiven, "hosts outside, nodes and Services that an admin has opened to peers", in.given()),
			addressSet(setPods, "pods of this cluster", elements("", in.PodCIDRs)),
			addressSet(SetRefused, "ranges of other clusters, with counts of refused packets", refused),
			addressSet(setRemotes, "other clusters, as seen from here", remotes),
			addressSet(setSenders, "pods of gateways, and the nodes of these pods", append(in.senders(), gateways...)),
		},
		Chains: []Chain{
			{Name: "enter", Type: "filter", Hook: "prerouting", Priority: priorityFirst, Rules: enterRules()},
			{Name: "fabric", Type: "filter", Hook: "prerouting", Priority: priorityRaw, Rules: append(fabricRules(), in.passOnRules()...)},
			{Name: "own-addresses", Type: "filter", Hook: "prerouting", Priority: afterConntrack, Rules: ownRules()},
			{Name: "own-packets", Type: "filter", Hook: "output", Priority: priorityRaw, Rules: []FirewallRule{
				rule("to gateways: not tracked, since each pod's flow would need an entry", Statement{Op: UDPDestinationPort, Number: FabricPort}, Statement{Op: Untrack}),
			}},
			{Name: "arrive", Type: "filter", Hook: "input", Priority: priorityMangle, Rules: in.arriveRules()},
			{Name: "pass", Type: "filter", Hook: "forward", Priority: priorityMangle, Rules: passRules()},
			{Name: "keep-source", Type: "nat", Hook: "postrouting", Priority: beforeMasquerade, Rules: in.keepSourceRules()},
			{Name: "leave", Type: "filter", Hook: "postrouting", Priority: priorityLast, Rules: []FirewallRule{
				// Other nodes accept packets from the address of a gateway's node, because they may be
				// packets of the gateway. So this node must not send other packets from this address. The
				// rule can't use the destination: a node can have an address in the pods' range, and a
				// Service can translate another port to this port.
				//
				// The rule also drops packets of a gateway's new pod on this node until the agent knows
				// the pod's address. The drop adds no delay: all nodes learn the address from the same
				// write of the InternalFabric. Before this write, no node sends to the pod. A takeover
				// takes 0.1 to 0.4 s with this, and at most 8 s more if the agent's connection has died.
				// The drop has no lasting effect: a dropped packet leaves no entry in conntrack, and
				// retransmissions pass. If this node has no running agent, the rules of the last agent
				// drop the new pod's packets. Then the other nodes' agents get no answers from the pod,
				// and LT-D016 names these nodes.
				rule("only gateways send over the fabric under this node's address", Statement{Op: UDPDestinationPort, Number: FabricPort},
					Statement{Op: Masqueraded}, Statement{Op: OriginalSourceIn, Not: true, Name: setGateways}, Statement{Op: Count, Name: DroppedFabric}, Statement{Op: Drop}),
			}},
		},
	}
	s.sort()
	return s, nil
}

// enterRules remove the marks of a peer's packets. They run before the rules of other programs.
// Cilium marks the packets of a pod with the pod's identity, and the kernel copies the mark of a
// VXLAN packet to the packet inside. So Cilium's network policies would take a peer's packet for
// a packet of the gateway's pod.
func enterRules() []FirewallRule {
	return []FirewallRule{rule("a peer's packets come without a mark", Statement{Op: InputIs, Name: FabricDevice}, Statement{Op: SetMark, Number: 0})}
}

// ownRules refuse packets of peers to this node's own addresses. The address of a bridge, of an overlay's
// device, or of the node itself can be in the pods' range. The rules need no list of addresses, so they work
// for a new address at once. They run before kube-proxy and other programs translate a port of the node.
// After the translation, the destination is a pod. Packets of peers can also arrive over the pod network, if
// another node did not know the node of the pod.
func ownRules() []FirewallRule {
	elsewhere := Statement{Op: InputIs, Not: true, Name: FabricDevice}
	return append([]FirewallRule{
		rule("answers", Statement{Op: Answer}, Statement{Op: Accept}),
		// For most packets on a node, this is cheaper than a search for the source.
		rule("", elsewhere, Statement{Op: Established}, Statement{Op: Accept}),
		rule("not from a peer", elsewhere, Statement{Op: SourceIn, Not: true, Name: setRemotes}, Statement{Op: Accept}),
		rule("an admin has opened it to peers", Statement{Op: DestinationIn, Name: setGiven}, Statement{Op: Accept}),
	}, refuse("no peer reaches this node", Statement{Op: DestinationUnicast, Not: true})...)
}

// refuse returns two rules. The first rule counts a packet for its peer. It has no effect if the
// set does not have the source. The second rule drops the packet.
func refuse(about string, conditions ...Statement) []FirewallRule {
	of := append(slices.Clone(conditions), Statement{Op: SourceIn, Name: SetRefused})
	return []FirewallRule{
		rule("counted for the peer", of...),
		rule(about, append(conditions, Statement{Op: Count, Name: DroppedNodes}, Statement{Op: Drop})...),
	}
}

// passRules judge the destinations of packets after kube-proxy has translated them. This is needed
// because the pods' range can contain the Services' range, and a Service can lead to a node.
func passRules() []FirewallRule {
	fabric := Statement{Op: InputIs, Name: FabricDevice}
	return slices.Concat([]FirewallRule{
		rule("the mark is not needed any more", Statement{Op: MarkIs, Number: errorMark}, Statement{Op: SetMark, Number: 0}),
	}, refuse("no peer reaches gateways' own ports", fabric, Statement{Op: DestinationIn, Name: setGateways}), []FirewallRule{
		rule("answers", fabric, Statement{Op: Answer}, Statement{Op: Accept}),
		rule("an admin has opened it to peers", fabric, Statement{Op: OriginalDestinationIn, Name: setGiven}, Statement{Op: Accept}),
	}, refuse("no Service leads a peer out of the pods' range", fabric, Statement{Op: Redirected}, Statement{Op: DestinationIn, Not: true, Name: setPods}))
}

// closed returns Closed without the ranges of this cluster's pods and of other peers. The returned
// ranges need a route. Without it, packets to them would leave by the node's default route,
// unencrypted.
func (in NodeInputs) closed() []netip.Prefix {
	var taken []ipam.Reservation
	for _, c := range in.PodCIDRs {
		taken = append(taken, ipam.Reservation{Prefix: c})
	}
	for _, g := range in.Gateways {
		for _, c := range g.RemoteCIDRs {
			taken = append(taken, ipam.Reservation{Prefix: c})
		}
	}
	var valid []netip.Prefix
	for _, c := range in.Closed {
		if c.IsValid() && c.Addr().Is4() {
			valid = append(valid, c.Masked())
		}
	}
	return ipam.Without(outermost(valid), taken)
}

// given returns the addresses of hosts, nodes and Services that an admin has made reachable for peers.
// Gateways translate addresses of the external range into them.
func (in NodeInputs) given() []Element {
	var all []Element
	for _, g := range in.Gateways {
		all = append(all, hosts(g.Hosts)...)
	}
	return all
}

// fabricRules drop packets of the fabric from pods that are no gateways, because the packets have no
// proof of their sender. They run first, before a masquerade can give the packets the node's own
// address.
//
// These rules can't judge packets to the pods' range. Gateways have addresses in this range. A node
// sends to a gateway from the source address of its route, and this address can also be in the range.
// The chain "leave" judges such packets if they are masqueraded.
func fabricRules() []FirewallRule {
	count, drop := Statement{Op: Count, Name: DroppedFabric}, Statement{Op: Drop}
	return []FirewallRule{
		rule("of all pods, only gateways send over the fabric to nodes",
			Statement{Op: UDPDestinationPort, Number: FabricPort}, Statement{Op: SourceIn, Name: setPods},
			Statement{Op: SourceIn, Not: true, Name: setGateways}, Statement{Op: DestinationIn, Not: true, Name: setPods}, count, drop),
		// A gateway's own packets are its errors about pods' packets, mainly about packets that
		// are too long. This rule is for clusters without remapped addresses. With remapped
		// addresses, the error is translated, and its source is an address of the peer.
		//
		// Many distributions set net.ipv4.conf.all.rp_filter. On a device without addresses, the
		// loose mode works like the strict mode (__fib_validate_source): the kernel drops a packet
		// if the node's route to the packet's source uses another device.
		rule("gateways' own errors: the route back is the fabric",
			Statement{Op: InputIs, Name: FabricDevice}, Statement{Op: SourceIn, Name: setGateways},
			Statement{Op: ICMPUnreachable}, Statement{Op: SetMark, Number: errorMark}, Statement{Op: Accept}),
		rule("gateways send packets of other clusters' pods, their own errors, and nothing else",
			Statement{Op: InputIs, Name: FabricDevice}, Statement{Op: SourceIn, Not: true, Name: setRemotes}, count, drop),
	}
}

// passOnRules are for packets of other nodes to gateways' pods on this node. The other nodes send
// them to this node's own address, and the frame names the gateway. In an overlay network, packets
// to the pod's address would be segmented before the overlay's device, because the kernel has no
// offload for a tunnel in a tunnel. In a measurement, that took a third more CPU for the whole path
// from pod to pod. The gateway checks the senders.
func (in NodeInputs) passOnRules() []FirewallRule {
	toNode := []Statement{{Op: UDPDestinationPort, Number: FabricPort}, {Op: DestinationHere}}
	return []FirewallRule{
		rule("for a gateway's pod on this node", append(slices.Clone(toNode),
			Statement{Op: FrameNotTo, Addr: in.NodeIP}, Statement{Op: DestinationOfFrame}, Statement{Op: SetMark, Number: frameMark})...),
		rule("for no other pod", Statement{Op: MarkIs, Number: frameMark}, Statement{Op: DestinationIn, Not: true, Name: setGateways},
			Statement{Op: Count, Name: DroppedFabric}, Statement{Op: Drop}),
		rule("the mark is not needed any more", Statement{Op: MarkIs, Number: frameMark}, Statement{Op: SetMark, Number: 0}),
		// Packets from gateways to other nodes stay tracked: pod networks masquerade them.
		rule("nodes to gateways: not tracked, since each pod's flow would need an entry",
			Statement{Op: UDPDestinationPort, Number: FabricPort}, Statement{Op: DestinationIn, Name: setGateways}, Statement{Op: Untrack}),
		rule("gateways to this node: not tracked, since each pod's flow would need an entry",
			append(toNode, Statement{Op: Untrack})...),
	}
}

// arriveRules drop packets of the fabric from all senders that are not gateways. A pod network may
// send a gateway's packets from the address of the gateway's node. So the rule is left out while the
// operator has not published the nodes of all gateways.
func (in NodeInputs) arriveRules() []FirewallRule {
	fabric := Statement{Op: InputIs, Name: FabricDevice}
	var rules []FirewallRule
	if !slices.ContainsFunc(in.Gateways, func(g Gateway) bool { return !g.Gone && len(g.NodeIPs) == 0 }) {
		rules = append(rules, rule("only gateways send over the fabric to this node", Statement{Op: UDPDestinationPort, Number: FabricPort},
			Statement{Op: SourceIn, Not: true, Name: setSenders}, Statement{Op: Count, Name: DroppedFabric}, Statement{Op: Drop}))
	}
	rules = append(rules,
		rule("answers", fabric, Statement{Op: Answer}, Statement{Op: Accept}),
		rule("an admin has opened it to peers", fabric, Statement{Op: OriginalDestinationIn, Name: setGiven}, Statement{Op: Accept}))
	return append(rules, refuse("no Service leads a peer to this node", fabric)...)
}

func (in NodeInputs) senders() []Element {
	var all []Element
	for _, g := range in.Gateways {
		if !g.Gone {
			all = append(all, hosts(g.NodeIPs)...)
		}
	}
	return all
}

func (in NodeInputs) keepSourceRules() []FirewallRule {
	return []FirewallRule{
		rule("other clusters see pods under their own addresses, not this node's",
			Statement{Op: SourceIn, Name: setPods}, Statement{Op: DestinationIn, Name: setRemotes}, Statement{Op: SourceKeep}),
		rule("pods see the addresses of other clusters' pods",
			Statement{Op: SourceIn, Name: setRemotes}, Statement{Op: DestinationIn, Name: setPods}, Statement{Op: SourceKeep}),
		// This rule is for all other senders, such as clients of a NodePort, or containers that
		// Kubernetes does not know. The fabric device has no address of its own, so a masquerade
		// would use the address of an arbitrary device.
		rule("other senders than pods get this node's address",
			Statement{Op: OutputIs, Name: FabricDevice}, Statement{Op: DestinationIn, Name: setRemotes},
			Statement{Op: SourceTo, Addr: in.NodeIP}),
		rule("hosts outside have no route to other clusters' pods",
			Statement{Op: SourceIn, Name: setRemotes}, Statement{Op: DestinationIn, Not: true, Name: setPods},
			Statement{Op: SourceTo, Addr: in.NodeIP}),
	}
}
