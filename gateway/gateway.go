// Package gateway computes the state that the kernel of a gateway pod or of a node needs so
// that the pods of two clusters reach each other.
//
// It is pure: it takes plain values (Inputs, NodeInputs), and returns a KernelState.
// KernelState prints as ip, bridge, wg and nft lines, and Explain names the differences
// between two KernelStates. Package gateway/linux makes a kernel match a KernelState.
//
// Packets on the wire have real addresses, as Liqo defines it: the source is in the sender's pod or external
// CIDR, and the destination in the receiver's. Each gateway translates for its own cluster only. The packets
// inside the tunnel are IPv4, and the packets around them are, too.
package gateway

import (
	"net/netip"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
)

// Role is the end of a tunnel at which a gateway is.
type Role uint8

// A server listens, a client dials. The zero value is neither of them, so that a
// forgotten field causes an error.
const (
	Server Role = iota + 1
	Client
)

func (r Role) String() string {
	switch r {
	case Server:
		return "server"
	case Client:
		return "client"
	}
	return "unknown role"
}

// MarshalText makes roles readable in JSON.
func (r Role) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// Opposite is the role of the peer.
func (r Role) Opposite() Role {
	if r == Server {
		return Client
	}
	return Server
}

// Implementation is the WireGuard that encrypts: the kernel's or the userspace one.
type Implementation string

// Auto selects the kernel's WireGuard if the kernel has it, otherwise the userspace one.
const (
	Auto      Implementation = ""
	InKernel  Implementation = "kernel"
	Userspace Implementation = "userspace"
)

// CIDRs are the networks of a cluster: the range of its pods, and the range that represents all other
// machines (Liqo's "external CIDR").
type CIDRs struct{ Pod, External []netip.Prefix }

func (c CIDRs) all() []netip.Prefix {
	return append(append([]netip.Prefix(nil), c.Pod...), c.External...)
}

// Node is a node of the local cluster, as its agent reports it.
type Node struct {
	Name string
	IP   netip.Addr // the address on which its fabric listens
	// Addresses are all addresses of the node, because it may send from any of them.
	Addresses []netip.Addr
	// Pods are the addresses of its pods: ranges, and single addresses. If the range of one
	// node is inside the range of another node, the longer prefix counts.
	Pods []netip.Prefix
	// MTU is the longest packet between the node and gateways' pods, in bytes; 0: not known.
	MTU int
	// Revision grows with each write. If two nodes report the same address, the later
	// report is right.
	Revision uint64
}

// Host is a machine that peers reach under an address of the local external CIDR: a machine
// outside the local cluster, or one of its nodes.
type Host struct{ External, Real netip.Addr }

// Alias is a range of a peer (Real), with a range of the same length under which the local
// cluster reaches the peer's range (Seen).
type Alias struct{ Seen, Real netip.Prefix }

// Peer is one remote cluster, and the tunnel to it.
type Peer struct {
	// Index numbers the tunnels of a gateway from 0 to MaxIndex. Device name,
	// tunnel addresses, mark, route table and conntrack zone follow from it.
	Index     int
	ClusterID string
	Role      Role // ours
	// Real are the peer's own networks. Remapped are the networks under which the local
	// cluster reaches them, in the same order, with the same lengths.
	Real, Remapped CIDRs
	// Also are second ranges under which the local cluster reaches networks in Real during a
	// renumbering. New flows from the peer appear under Remapped. A range of Also has no
	// effect if Remapped has the same range.
	Also       []Alias
	PrivateKey PrivateKey
	PublicKey  wgtypes.Key    // the peer's; zero until it is known
	ListenPort uint16         // required of a server; 0 on a client means any
	Endpoint   netip.AddrPort // the address to dial; zero if it is not known
	// NextKey is the peer's next public key; zero if the peer has announced none. The gateway
	// accepts handshakes with this key, but sends no packets under it.
	NextKey wgtypes.Key
	MTU     int // the wanted length of inner packets, in bytes; LinkMTU may be less
	// UnderlayMTU is the MTU of the route to the endpoint, in bytes. 0 means
	// Inputs.UnderlayMTU.
	UnderlayMTU int
	// PathMTU is the longest inner packet that was seen to pass; 0 if unknown.
	PathMTU int
	// UnprovenMTU is the longest inner packet to send while PathMTU is unknown. 0 means
	// LinkMTU.
	UnprovenMTU    int
	Implementation Implementation
	// Closed is set if the peer may open connections only to the endpoints in Open. Otherwise the peer
	// reaches every pod and external address.
	Closed bool
	Open   []Endpoint
}

// Protocol is a transport protocol, by its number in IP.
type Protocol uint8

// The protocols of endpoints.
const (
	TCP  Protocol = 6
	UDP  Protocol = 17
	SCTP Protocol = 132
)

func (p Protocol) String() string {
	switch p {
	case TCP:
		return "tcp"
	case UDP:
		return "udp"
	case SCTP:
		return "sctp"
	}
	return itoa(int(p))
}

// MarshalText makes protocols readable in JSON.
func (p Protocol) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// Endpoint is a port of a pod of the local cluster, or of a host in [Inputs.Hosts].
type Endpoint struct {
	Addr     netip.Addr
	Protocol Protocol
	Port     uint16
}

// Inputs contains everything that the state of a gateway pod depends on.
type Inputs struct {
	PodIP       netip.Addr // the address of the gateway pod
	NodeIP      netip.Addr // the address of the pod's node
	UnderlayMTU int        // the MTU of the pod's route to its node, in bytes
	Local       CIDRs      // the networks of the local cluster
	Nodes       []Node
	Hosts       []Host
	Peers       []Peer
	Services    bool // the gateways exchange Services

	fits bool // Nodes is a result of [Inputs.Fitting]
}

// Gateway is a gateway pod as a node sees it.
type Gateway struct {
	Name  string
	PodIP netip.Addr
	// Gone is set if the pod does not exist any more. Another pod may have its address now, so the node drops
	// packets to the peer until the gateway has a new pod.
	Gone bool
	// HostIP is the address of the pod's node, if the route to that node is better than the
	// pod network's route to the pod; zero otherwise.
	HostIP netip.Addr
	// NodeIPs are the addresses of the nodes on which the gateway's pods run. A pod network may
	// send a pod's packets from the address of its node. Empty means that they are not known.
	NodeIPs     []netip.Addr
	RemoteCIDRs []netip.Prefix // the remapped ranges of the peer
	// Hosts are addresses of other machines than pods that the peer is allowed to reach.
	Hosts []netip.Addr
	// Also are the ranges in RemoteCIDRs for which the node has to confirm that it has a route.
	Also        []netip.Prefix
	MTU         int // the MTU of the tunnel, in bytes
	UnderlayMTU int // the MTU of the node's route to the pod, in bytes; 0: NodeInputs.UnderlayMTU
}

// NodeInputs contains everything that the state of a node depends on.
type NodeInputs struct {
	NodeIP      netip.Addr
	UnderlayMTU int            // the largest MTU of the node's routes to gateways, in bytes
	PodCIDRs    []netip.Prefix // of the whole local cluster
	Gateways    []Gateway
	// Closed are the ranges of the peers for which the node makes no routes, because it can't
	// use the settings of their gateways. The node drops packets to these ranges.
	Closed []netip.Prefix
}

// Numbers that are the same at both ends of a tunnel or of the fabric.
const (
	// PingPort is the port at which a gateway answers pings inside the tunnel. Liqo uses the same
	// port.
	PingPort = 12345
	// PathMTUPort is the port at which a gateway answers questions about the path's MTU
	// inside the tunnel. Liqo's gateways don't answer them.
	PathMTUPort = 12346
	// ExportsPort is the TCP port at which a gateway serves its cluster's exported Services
	// inside the tunnel, if [Inputs.Services] is set.
	ExportsPort = 6095
	// FabricPort carries node-to-gateway VXLAN. It is next to Liqo's Geneve
	// port 6091 and away from 4789 and 8472, which CNIs use.
	FabricPort = 6092
	// MaxIndex is the largest index of a tunnel, because each tunnel has a /30 of 169.254.18.0/24.
	MaxIndex = 63
)

// Our names and numbers in the kernel. We change and delete only objects that have one of
// them.
const (
	FabricDevice = "liqo-fabric"
	TunnelDevice = "liqo-tunnel" // of index 0; others append the index
	TableName    = "liqo-tui"    // nftables, family ip

	// RouteProtocol marks our routes and rules; unassigned in rtnetlink.h and
	// in iproute2's rt_protos.
	RouteProtocol = 118
	// NodeTable, LocalTable, ErrorTable and RemoteTable+index are our routing tables.
	NodeTable   = 18000
	LocalTable  = 18001
	ErrorTable  = 18002
	RemoteTable = 18100

	fabricVNI  = 0x11c0
	errorMark  = 0x11c00000 // of ICMP errors about tunnels' flows
	frameMark  = 0x11c00001 // of the fabric's packets that are passed on to a gateway's pod
	markBase   = 0xc00000c0 // around the index, twice
	zoneBase   = 0x11c1     // + index; all other flows are in zone 0
	kernelMain = 254
	// KernelLocal is the kernel's table of its own addresses.
	KernelLocal = 255
)

// Preferences of our ip rules.
const (
	// RemotePref, TunnelPref and ErrorPref come before the kernel's local table, because
	// a remote pod may have the gateway pod's own address.
	RemotePref = 10
	TunnelPref = 20
	ErrorPref  = 30
	// LocalPref is the new preference of the kernel's local table, which has 0 by default.
	LocalPref = 100
	// NodePref is before the rules by which some CNIs route packets of pods (Cilium in cloud
	// networks at 109, AWS at 1536). It is after the local table, which Cilium moves to 100. That
	// is possible because a peer's remapped range does not overlap local addresses.
	NodePref = 105
	// NodeErrorPref is before the local table and before the CNIs' rules, because the rules of
	// some CNIs match packets to all pods.
	NodeErrorPref = 5
)

// Overheads in bytes.
const (
	vxlanOverhead = 50 // IPv4 20, UDP 8, VXLAN 8, inner Ethernet 14
	// Overhead is the number of bytes that a tunnel adds to each packet: IPv4 20, UDP 8,
	// WireGuard 32.
	Overhead = 60
	// minMTU is the length of a datagram that every IPv4 host must accept.
	minMTU = 576
)

// TunnelName returns the name of the device of the tunnel with this index.
func TunnelName(index int) string {
	if index == 0 {
		return TunnelDevice
	}
	return TunnelDevice + itoa(index)
}

// Mark returns the mark of a tunnel's packets. An ip rule sends packets from the fabric with this
// mark into the tunnel. The bytes of the mark read the same backwards, because the library that writes
// our maps does not tell nft the byte order of the values. Then nft assumes network byte order.
func Mark(index int) uint32 {
	n := uint32(index + 1)
	return markBase | n<<16 | n<<8
}

// Zone returns the conntrack zone of the tunnel's flows. Without zones, two peers with the
// same addresses would get each other's packets.
func Zone(index int) uint16 { return uint16(zoneBase + index) }

// TunnelAddr returns the address of the gateway with this role in the tunnel with
// this index, with the length of the link's subnet.
func TunnelAddr(role Role, index int) netip.Prefix {
	host := byte(4*index + 1)
	if role == Client {
		host++
	}
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{169, 254, 18, host}), 30)
}

// PeerTunnelAddr returns the address of the other end of the tunnel.
func PeerTunnelAddr(role Role, index int) netip.Prefix {
	return TunnelAddr(role.Opposite(), index)
}
