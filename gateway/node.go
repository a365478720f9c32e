package gateway

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/liqo-tui/liqo-tui/internal/ipam"
)

// beforeMasquerade runs just before the chains of the CNI and of kube-proxy,
// which masquerade at 100. The first chain that binds a connection wins.
const beforeMasquerade = 99

// ComputeNode returns the state of a node: routes to the gateways, and rules that keep the
// CNI from changing the sources of such packets.
func ComputeNode(in NodeInputs) (KernelState, error) {
	if err := in.check(); err != nil {
		return KernelState{}, err
	}
	s := KernelState{
		Links: []Link{fabricLink(in.NodeIP, in.UnderlayMTU)},
		Rules: []Rule{{Preference: NodeErrorPref, Mark: errorMark, Table: ErrorTable}, {Preference: NodePref, Table: NodeTable}},
		// ReversePathMark is for machines with rp_filter on all devices. A machine that sets it
		// only as the default of new devices does not check our device, so marks don't matter there.
		Settings: []Setting{{FabricDevice, ReversePath, 0}, {FabricDevice, ReversePathMark, 1}},
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
			// The type is not "unreachable": a sender that gets that error gives up, although the
			// next pod is near. A route is needed: otherwise packets to the peer would leave the
			// cluster.
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
			addressSet(setGiven, "hosts outside, nodes and Services that peers were given addresses of", in.given()),
			addressSet(setPods, "pods of this cluster", elements("", in.PodCIDRs)),
			addressSet(SetRefused, "what was refused of each other cluster", refused),
			addressSet(setRemotes, "other clusters, as seen from here", remotes),
			addressSet(setSenders, "gateways' pods, and the nodes that those are on", append(in.senders(), gateways...)),
		},
		Chains: []Chain{
			{Name: "enter", Type: "filter", Hook: "prerouting", Priority: priorityFirst, Rules: enterRules()},
			{Name: "fabric", Type: "filter", Hook: "prerouting", Priority: priorityRaw, Rules: append(fabricRules(), in.passOnRules()...)},
			{Name: "own-addresses", Type: "filter", Hook: "prerouting", Priority: afterConntrack, Rules: ownRules()},
			{Name: "own-packets", Type: "filter", Hook: "output", Priority: priorityRaw, Rules: []FirewallRule{
				rule("to gateways: no connection is kept, of which each pod's flow would take one", Statement{Op: UDPDestinationPort, Number: FabricPort}, Statement{Op: Untrack}),
			}},
			{Name: "arrive", Type: "filter", Hook: "input", Priority: priorityMangle, Rules: in.arriveRules()},
			{Name: "pass", Type: "filter", Hook: "forward", Priority: priorityMangle, Rules: passRules()},
			{Name: "keep-source", Type: "nat", Hook: "postrouting", Priority: beforeMasquerade, Rules: in.keepSourceRules()},
			{Name: "leave", Type: "filter", Hook: "postrouting", Priority: priorityLast, Rules: []FirewallRule{
				// Other nodes accept packets from the address of a gateway's node as the gateway's. The
				// destination does not help to judge packets: nodes have addresses in the pods' range,
				// and a Service can lead from another port to this one.
				//
				// Packets of a gateway's new pod on this node are dropped until the agent knows its
				// address. That costs no extra time: nodes send nothing to a pod that no InternalFabric
				// names, and all nodes learn the address from the same write (a takeover with this in it: 0.1
				// to 0.4 s; at most 8 s more if the agent's connection has died). The drop has no lasting
				// effect: a packet that is dropped here or before leaves no entry in conntrack, and
				// retransmissions pass. If this node has no running agent, the rules of the last agent drop
				// the new pod's packets. The other nodes' agents then get no answers from the pod, and
				// LT-D016 names these nodes.
				rule("but for gateways, nobody sends over the fabric as this node", Statement{Op: UDPDestinationPort, Number: FabricPort},
					Statement{Op: Masqueraded}, Statement{Op: OriginalSourceIn, Not: true, Name: setGateways}, Statement{Op: Count, Name: DroppedFabric}, Statement{Op: Drop}),
			}},
		},
	}
	s.sort()
	return s, nil
}

// enterRules run before the rules of other programs. The kernel copies the mark of a VXLAN
// packet to the packet inside. Cilium marks a pod's packets with the pod's identity, so its
// network policies would mistake a peer's packet for a packet of the gateway's pod.
func enterRules() []FirewallRule {
	return []FirewallRule{rule("a peer's packets come without a mark", Statement{Op: InputIs, Name: FabricDevice}, Statement{Op: SetMark, Number: 0})}
}

// ownRules close this node's own addresses to peers. Such an address can be in the pods'
// range: that of a bridge, of an overlay's device, or of the node itself. The rules need no
// list of addresses, so an address is closed as soon as it exists. They run before programs
// that lead a port of the node to a pod, such as kube-proxy: after these, the destination is
// the pod. Peers' packets can also come by the pod network, from a node that did not know
// where the address is.
func ownRules() []FirewallRule {
	elsewhere := Statement{Op: InputIs, Not: true, Name: FabricDevice}
	return append([]FirewallRule{
		rule("answers", Statement{Op: Answer}, Statement{Op: Accept}),
		// For most packets on a node, this is cheaper than a search for the source.
		rule("", elsewhere, Statement{Op: Established}, Statement{Op: Accept}),
		rule("not from a peer", elsewhere, Statement{Op: SourceIn, Not: true, Name: setRemotes}, Statement{Op: Accept}),
		rule("an admin gave peers an address of it", Statement{Op: DestinationIn, Name: setGiven}, Statement{Op: Accept}),
	}, refuse("no peer reaches this node", Statement{Op: DestinationUnicast, Not: true})...)
}

// refuse drops a peer's packets. A rule of its own counts them for the peer first: if the set
// lacks the source, that rule ends without an effect.
func refuse(about string, conditions ...Statement) []FirewallRule {
	of := append(slices.Clone(conditions), Statement{Op: SourceIn, Name: SetRefused})
	return []FirewallRule{
		rule("of whom", of...),
		rule(about, append(conditions, Statement{Op: Count, Name: DroppedNodes}, Statement{Op: Drop})...),
	}
}

// passRules run after kube-proxy has translated destinations: the pods' range can contain
// the Services' range, and a Service can lead to a node.
func passRules() []FirewallRule {
	fabric := Statement{Op: InputIs, Name: FabricDevice}
	return slices.Concat([]FirewallRule{
		rule("the mark has served", Statement{Op: MarkIs, Number: errorMark}, Statement{Op: SetMark, Number: 0}),
	}, refuse("no peer reaches gateways' own ports", fabric, Statement{Op: DestinationIn, Name: setGateways}), []FirewallRule{
		rule("answers", fabric, Statement{Op: Answer}, Statement{Op: Accept}),
		rule("an admin gave peers an address of it", fabric, Statement{Op: OriginalDestinationIn, Name: setGiven}, Statement{Op: Accept}),
	}, refuse("no Service leads a peer out of the pods' range", fabric, Statement{Op: Redirected}, Statement{Op: DestinationIn, Not: true, Name: setPods}))
}

// closed returns Closed without the ranges of this cluster's pods and of other peers. These
// ranges need a route: otherwise packets to them would leave by the node's default route,
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

// given returns the addresses into which gateways translate addresses of the external range.
func (in NodeInputs) given() []Element {
	var all []Element
	for _, g := range in.Gateways {
		all = append(all, hosts(g.Hosts)...)
	}
	return all
}

// fabricRules keep pods from sending over the fabric as if they were gateways: the fabric's
// packets have no proof of their sender. A node drops them as soon as it sees them, before a
// masquerade can give them the node's own address.
//
// Packets to the pods' range can't be judged here. Gateways are in that range, and a node
// sends to them from the address of its route, which can be in that range, too, like the
// nodes' own addresses. The chain "leave" judges such packets if they are masqueraded.
func fabricRules() []FirewallRule {
	count, drop := Statement{Op: Count, Name: DroppedFabric}, Statement{Op: Drop}
	return []FirewallRule{
		rule("of all pods, gateways alone send over the fabric to nodes",
			Statement{Op: UDPDestinationPort, Number: FabricPort}, Statement{Op: SourceIn, Name: setPods},
			Statement{Op: SourceIn, Not: true, Name: setGateways}, Statement{Op: DestinationIn, Not: true, Name: setPods}, count, drop),
		// A gateway's own packets are its errors about pods' packets, mainly about packets that
		// are too long. This rule is for clusters whose addresses are not remapped: otherwise the
		// error is translated, too, and comes from the peer's address.
		//
		// Many distributions set net.ipv4.conf.all.rp_filter. For a device without addresses,
		// loose is as strict as strict (__fib_validate_source): the kernel drops a packet if the
		// node's route to its source uses another device.
		rule("gateways' own errors: their way back is the fabric too",
			Statement{Op: InputIs, Name: FabricDevice}, Statement{Op: SourceIn, Name: setGateways},
			Statement{Op: ICMPUnreachable}, Statement{Op: SetMark, Number: errorMark}, Statement{Op: Accept}),
		rule("from gateways come the pods of other clusters, the gateways' errors, and nobody else",
			Statement{Op: InputIs, Name: FabricDevice}, Statement{Op: SourceIn, Not: true, Name: setRemotes}, count, drop),
	}
}

// passOnRules are for other nodes' packets to gateways' pods on this node. If the pod network
// is an overlay, such packets would be segmented before the overlay's device, because the
// kernel has no offload for a tunnel in a tunnel: that took a third more CPU for the whole
// path from pod to pod in a measurement. So other nodes send them to this node's own address,
// and the frame names the gateway. The gateway checks who sent them.
func (in NodeInputs) passOnRules() []FirewallRule {
	toNode := []Statement{{Op: UDPDestinationPort, Number: FabricPort}, {Op: DestinationHere}}
	return []FirewallRule{
		rule("for a gateway's pod on this node", append(slices.Clone(toNode),
			Statement{Op: FrameNotTo, Addr: in.NodeIP}, Statement{Op: DestinationOfFrame}, Statement{Op: SetMark, Number: frameMark})...),
		rule("and for no other pod", Statement{Op: MarkIs, Number: frameMark}, Statement{Op: DestinationIn, Not: true, Name: setGateways},
			Statement{Op: Count, Name: DroppedFabric}, Statement{Op: Drop}),
		rule("the mark has served", Statement{Op: MarkIs, Number: frameMark}, Statement{Op: SetMark, Number: 0}),
		// Packets from gateways to other nodes stay tracked: pod networks masquerade them.
		rule("nodes to gateways: no connection is kept, of which each pod's flow would take one",
			Statement{Op: UDPDestinationPort, Number: FabricPort}, Statement{Op: DestinationIn, Name: setGateways}, Statement{Op: Untrack}),
		rule("gateways to this node: no connection is kept, of which each pod's flow would take one",
			append(toNode, Statement{Op: Untrack})...),
	}
}

// arriveRules drop the fabric's packets from senders other than gateways, in the cluster and
// outside. A pod network may send a gateway's packets from the address of the gateway's node.
// While the operator has not published which node that is, packets are judged without it.
func (in NodeInputs) arriveRules() []FirewallRule {
	fabric := Statement{Op: InputIs, Name: FabricDevice}
	var rules []FirewallRule
	if !slices.ContainsFunc(in.Gateways, func(g Gateway) bool { return !g.Gone && len(g.NodeIPs) == 0 }) {
		rules = append(rules, rule("gateways alone send over the fabric to this node", Statement{Op: UDPDestinationPort, Number: FabricPort},
			Statement{Op: SourceIn, Not: true, Name: setSenders}, Statement{Op: Count, Name: DroppedFabric}, Statement{Op: Drop}))
	}
	rules = append(rules,
		rule("answers", fabric, Statement{Op: Answer}, Statement{Op: Accept}),
		rule("an admin gave peers an address of it", fabric, Statement{Op: OriginalDestinationIn, Name: setGiven}, Statement{Op: Accept}))
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
		rule("pods see the pods of other clusters",
			Statement{Op: SourceIn, Name: setRemotes}, Statement{Op: DestinationIn, Name: setPods}, Statement{Op: SourceKeep}),
		// All other senders: clients of a NodePort, containers that Kubernetes does not know.
		// The fabric device has no address of its own, so a masquerade would use the address of
		// an arbitrary device.
		rule("who is no pod speaks for this node",
			Statement{Op: OutputIs, Name: FabricDevice}, Statement{Op: DestinationIn, Name: setRemotes},
			Statement{Op: SourceTo, Addr: in.NodeIP}),
		rule("hosts outside know no way to the pods of other clusters",
			Statement{Op: SourceIn, Name: setRemotes}, Statement{Op: DestinationIn, Not: true, Name: setPods},
			Statement{Op: SourceTo, Addr: in.NodeIP}),
	}
}
