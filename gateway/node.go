package gateway

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
		Rules: []Rule{{Preference: NodePref, Table: NodeTable}},
	}
	var remotes []Element
	for _, g := range in.Gateways {
		s.reach(g.PodIP)
		for _, c := range g.RemoteCIDRs {
			s.Routes = append(s.Routes, Route{
				Table: NodeTable, Type: Unicast, Destination: c, Via: g.PodIP, Device: FabricDevice,
				Source: in.NodeIP, MTU: min(g.MTU, in.UnderlayMTU-vxlanOverhead),
			})
		}
		// Without comments of their own: there may be thousands, and the routes
		// say by which gateway.
		remotes = append(remotes, elements("", g.RemoteCIDRs)...)
	}
	s.Firewall = Table{
		Name: TableName,
		Sets: []Set{
			addressSet(setPods, "pods of this cluster", elements("", in.PodCIDRs)),
			addressSet(setRemotes, "other clusters, as seen from here", remotes),
		},
		Chains: []Chain{{Name: "keep-source", Type: "nat", Hook: "postrouting", Priority: beforeMasquerade, Rules: []FirewallRule{
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
		}}},
	}
	s.sort()
	return s, nil
}
