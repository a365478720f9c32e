// Package gateway computes what the kernel of a gateway pod or of a node has
// to look like so that the pods of two clusters reach each other.
//
// It is pure: plain values in (Inputs, NodeInputs), a State out. State prints
// as ip, bridge, wg and nft lines, and Explain names the differences between
// two of them. Package gateway/linux makes a kernel match a State.
//
// On the wire, packets carry real addresses, as Liqo defines it: a source in
// the sender's pod or external CIDR, a destination in the receiver's. Each
// gateway translates for its own cluster only. Everything inside the tunnel is
// IPv4, and so is the outside.
package gateway

import (
	"net/netip"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
)

// Role says which end of a tunnel a gateway is.
type Role uint8

// A server listens, a client dials. The zero value is neither, so that a
// forgotten field is an error and not a server.
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

// Implementation names who encrypts.
type Implementation string

// Auto takes the kernel's WireGuard if there is one, otherwise userspace.
const (
	Auto      Implementation = ""
	InKernel  Implementation = "kernel"
	Userspace Implementation = "userspace"
)

// CIDRs are the networks of a cluster: its pods, and the range it has set
// aside to represent everything else (the "external CIDR" of Liqo).
type CIDRs struct{ Pod, External []netip.Prefix }

// all returns the pod CIDRs followed by the external ones.
func (c CIDRs) all() []netip.Prefix {
	return append(append([]netip.Prefix(nil), c.Pod...), c.External...)
}

// Node is a node of the local cluster, as it says itself.
type Node struct {
	Name string
	IP   netip.Addr // where its fabric listens
	// Addresses are all that the node has: it may send from any of them.
	Addresses []netip.Addr
	// Pods are the addresses of its pods: ranges, and single ones. Those of
	// different nodes may lie in one another: the longest counts.
	Pods []netip.Prefix
	// MTU is the longest packet between it and gateways' pods, in bytes; 0: not known.
	MTU int
	// Revision grows with each write: of two nodes that say the same, the one
	// that said so later is right.
	Revision uint64
}

// Host is a machine outside the local cluster, or a node of it, that peers
// reach under an address of the local external CIDR.
type Host struct{ External, Real netip.Addr }

// Alias is a range of a peer, and one of the same length under which the local
// cluster reaches it.
type Alias struct{ Seen, Real netip.Prefix }

// Peer is one remote cluster, and the tunnel to it.
type Peer struct {
	// Index numbers the tunnels of a gateway from 0 to MaxIndex. Device name,
	// tunnel addresses, mark, route table and conntrack zone follow from it.
	Index     int
	ClusterID string
	Role      Role // ours
	// Real are the peer's networks as it knows them, Remapped those under
	// which the local cluster reaches them: same order, same lengths.
	Real, Remapped CIDRs
	// Also are ranges under which the local cluster reaches some of Real besides,
	// while it moves from one to another. New flows from the peer appear under
	// Remapped. One that is in Remapped adds nothing.
	Also       []Alias
	PrivateKey PrivateKey
	PublicKey  wgtypes.Key    // the peer's; zero until it is known
	ListenPort uint16         // required of a server; 0 on a client means any
	Endpoint   netip.AddrPort // where to dial; zero if not (yet) known
	// NextKey is what the peer's public key is about to become; zero if nothing
	// was announced. Its owner is listened to, and nothing is sent to it.
	NextKey wgtypes.Key
	MTU     int // bytes of an inner packet; lowered to what the underlay carries
	// UnderlayMTU is of the way to the endpoint, in bytes; 0: that of Inputs.
	UnderlayMTU int
	// PathMTU is the longest inner packet that was seen to pass; 0 if unknown.
	PathMTU int
	// UnprovenMTU is the longest that is sent as long as PathMTU is unknown; 0: MTU.
	UnprovenMTU    int
	Implementation Implementation
}

// Inputs is all that the state of a gateway pod depends on.
type Inputs struct {
	PodIP       netip.Addr // the gateway pod's own
	NodeIP      netip.Addr // of the node that the pod is on
	UnderlayMTU int        // of the pod's way to its node, in bytes
	Local       CIDRs      // of the local cluster
	Nodes       []Node
	Hosts       []Host
	Peers       []Peer
}

// Gateway is a gateway pod as a node sees it.
type Gateway struct {
	Name  string
	PodIP netip.Addr
	// Gone: the pod is, and its address may be another one's. What is for the
	// gateway is dropped until it has a pod again.
	Gone bool
	// HostIP is of the node that the pod is on, if the way there is better than
	// the pod network's; zero: it is not, or not known.
	HostIP netip.Addr
	// NodeIPs are the addresses of the nodes that its pods are on: a pod network
	// may send a pod's packets from there. None: not known.
	NodeIPs     []netip.Addr
	RemoteCIDRs []netip.Prefix // remapped: what local pods use
	// Hosts are what is not a pod of this cluster, and the peer may reach all the same.
	Hosts []netip.Addr
	// Also are ranges among these of which the node has to say that it has the way.
	Also        []netip.Prefix
	MTU         int // of its tunnel, in bytes
	UnderlayMTU int // of the node's way to the pod, in bytes; 0: that of NodeInputs
}

// NodeInputs is all that the state of a node depends on.
type NodeInputs struct {
	NodeIP      netip.Addr
	UnderlayMTU int            // of the widest of the node's ways to gateways, in bytes
	PodCIDRs    []netip.Prefix // of the whole local cluster
	Gateways    []Gateway
	// Closed are ranges of peers whose gateways the node can't lead to.
	Closed []netip.Prefix
}

// What both ends of a tunnel or of the fabric have to agree on.
const (
	// PingPort is where a gateway answers pings inside the tunnel (Liqo's).
	PingPort = 12345
	// PathMTUPort is where a gateway answers questions about the path's MTU inside the
	// tunnel. Liqo's gateways don't.
	PathMTUPort = 12346
	// FabricPort carries node-to-gateway VXLAN. It is next to Liqo's Geneve
	// port 6091 and away from 4789 and 8472, which CNIs use.
	FabricPort = 6092
	// MaxIndex: tunnel addresses are /30s of 169.254.18.0/24.
	MaxIndex = 63
)

// Names and numbers of ours in the kernel. Whatever carries one of them is
// ours to change and to delete; nothing else is.
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
	zoneBase   = 0x11c1     // + index; 0 is everybody else's zone
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
	// LocalPref is where the kernel's local table moves from 0.
	LocalPref = 100
	// NodePref is before the rules by which some CNIs lead what comes from a pod
	// elsewhere (Cilium's of cloud networks at 109, AWS's at 1536), and behind the
	// local table, which Cilium moves to 100. A peer's range overlaps nothing local.
	NodePref = 105
	// NodeErrorPref is before those too: it is for few packets, and some CNIs'
	// rules lead to all pods.
	NodeErrorPref = 5
)

// Overheads in bytes.
const (
	vxlanOverhead = 50 // IPv4 20, UDP 8, VXLAN 8, inner Ethernet 14
	// Overhead is what a tunnel adds to each packet: IPv4 20, UDP 8, WireGuard 32.
	Overhead = 60
	// minMTU is the smallest datagram every IPv4 host must accept.
	minMTU = 576
)

// TunnelName is the device of the tunnel with this index.
func TunnelName(index int) string {
	if index == 0 {
		return TunnelDevice
	}
	return TunnelDevice + itoa(index)
}

// Mark is the mark of a tunnel's packets: from the fabric, it sends them into
// the tunnel. Its bytes are the same backwards: what writes our maps does not
// tell nft in which order the bytes of their values are, and nft then takes them
// for those of a network's, both when it prints and when it changes them.
func Mark(index int) uint32 {
	n := uint32(index + 1)
	return markBase | n<<16 | n<<8
}

// Zone is the conntrack zone of the tunnel's flows. Without zones two peers
// that use the same addresses get each other's packets.
func Zone(index int) uint16 { return uint16(zoneBase + index) }

// TunnelAddr is the address of the gateway with this role in the tunnel with
// this index, with the length of the link's subnet.
func TunnelAddr(role Role, index int) netip.Prefix {
	host := byte(4*index + 1)
	if role == Client {
		host++
	}
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{169, 254, 18, host}), 30)
}

// PeerTunnelAddr is the address of the other end.
func PeerTunnelAddr(role Role, index int) netip.Prefix {
	return TunnelAddr(role.Opposite(), index)
}
