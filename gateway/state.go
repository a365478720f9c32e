package gateway

import (
	"bytes"
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
)

// KernelState contains our objects in a kernel: those that it has, or those that it should have. Compute and
// ComputeNode return it sorted, so that equal inputs give equal KernelStates.
type KernelState struct {
	Links     []Link
	Tunnels   []Tunnel
	Settings  []Setting
	Neighbors []Neighbor
	Forwards  []Forward
	Rules     []Rule
	Routes    []Route
	Firewall  Table
}

// Link is a VXLAN device without learning and without a fixed source address. The kernel uses the source
// address of its route to the other end.
type Link struct {
	Name  string
	Alias string // for people: ip link shows it
	VNI   int
	Port  uint16
	MAC   MAC
	MTU   int
	Up    bool
	// IPv6 is set if the device has an IPv6 address, which the kernel gives to each device by default. We
	// never want it, because Cilium treats a device with an address and routes as a device of the node: it
	// masquerades packets to it, and limits all pods' MTU to its MTU.
	IPv6 bool
}

// Tunnel is a WireGuard device with its one peer.
type Tunnel struct {
	Device         string
	Alias          string // for people: ip link shows it
	Role           Role   // not in the kernel: we set the endpoint of a client's tunnel, but a server's endpoint is the last address of its peer
	Implementation Implementation
	Address        netip.Prefix
	MTU            int
	Up             bool
	PrivateKey     PrivateKey
	ListenPort     uint16         // 0: any
	PublicKey      wgtypes.Key    // zero: no peer yet
	NextKey        wgtypes.Key    // of a second peer, whose packets are not accepted; zero: none
	Endpoint       netip.AddrPort // zero: the peer's last address
	Keepalive      time.Duration
}

// Setting is an IPv4 setting of one of our devices, by its name below net.ipv4.conf.
type Setting struct {
	Device, Name string
	Value        int
}

// The names of the settings in use.
const (
	// Forwarding lets packets that came in by the device leave by another.
	Forwarding = "forwarding"
	// ReversePath drops packets if the route to their source uses another device. The kernel uses the
	// stricter of the device's value and the value of "all".
	ReversePath = "rp_filter"
	// ReversePathMark makes the kernel use the packet's mark when it looks up that route.
	ReversePathMark = "src_valid_mark"
	// AcceptLocal accepts packets whose source is an address of this machine.
	AcceptLocal = "accept_local"
	// AnswerARP selects the addresses for which the kernel answers ARP requests. The kernel uses the larger
	// of the device's value and the value of "all".
	AnswerARP = "arp_ignore"
)

// Neighbor is a permanent neighbour entry: packets to IP on Device are sent in frames to MAC.
type Neighbor struct {
	Device string
	IP     netip.Addr
	MAC    MAC
}

// Forward is a static forwarding entry of a VXLAN device: frames to MAC are
// sent to the underlay address To.
type Forward struct {
	Device string
	MAC    MAC
	To     netip.Addr
}

// Rule is an ip rule. A zero Mark or empty Input does not restrict it.
type Rule struct {
	Preference int
	Mark       uint32
	Input      string
	Table      int
}

// RouteType is the kernel's treatment of a packet that matches a route.
type RouteType string

// The types in use.
const (
	Unicast     RouteType = "unicast"
	Blackhole   RouteType = "blackhole"   // silently dropped
	Unreachable RouteType = "unreachable" // dropped, and the sender gets an ICMP error
)

// Route is an entry of a routing table. Via is onlink.
type Route struct {
	Table       int
	Type        RouteType
	Destination netip.Prefix
	Via         netip.Addr
	Device      string
	Source      netip.Addr // preferred source of packets from this machine
	MTU         int        // 0: the device's
	Metric      int        // 0: the best
}

// MAC is an Ethernet address.
type MAC [6]byte

// FabricMAC derives the MAC address of a fabric device from the IP address of its node or
// gateway pod. These addresses are unique in a cluster, so the MAC addresses are, too.
func FabricMAC(underlay netip.Addr) MAC {
	b := underlay.As4()
	// 0x02: locally administered, unicast.
	return MAC{0x02, 0x4c, b[0], b[1], b[2], b[3]}
}

func (m MAC) String() string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}

// MarshalText makes addresses readable in JSON.
func (m MAC) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// String prints the state as the commands that would create it, with comments about our numbers. It prints no
// private key: the X in "private-key (of X)" is the public key.
func (s KernelState) String() string {
	var b strings.Builder
	write(&b, s.Links)
	write(&b, s.Tunnels)
	write(&b, s.Settings)
	write(&b, s.Neighbors)
	write(&b, s.Forwards)
	for i, r := range s.Routes {
		if i == 0 || r.Table != s.Routes[i-1].Table {
			fmt.Fprintf(&b, "# table %d: %s\n", r.Table, tableAbout(r.Table))
		}
		fmt.Fprintln(&b, r)
	}
	for _, r := range s.Rules {
		fmt.Fprintf(&b, "%s # %s\n", r, r.about())
	}
	b.WriteString(s.Firewall.String())
	return b.String()
}

// Equal reports whether two states are the same, in the same order.
func (s KernelState) Equal(o KernelState) bool {
	return slices.Equal(s.Links, o.Links) && slices.Equal(s.Tunnels, o.Tunnels) && slices.Equal(s.Settings, o.Settings) &&
		slices.Equal(s.Neighbors, o.Neighbors) && slices.Equal(s.Forwards, o.Forwards) &&
		slices.Equal(s.Rules, o.Rules) && slices.Equal(s.Routes, o.Routes) && s.Firewall.Equal(o.Firewall)
}

func write[T fmt.Stringer](b *strings.Builder, items []T) {
	for _, i := range items {
		b.WriteString(i.String())
		b.WriteByte('\n')
	}
}

func (l Link) String() string {
	mode := "none"
	if l.IPv6 {
		mode = "eui64"
	}
	return fmt.Sprintf("ip link add %s %s address %s mtu %d alias %q addrgenmode %s type vxlan id %d dstport %d nolearning",
		l.Name, upText(l.Up), l.MAC, l.MTU, l.Alias, mode, l.VNI, l.Port)
}

func (t Tunnel) String() string {
	kind := "auto"
	if t.Implementation != Auto {
		kind = string(t.Implementation)
	}
	return fmt.Sprintf("ip link add %s %s mtu %d alias %q type wireguard (%s)\nip address add %s dev %s\n%s",
		t.Device, upText(t.Up), t.MTU, t.Alias, kind, t.Address, t.Device, t.wgText())
}

func (t Tunnel) wgText() string {
	w := []string{"wg set", t.Device}
	if !t.PrivateKey.IsZero() {
		w = append(w, "private-key", "(of "+t.PrivateKey.Public().String()+")")
	}
	if t.ListenPort != 0 {
		w = append(w, "listen-port", strconv.Itoa(int(t.ListenPort)))
	}
	if t.PublicKey != (wgtypes.Key{}) {
		w = append(w, "peer", t.PublicKey.String(), "allowed-ips 0.0.0.0/0")
		if t.Endpoint.IsValid() {
			w = append(w, "endpoint", t.Endpoint.String())
		}
		if t.Keepalive != 0 {
			w = append(w, "persistent-keepalive", strconv.Itoa(int(t.Keepalive/time.Second)))
		}
	}
	if t.NextKey != (wgtypes.Key{}) {
		w = append(w, "peer", t.NextKey.String())
	}
	return strings.Join(w, " ")
}

func (s Setting) String() string {
	return fmt.Sprintf("sysctl net.ipv4.conf.%s.%s=%d", s.Device, s.Name, s.Value)
}

func (n Neighbor) String() string {
	return fmt.Sprintf("ip neigh add %s lladdr %s dev %s nud permanent", n.IP, n.MAC, n.Device)
}

func (f Forward) String() string {
	return fmt.Sprintf("bridge fdb add %s dev %s dst %s self permanent", f.MAC, f.Device, f.To)
}

func (r Rule) String() string {
	w := []string{"ip rule add pref", strconv.Itoa(r.Preference)}
	if r.Mark != 0 {
		w = append(w, fmt.Sprintf("fwmark 0x%x", r.Mark))
	}
	if r.Input != "" {
		w = append(w, "iif", r.Input)
	}
	return strings.Join(append(w, "lookup", tableText(r.Table)), " ")
}

func (r Route) String() string {
	w := []string{"ip route add"}
	if r.Type != Unicast {
		w = append(w, string(r.Type))
	}
	if r.Destination.Bits() == 0 {
		w = append(w, "default")
	} else {
		w = append(w, r.Destination.String())
	}
	if r.Via.IsValid() {
		w = append(w, "via", r.Via.String())
	}
	if r.Device != "" {
		w = append(w, "dev", r.Device)
	}
	w = append(w, "table", tableText(r.Table), "proto", strconv.Itoa(RouteProtocol))
	if r.Source.IsValid() {
		w = append(w, "src", r.Source.String())
	}
	if r.Metric != 0 {
		w = append(w, "metric", strconv.Itoa(r.Metric))
	}
	if r.MTU != 0 {
		w = append(w, "mtu", strconv.Itoa(r.MTU))
	}
	if r.Via.IsValid() {
		w = append(w, "onlink")
	}
	return strings.Join(w, " ")
}

func upText(up bool) string {
	if up {
		return "up"
	}
	return "down"
}

func tableText(id int) string {
	switch id {
	case kernelMain:
		return "main"
	case KernelLocal:
		return "local"
	}
	return strconv.Itoa(id)
}

func tableAbout(id int) string {
	switch id {
	case NodeTable:
		return "to other clusters, by their gateways"
	case LocalTable:
		return "out of a tunnel, to pods and nodes of this cluster"
	case ErrorTable:
		return "back to the gateways, whose errors come by the fabric"
	}
	return "to the peer of " + TunnelName(id-RemoteTable) + ", whose addresses may be local ones too"
}

func (r Rule) about() string {
	switch r.Preference {
	case RemotePref:
		return "marked by destination: to a peer"
	case TunnelPref:
		return "out of a tunnel"
	case ErrorPref:
		return "the gateway's own ICMP errors: back as answers go"
	case LocalPref:
		return "the kernel's own addresses come after ours: a remote pod may have one of them"
	case NodePref:
		return "to other clusters"
	case NodeErrorPref:
		return "gateways' ICMP errors: the way back that strict nodes ask for"
	}
	return "not ours"
}

func itoa(n int) string { return strconv.Itoa(n) }

func (s *KernelState) sort() {
	slices.SortFunc(s.Tunnels, func(a, b Tunnel) int { return cmp.Compare(a.Device, b.Device) })
	slices.SortFunc(s.Settings, func(a, b Setting) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Name, b.Name))
	})
	slices.SortFunc(s.Neighbors, func(a, b Neighbor) int { return a.IP.Compare(b.IP) })
	slices.SortFunc(s.Forwards, func(a, b Forward) int {
		return cmp.Or(a.To.Compare(b.To), bytes.Compare(a.MAC[:], b.MAC[:]))
	})
	slices.SortFunc(s.Rules, func(a, b Rule) int {
		return cmp.Or(cmp.Compare(a.Preference, b.Preference), cmp.Compare(a.Table, b.Table), cmp.Compare(a.Input, b.Input))
	})
	slices.SortFunc(s.Routes, func(a, b Route) int {
		if a.Table != b.Table {
			return cmp.Compare(a.Table, b.Table)
		}
		return cmp.Or(comparePrefix(a.Destination, b.Destination), cmp.Compare(a.Metric, b.Metric))
	})
	for i := range s.Firewall.Sets {
		slices.SortFunc(s.Firewall.Sets[i].Elements, compareElement)
	}
}

func comparePrefix(a, b netip.Prefix) int {
	if order := a.Addr().Compare(b.Addr()); order != 0 {
		return order
	}
	return cmp.Compare(a.Bits(), b.Bits())
}

func compareElement(a, b Element) int {
	return cmp.Or(cmp.Compare(a.Interface, b.Interface), comparePrefix(a.Prefix, b.Prefix), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port))
}
