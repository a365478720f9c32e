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

// ComputeNode returns the state of a node: the way to the gateways, and that
// the CNI leaves the sources of such packets alone.
func ComputeNode(in NodeInputs) (State, error) {
	if err := in.check(); err != nil {
		return State{}, err
	}
	s := State{
		Links: []Link{fabricLink(in.NodeIP, in.UnderlayMTU)},
		Rules: []Rule{{Preference: NodeErrorPref, Mark: errorMark, Table: ErrorTable}, {Preference: NodePref, Table: NodeTable}},
		// The mark is for where all devices are filtered; who filters only new ones by
		// default is not asked, so nothing there depends on who else touches marks.
		Settings: []Setting{{FabricDevice, ReversePath, 0}, {FabricDevice, ReversePathMark, 1}},
	}
	for _, c := range in.closed() {
		s.Routes = append(s.Routes, Route{Table: NodeTable, Type: Blackhole, Destination: c})
	}
	var remotes, refused, gateways []Element
	for _, g := range in.Gateways {
		// Without comments of their own: there may be thousands, and the routes
		// say by which gateway.
		remotes = append(remotes, elements("", g.RemoteCIDRs)...)
		if g.Gone {
			// Not "unreachable": who is told so gives up, and the next pod is near.
			// Not without a route: what is for the peer would leave the cluster.
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
				// Another node takes for a gateway's what comes from the address of a gateway's
				// node. The destination is no help to tell: nodes have addresses in the pods'
				// range, and a Service may lead from another port to this one.
				//
				// A gateway's new pod on this node is dropped until the agent hears of its address. That
				// is no longer than the way takes: nodes lead nothing to a pod that no InternalFabric
				// names, and all hear of it by one write (a takeover with this in it: 0.1 to 0.4 s; at
				// most 8 s more where the agent's connection has died). Nothing of it stays: a packet that
				// is dropped here or before leaves no entry in conntrack, and retransmissions pass. While this node
				// has no agent that hears, the rules of its last one drop the new pod's packets; the other nodes'
				// agents then get no answers from it, and LT-D016 names them.
				rule("but for gateways, nobody sends over the fabric as this node", Statement{Op: UDPDestinationPort, Number: FabricPort},
					Statement{Op: Masqueraded}, Statement{Op: OriginalSourceIn, Not: true, Name: setGateways}, Statement{Op: Count, Name: DroppedFabric}, Statement{Op: Drop}),
			}},
		},
	}
	s.sort()
	return s, nil
}

// enterRules run before the rules of other programs. The kernel copies the mark of a
// VXLAN packet to the packet in it. Cilium marks what a pod sends with the pod's identity,
// so its network policies would take a peer's packet for one of the gateway's pod.
func enterRules() []FirewallRule {
	return []FirewallRule{rule("a peer's packets come without a mark", Statement{Op: InputIs, Name: FabricDevice}, Statement{Op: SetMark, Number: 0})}
}

// ownRules close the addresses of this node to peers, which may be in the pods' range:
// of a bridge, of an overlay's device, or of the node itself. They need no list, so
// that an address is closed as soon as it is there. They come before programs that
// lead a port of the node to a pod, like kube-proxy: behind those, the packet is the
// pod's. What peers send may also come by the pod network, from a node that did not
// know where the address is.
func ownRules() []FirewallRule {
	elsewhere := Statement{Op: InputIs, Not: true, Name: FabricDevice}
	return append([]FirewallRule{
		rule("answers", Statement{Op: Answer}, Statement{Op: Accept}),
		// Cheaper than to look for the source, for what nodes mostly carry.
		rule("", elsewhere, Statement{Op: Established}, Statement{Op: Accept}),
		rule("not from a peer", elsewhere, Statement{Op: SourceIn, Not: true, Name: setRemotes}, Statement{Op: Accept}),
		rule("an admin gave peers an address of it", Statement{Op: DestinationIn, Name: setGiven}, Statement{Op: Accept}),
	}, refuse("no peer reaches this node", Statement{Op: DestinationUnicast, Not: true})...)
}

// refuse drops what a peer sends. It is counted for the peer first, in a rule of its
// own: where a set does not have the source, a rule ends.
func refuse(about string, conditions ...Statement) []FirewallRule {
	of := append(slices.Clone(conditions), Statement{Op: SourceIn, Name: SetRefused})
	return []FirewallRule{
		rule("of whom", of...),
		rule(about, append(conditions, Statement{Op: Count, Name: DroppedNodes}, Statement{Op: Drop})...),
	}
}

// passRules see destinations as kube-proxy has translated them: the pods' range may
// contain the Services' range, and a Service may lead to a node.
func passRules() []FirewallRule {
	fabric := Statement{Op: InputIs, Name: FabricDevice}
	return slices.Concat([]FirewallRule{
		rule("the mark has served", Statement{Op: MarkIs, Number: errorMark}, Statement{Op: SetMark, Number: 0}),
	}, refuse("no peer reaches gateways' own ports", fabric, Statement{Op: DestinationIn, Name: setGateways}), []FirewallRule{
		rule("answers", fabric, Statement{Op: Answer}, Statement{Op: Accept}),
		rule("an admin gave peers an address of it", fabric, Statement{Op: OriginalDestinationIn, Name: setGiven}, Statement{Op: Accept}),
	}, refuse("no Service leads a peer out of the pods' range", fabric, Statement{Op: Redirected}, Statement{Op: DestinationIn, Not: true, Name: setPods}))
}

// closed are the ranges of Closed without those of this cluster's pods and of other
// peers. Without a route, packets to them would leave by the node's default route, in the
// clear.
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

// given are what gateways translate addresses of the external range to.
func (in NodeInputs) given() []Element {
	var all []Element
	for _, g := range in.Gateways {
		all = append(all, hosts(g.Hosts)...)
	}
	return all
}

// fabricRules keep pods from sending over the fabric as if they were gateways:
// its packets carry no proof of who sent them. A node drops them where it sees
// them first, before they may get its own address by masquerading.
//
// What goes to the pods' range can't be judged so: gateways are there, and a node
// sends to them from whatever address its way there has, which may be in that range,
// like the nodes' own addresses. The chain "leave" judges it if it is masqueraded.
func fabricRules() []FirewallRule {
	count, drop := Statement{Op: Count, Name: DroppedFabric}, Statement{Op: Drop}
	return []FirewallRule{
		rule("of all pods, gateways alone send over the fabric to nodes",
			Statement{Op: UDPDestinationPort, Number: FabricPort}, Statement{Op: SourceIn, Name: setPods},
			Statement{Op: SourceIn, Not: true, Name: setGateways}, Statement{Op: DestinationIn, Not: true, Name: setPods}, count, drop),
		// A gateway's own packets are its errors about pods' packets, the ones that
		// are too long above all, where addresses are not remapped: else the error
		// is translated as well, and comes from the peer's address.
		//
		// Many distributions set net.ipv4.conf.all.rp_filter, and loose is as strict as
		// strict for a device without addresses (__fib_validate_source): what comes
		// from where the node knows another way to is dropped.
		rule("gateways' own errors: their way back is the fabric too",
			Statement{Op: InputIs, Name: FabricDevice}, Statement{Op: SourceIn, Name: setGateways},
			Statement{Op: ICMPUnreachable}, Statement{Op: SetMark, Number: errorMark}, Statement{Op: Accept}),
		rule("from gateways come the pods of other clusters, the gateways' errors, and nobody else",
			Statement{Op: InputIs, Name: FabricDevice}, Statement{Op: SourceIn, Not: true, Name: setRemotes}, count, drop),
	}
}

// passOnRules are for other nodes' packets to gateways' pods on this node. Where
// the pod network is an overlay, those would be segmented before its device, as
// the kernel knows no offload for a tunnel in a tunnel: measured, a third more CPU
// for the whole way from pod to pod. So they come to the node's own address, and
// their frame says for whom they are. Who may send them is the gateway's concern.
func (in NodeInputs) passOnRules() []FirewallRule {
	toNode := []Statement{{Op: UDPDestinationPort, Number: FabricPort}, {Op: DestinationHere}}
	return []FirewallRule{
		rule("for a gateway's pod on this node", append(slices.Clone(toNode),
			Statement{Op: FrameNotTo, Addr: in.NodeIP}, Statement{Op: DestinationOfFrame}, Statement{Op: SetMark, Number: frameMark})...),
		rule("and for no other pod", Statement{Op: MarkIs, Number: frameMark}, Statement{Op: DestinationIn, Not: true, Name: setGateways},
			Statement{Op: Count, Name: DroppedFabric}, Statement{Op: Drop}),
		rule("the mark has served", Statement{Op: MarkIs, Number: frameMark}, Statement{Op: SetMark, Number: 0}),
		// What gateways send to other nodes stays there: pod networks masquerade it.
		rule("nodes to gateways: no connection is kept, of which each pod's flow would take one",
			Statement{Op: UDPDestinationPort, Number: FabricPort}, Statement{Op: DestinationIn, Name: setGateways}, Statement{Op: Untrack}),
		rule("gateways to this node: no connection is kept, of which each pod's flow would take one",
			append(toNode, Statement{Op: Untrack})...),
	}
}

// arriveRules keep everybody else from it, in the cluster and outside. A pod
// network may send a gateway's packets from the node that it is on. Where an
// operator has not said yet which one that is, packets are judged as before.
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
		// Whoever else: clients of a NodePort, containers that Kubernetes
		// does not know. The fabric device has no address of its own, so
		// a masquerade would take that of an arbitrary device.
		rule("who is no pod speaks for this node",
			Statement{Op: OutputIs, Name: FabricDevice}, Statement{Op: DestinationIn, Name: setRemotes},
			Statement{Op: SourceTo, Addr: in.NodeIP}),
		rule("hosts outside know no way to the pods of other clusters",
			Statement{Op: SourceIn, Name: setRemotes}, Statement{Op: DestinationIn, Not: true, Name: setPods},
			Statement{Op: SourceTo, Addr: in.NodeIP}),
	}
}
