package flows

// Abilities lists the abilities of the programs that connect a cluster and lend for it. Conditions ask
// for an ability, so that they state the reason for a difference. They ask for [ClusterFacts.Software]
// only where the subject is the programs themselves: their names, their installation, their logs.
// aboutPrograms in the test lists these conditions.
type Abilities struct {
	// Connect is set if something is installed that connects the cluster.
	Connect bool
	// UseOurAgents is set if nodes reach gateways through our node agent.
	UseOurAgents bool
	// HaveImage is set if our image runs on the cluster. Test pods run the same image.
	HaveImage bool
	// ReportNodes is the ability of nodes to report the state of their agent, the gateways that they
	// reach, and the packets that they refuse. Liqo's nodes report nothing.
	ReportNodes bool
	// FabricPort is set if nodes and gateways use UDP port [FabricPort].
	FabricPort bool
	// RouteByReadiness is set if nodes find a gateway's pod only after the kubelet has reported it as
	// ready.
	RouteByReadiness bool
	// ChangeInPlace is the ability of a gateway to take other settings without interrupting traffic.
	// Liqo's controllers replace the gateway's pod.
	ChangeInPlace bool
	// FindMTU is the ability of gateways to find the longest packet that passes.
	FindMTU bool
	// DialIPv6 is the ability of gateways to dial an IPv6 address.
	DialIPv6 bool
	// DialRelay is the ability of a gateway that is a server to dial a relay.
	DialRelay bool
	// Close is the ability of a gateway to close the cluster's pods to the peer's.
	Close bool
	// PublishKey is set if an annotation of a gateway has its public key. Liqo keeps the key only in a
	// Secret.
	PublishKey bool
	// RotateKey is the ability of a gateway to replace its key without interrupting traffic.
	RotateKey bool
	// TakeNextKey is the ability of a gateway to learn the peer's next key before the peer uses it.
	TakeNextKey bool
	// Delegate is the ability of an operator to pass changes to the peer's cluster.
	Delegate bool
	// RunOurGateway is the ability to run a template of our gateway. It needs objects that only our
	// operator writes.
	RunOurGateway bool
	// FarConfiguration is set if a gateway uses a Configuration from another namespace.
	FarConfiguration bool
	// Predictable is set if internal/ipam can say which ranges a peer will get.
	Predictable bool
	// ReportOverlaps is set if the operator reports that something else now uses a peer's range.
	ReportOverlaps bool
	// Renumber is the ability to give a peer other ranges without interrupting traffic.
	Renumber bool
	// ImportServices is the ability of the operator to export Services and to import those of peers.
	ImportServices bool
	// ExchangeServices is set if the installed operator exchanges Services, or if none is installed.
	ExchangeServices bool

	// Consume and Provide are the roles that the cluster has in lending.
	Consume, Provide bool
	// SendLabels is set if a consumer also sends the labels and annotations of all objects.
	SendLabels bool
	// TakeLabels is set if a provider accepts these labels and annotations. Our admission policy
	// accepts none, because they steer programs of the provider (render/provider.yaml).
	TakeLabels bool
	// SendMentioned is set if the ConfigMaps and Secrets that a pod mentions are sent to the provider.
	SendMentioned bool
	// LeaveToleration is set if nothing of the consumer adds the toleration of virtual nodes: pods
	// have it, or Kubernetes adds it. Liqo's webhook adds it.
	LeaveToleration bool
	// ReportUnowned is the ability of a consumer to report unowned objects on the provider.
	ReportUnowned bool
	// NeedSlices is set if a provider releases namespaces only while it has copies of the
	// ResourceSlices. The map's copy alone is not enough.
	NeedSlices bool
	// EndAlone is set if a consumer can end lending without waiting for a provider that is gone.
	EndAlone bool
	// KeepForeignCluster is set if the peer's ForeignCluster stays after the end of all lending.
	KeepForeignCluster bool
	// InvitePeers is the ability of a provider to limit the account of a consumer's admin.
	InvitePeers bool
	// AnswerInCopy is set if the provider's copy of a ResourceSlice has the answer earlier than the
	// consumer's ResourceSlice.
	AnswerInCopy bool
	// DenyForGood is set if a provider that has denied resources does not grant them later by itself.
	DenyForGood bool
	// TakeNewKeys is the ability of a provider to issue another certificate to a consumer that has a
	// new key and has signed the nonce with it.
	TakeNewKeys bool
	// LimitConsumers is the ability of a provider to lend no more than it has, and to limit consumers
	// to requests.
	LimitConsumers bool
	// MakeProxy is the ability of a provider to make the proxy for access through the tunnel. The
	// admin has to set nothing.
	MakeProxy bool
	// FindAPIServer is the ability of a provider to find the URL of its API server.
	FindAPIServer bool
	// LendAnywhere is set if virtual nodes work in tenant namespaces of any name. Liqo gives
	// certificates only in those that begin with liqo-tenant-.
	LendAnywhere bool
}

// Can returns the abilities of the cluster's software. Where nothing is installed, a plan installs our
// operator: then Can returns our operator's abilities, without those that need a running program.
func (c ClusterFacts) Can() Abilities {
	can := abilities[c.Software]
	if c.Software == Operator {
		can.Consume, can.Provide = c.Operator.Peering.Consumes(), c.Operator.Peering.Provides()
		can.ExchangeServices = c.Operator.Services
	}
	return can
}

var abilities = map[Software]Abilities{
	// the installed operator will be asked whether it dials IPv6
	NoSoftware: {ReportNodes: true, UseOurAgents: true, DialIPv6: true, RunOurGateway: true, Predictable: true, ReportOverlaps: true, Renumber: true, ImportServices: true, ExchangeServices: true},
	Operator: {
		Connect: true, UseOurAgents: true, HaveImage: true,
		ReportNodes: true, FabricPort: true, RouteByReadiness: true, ChangeInPlace: true, FindMTU: true,
		DialRelay: true, Close: true, PublishKey: true, RotateKey: true, TakeNextKey: true, Delegate: true, RunOurGateway: true,
		Predictable: true, ReportOverlaps: true, Renumber: true, ImportServices: true,
		SendMentioned: true, LeaveToleration: true, ReportUnowned: true, NeedSlices: true, EndAlone: true, InvitePeers: true,
		AnswerInCopy: true, DenyForGood: true, TakeNewKeys: true, LimitConsumers: true, MakeProxy: true, FindAPIServer: true, LendAnywhere: true,
	},
	Liqo: {
		Connect: true, DialIPv6: true, FarConfiguration: true,
		Consume: true, Provide: true, SendLabels: true, TakeLabels: true, KeepForeignCluster: true,
	},
}
