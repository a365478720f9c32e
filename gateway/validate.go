package gateway

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/liqo-tui/liqo-tui/internal/ipam"
)

// Compute and ComputeNode refuse inputs for these reasons, and for the unexported reasons below. The error
// names the value, and wraps the reason.
var (
	ErrIPv6    = errors.New("IPv6 is not supported yet")
	ErrOverlap = errors.New("networks overlap")
	ErrNoCIDR  = errors.New("network missing")
)

var (
	errAddress  = errors.New("not a usable IPv4 address")
	errPrefix   = errors.New("not a usable IPv4 network")
	errRemap    = errors.New("real and remapped networks do not correspond")
	errMTU      = errors.New("MTU out of range")
	errIndex    = errors.New("tunnel index out of range or used twice")
	errRole     = errors.New("role is neither server nor client")
	errKey      = errors.New("no private key")
	errPort     = errors.New("no listen port")
	errDup      = errors.New("named twice")
	errEndpoint = errors.New("not a usable endpoint")
	errProtocol = errors.New("not TCP, UDP or SCTP")
)

// named is a network with its name for errors.
type named struct {
	what   string
	prefix netip.Prefix
}

func (n named) String() string { return n.what + " " + n.prefix.String() }

func name(what string, prefixes []netip.Prefix) []named {
	list := make([]named, len(prefixes))
	for i, p := range prefixes {
		list[i] = named{what, p}
	}
	return list
}

func checkAddr(what string, a netip.Addr) error {
	if a.Is6() {
		return fmt.Errorf("%s %s: %w", what, a, ErrIPv6)
	}
	if !a.Is4() || a.IsUnspecified() || a.IsMulticast() || a.IsLoopback() {
		return fmt.Errorf("%s %q: %w", what, a.String(), errAddress)
	}
	return nil
}

// checkPrefix refuses networks whose routes would break the machine itself: the default route, loopback,
// link-local, which contains the tunnel's own addresses, multicast, and the network of the broadcast address.
func checkPrefix(n named) error {
	p := n.prefix
	if p.Addr().Is6() {
		return fmt.Errorf("%s: %w", n, ErrIPv6)
	}
	if !p.IsValid() || !p.Addr().Is4() || p.Masked() != p || p.Bits() == 0 {
		return fmt.Errorf("%s: %w", n, errPrefix)
	}
	for _, r := range reserved() {
		if p.Overlaps(r) {
			return fmt.Errorf("%s: %w: in %s", n, errPrefix, r)
		}
	}
	return nil
}

func reserved() [5]netip.Prefix {
	return [5]netip.Prefix{v4(0, 0, 8), v4(127, 0, 8), linkLocal(), v4(224, 0, 4), v4(255, 0, 8)}
}

func linkLocal() netip.Prefix { return v4(169, 254, 16) }

func v4(a, b byte, bits int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{a, b}), bits)
}

func checkPrefixes(list []named) error {
	for _, n := range list {
		if err := checkPrefix(n); err != nil {
			return err
		}
	}
	return nil
}

// checkApart refuses two networks of one list that overlap. The list can have thousands of networks,
// so checkApart compares only neighbours in sorted order. This is enough: of two networks that
// overlap, one contains the other, and the neighbour after the larger network is then also inside
// it.
func checkApart(list []named) error {
	sorted := slices.Clone(list)
	slices.SortStableFunc(sorted, func(a, b named) int { return comparePrefix(a.prefix, b.prefix) })
	for i := 1; i < len(sorted); i++ {
		if a, b := sorted[i-1], sorted[i]; ipam.Overlaps(a.prefix, b.prefix) {
			return fmt.Errorf("%s and %s: %w", a, b, ErrOverlap)
		}
	}
	return nil
}

// checkBetween refuses a network of one list that overlaps a network of the other list.
func checkBetween(x, y []named) error {
	for _, a := range x {
		for _, b := range y {
			if ipam.Overlaps(a.prefix, b.prefix) {
				return fmt.Errorf("%s and %s: %w", a, b, ErrOverlap)
			}
		}
	}
	return nil
}

// checkUnderlay checks that the smallest packet fits into the fabric and into a tunnel.
func checkUnderlay(mtu int) error {
	if mtu < minMTU+Overhead || mtu > 65535 {
		return fmt.Errorf("underlay MTU %d: %w", mtu, errMTU)
	}
	return nil
}

func (in Inputs) checkHosts() error {
	seen := map[netip.Addr]bool{}
	for _, h := range in.Hosts {
		if err := checkAddr("host", h.Real); err != nil {
			return err
		}
		inside := func(p netip.Prefix) bool { return p.Contains(h.External) }
		if !slices.ContainsFunc(in.Local.External, inside) || h.External == in.Local.External[0].Addr() {
			return fmt.Errorf("host %s as %s: %w: not a free address of the local external CIDR", h.Real, h.External, errAddress)
		}
		if seen[h.External] {
			return fmt.Errorf("host %s as %s: %w", h.Real, h.External, errDup)
		}
		seen[h.External] = true
	}
	return nil
}

// Check returns the reason that Compute refuses inputs; nil if it does not refuse them.
func (in Inputs) Check() error {
	if err := checkAddr("gateway pod", in.PodIP); err != nil {
		return err
	}
	if err := checkAddr("the gateway pod's node", in.NodeIP); err != nil {
		return err
	}
	if err := checkUnderlay(in.UnderlayMTU); err != nil {
		return err
	}
	if len(in.Local.Pod) == 0 || len(in.Local.External) == 0 {
		return fmt.Errorf("local cluster: %w: need a pod and an external CIDR", ErrNoCIDR)
	}
	local := append(name("local pod CIDR", in.Local.Pod), name("local external CIDR", in.Local.External)...)
	if err := checkPrefixes(local); err != nil {
		return err
	}
	if err := checkBetween(name("local pod CIDR", in.Local.Pod), name("local external CIDR", in.Local.External)); err != nil {
		return err
	}
	if err := in.checkHosts(); err != nil {
		return err
	}
	return in.checkPeers(local)
}

// UnfitNode is a node to which, or to some of whose pods, gateways have no route.
type UnfitNode struct {
	Name string
	Err  error
}

// number returns an IPv4 address as a number, and numberOf an IPv4 prefix. Numbers sort as addresses and
// prefixes do. With thousands of nodes, they cost a fraction of a netip.Addr in maps and sorts.
func number(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}

func numberOf(p netip.Prefix) uint64 { return uint64(number(p.Addr()))<<8 | uint64(p.Bits()) }

func addressOf(number uint32) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], number)
	return netip.AddrFrom4(b)
}

func prefixOf(number uint64) netip.Prefix {
	return netip.PrefixFrom(addressOf(uint32(number>>8)), int(number&0xff))
}

// Fitting leaves out the nodes and the addresses of nodes that Compute can't use, and returns the
// reasons. Without it, one node with a wrong address would cut off all others. If two nodes report
// the same address, the later report counts. Addresses outside the cluster's pod ranges are no
// mistake, so Fitting leaves them out without a reason.
func (in Inputs) Fitting() (Inputs, []UnfitNode) {
	if in.fits {
		return in, nil
	}
	// There can be thousands of nodes, and each change of a node causes a call. So the nodes are sorted by
	// their positions, and copied once.
	byAge := make([]*Node, len(in.Nodes))
	for i := range in.Nodes {
		byAge[i] = &in.Nodes[i]
	}
	slices.SortFunc(byAge, func(a, b *Node) int {
		if a.Revision != b.Revision {
			return cmp.Compare(b.Revision, a.Revision)
		}
		return cmp.Compare(a.Name, b.Name)
	})
	fitting := make([]*Node, 0, len(byAge))
	var unfit []UnfitNode
	byAddress := make(map[uint32]int, len(byAge)) // positions in byAge
	byPods := make(map[uint64]int, len(byAge))
	copies := make([]Node, len(byAge))
	for i, given := range byAge {
		copies[i] = *given
		n := &copies[i]
		refuse := func(err error) { unfit = append(unfit, UnfitNode{given.Name, err}) }
		if err := checkAddr("its address", n.IP); err != nil {
			refuse(err)
			continue
		}
		if other, taken := byAddress[number(n.IP)]; taken {
			refuse(fmt.Errorf("its address %s: %w: it is that of node %s", n.IP, errDup, byAge[other].Name))
			continue
		}
		byAddress[number(n.IP)] = i
		if n.MTU != 0 && checkUnderlay(n.MTU) != nil {
			refuse(checkUnderlay(n.MTU))
			n.MTU = 0
		}
		n.Pods = make([]netip.Prefix, 0, len(given.Pods))
		for _, p := range given.Pods {
			within := func(c netip.Prefix) bool { return ipam.Contains(c, p) }
			if err := checkPrefix(named{"its pods", p}); err != nil {
				refuse(err)
				continue
			}
			switch other, taken := byPods[numberOf(p)]; {
			case taken:
				refuse(fmt.Errorf("its pods %s: %w: they are those of node %s", p, errDup, byAge[other].Name))
			case slices.ContainsFunc(in.Local.Pod, within):
				byPods[numberOf(p)] = i
				n.Pods = append(n.Pods, p)
			case slices.ContainsFunc(in.Local.Pod, p.Overlaps):
				refuse(fmt.Errorf("its pods %s: %w: larger than the cluster's pod CIDR", p, errPrefix))
			}
		}
		wrong := func(a netip.Addr) bool { return checkAddr("", a) != nil }
		if slices.ContainsFunc(n.Addresses, wrong) {
			n.Addresses = slices.DeleteFunc(slices.Clone(n.Addresses), wrong)
		}
		fitting = append(fitting, n)
	}
	slices.SortFunc(fitting, func(a, b *Node) int { return cmp.Compare(a.Name, b.Name) })
	in.Nodes, in.fits = make([]Node, len(fitting)), true
	for i, n := range fitting {
		in.Nodes[i] = *n
	}
	slices.SortStableFunc(unfit, func(a, b UnfitNode) int { return cmp.Compare(a.Name, b.Name) })
	return in, unfit
}

func (in Inputs) checkPeers(local []named) error {
	var remapped []named
	for i, p := range in.Peers {
		if err := p.check(); err != nil {
			return err
		}
		if slices.ContainsFunc(in.Peers[:i], func(o Peer) bool { return o.Index == p.Index }) {
			return fmt.Errorf("peer %s: tunnel %d: %w", p.ClusterID, p.Index, errIndex)
		}
		seen := name("cluster "+p.ClusterID+" as", p.Remapped.all())
		for _, a := range p.aliases() {
			seen = append(seen, named{"cluster " + p.ClusterID + " also as", a.Seen})
		}
		if err := checkBetween(seen, local); err != nil {
			return err
		}
		remapped = append(remapped, seen...)
	}
	return checkApart(remapped)
}

func (p Peer) check() error {
	subject := "peer " + p.ClusterID
	switch {
	case p.Index < 0 || p.Index > MaxIndex:
		return fmt.Errorf("%s: tunnel %d: %w", subject, p.Index, errIndex)
	case p.Role != Server && p.Role != Client:
		return fmt.Errorf("%s: %w", subject, errRole)
	case p.PrivateKey.IsZero():
		return fmt.Errorf("%s: %w", subject, errKey)
	case p.Role == Server && p.ListenPort == 0:
		return fmt.Errorf("%s: %w", subject, errPort)
	case p.MTU < minMTU || p.MTU > 65535:
		return fmt.Errorf("%s: MTU %d: %w", subject, p.MTU, errMTU)
	case p.UnderlayMTU != 0 && checkUnderlay(p.UnderlayMTU) != nil:
		return fmt.Errorf("%s: %w", subject, checkUnderlay(p.UnderlayMTU))
	case p.Endpoint.IsValid() && (p.Endpoint.Port() == 0 || p.Endpoint.Addr().IsUnspecified() || p.Endpoint.Addr().IsMulticast()):
		return fmt.Errorf("%s: endpoint %s: %w", subject, p.Endpoint, errEndpoint)
	case p.Endpoint.IsValid() && !p.Endpoint.Addr().Unmap().Is4():
		return fmt.Errorf("%s: endpoint %s: %w", subject, p.Endpoint, ErrIPv6)
	case len(p.Real.Pod) == 0:
		return fmt.Errorf("%s: %w: need a pod CIDR", subject, ErrNoCIDR)
	}
	if err := corresponding(p.Real.Pod, p.Remapped.Pod); err != nil {
		return fmt.Errorf("%s: pod CIDRs: %w", subject, err)
	}
	if err := corresponding(p.Real.External, p.Remapped.External); err != nil {
		return fmt.Errorf("%s: external CIDRs: %w", subject, err)
	}
	actual := name(subject+": real", p.Real.all())
	if err := checkPrefixes(append(actual, name(subject+": remapped", p.Remapped.all())...)); err != nil {
		return err
	}
	for _, a := range p.aliases() {
		if !slices.Contains(p.Real.all(), a.Real) || a.Seen.Bits() != a.Real.Bits() {
			return fmt.Errorf("%s: %s also as %s: %w", subject, a.Real, a.Seen, errRemap)
		}
		if err := checkPrefix(named{subject + ": also", a.Seen}); err != nil {
			return err
		}
	}
	for _, e := range p.Open {
		if err := checkAddr(subject+": open", e.Addr); err != nil {
			return err
		}
		if e.Protocol != TCP && e.Protocol != UDP && e.Protocol != SCTP {
			return fmt.Errorf("%s: open %s: protocol %s: %w", subject, e.Addr, e.Protocol, errProtocol)
		}
	}
	return checkApart(actual)
}

// aliases returns the ranges of Also that Remapped does not have.
func (p Peer) aliases() []Alias {
	known := p.Remapped.all()
	return slices.DeleteFunc(slices.Clone(p.Also), func(a Alias) bool { return slices.Contains(known, a.Seen) })
}

func corresponding(actual, remapped []netip.Prefix) error {
	if len(actual) != len(remapped) {
		return fmt.Errorf("%d real, %d remapped: %w", len(actual), len(remapped), errRemap)
	}
	for i := range actual {
		if actual[i].Bits() != remapped[i].Bits() {
			return fmt.Errorf("%s seen as %s: %w", actual[i], remapped[i], errRemap)
		}
	}
	return nil
}

func (in NodeInputs) check() error {
	if err := checkAddr("node", in.NodeIP); err != nil {
		return err
	}
	if err := checkUnderlay(in.UnderlayMTU); err != nil {
		return err
	}
	pods := name("local pod CIDR", in.PodCIDRs)
	if err := checkPrefixes(pods); err != nil {
		return err
	}
	var remote []named
	byAddress := make(map[netip.Addr]string, len(in.Gateways))
	for _, g := range in.Gateways {
		if err := g.check(pods); err != nil {
			return err
		}
		if other, taken := byAddress[g.PodIP]; taken && !g.Gone {
			return fmt.Errorf("gateways %s and %s: address %s: %w", other, g.Name, g.PodIP, errDup)
		}
		if !g.Gone {
			byAddress[g.PodIP] = g.Name
		}
		remote = append(remote, g.remotes()...)
	}
	return checkApart(remote)
}

func (g Gateway) remotes() []named { return name("remote CIDR of gateway "+g.Name, g.RemoteCIDRs) }

// check refuses a gateway with wrong values. It does not compare the gateway with other gateways.
func (g Gateway) check(pods []named) error {
	if err := checkAddr("gateway "+g.Name, g.PodIP); err != nil {
		return err
	}
	if g.MTU < minMTU || g.MTU > 65535 {
		return fmt.Errorf("gateway %s: MTU %d: %w", g.Name, g.MTU, errMTU)
	}
	if g.HostIP.IsValid() {
		if err := checkAddr("the node of gateway "+g.Name, g.HostIP); err != nil {
			return err
		}
	}
	if g.UnderlayMTU != 0 {
		if err := checkUnderlay(g.UnderlayMTU); err != nil {
			return fmt.Errorf("gateway %s: %w", g.Name, err)
		}
	}
	if err := checkPrefixes(g.remotes()); err != nil {
		return err
	}
	return checkBetween(pods, g.remotes())
}

// UnfitGateway is a gateway to which the node makes no routes.
type UnfitGateway struct {
	Gateway

	Err error
}

// Fitting leaves out the gateways with settings that ComputeNode can't use, so that they don't cut
// off the other gateways. If two gateways exclude each other, the first stays. If the node's own
// values are wrong, Fitting leaves out nothing, and ComputeNode returns the error.
func (in NodeInputs) Fitting() (NodeInputs, []UnfitGateway) {
	fit := in
	fit.Gateways = nil
	if in.check() == nil || fit.check() != nil {
		return in, nil
	}
	return fit.with(in.Gateways)
}

// with adds gateways in their order, and returns the gateways that conflict with earlier ones. It
// first tries all at once, because gateways that fit together also fit one by one.
func (in NodeInputs) with(more []Gateway) (NodeInputs, []UnfitGateway) {
	all := in
	all.Gateways = slices.Concat(in.Gateways, more)
	err := all.check()
	switch {
	case err == nil:
		return all, nil
	case len(more) == 1:
		return in, []UnfitGateway{{more[0], err}}
	}
	half := len(more) / 2
	in, first := in.with(more[:half])
	in, second := in.with(more[half:])
	return in, append(first, second...)
}

// outermost sorts prefixes, and leaves out prefixes inside another one.
func outermost(prefixes []netip.Prefix) []netip.Prefix {
	sorted := slices.Clone(prefixes)
	slices.SortFunc(sorted, comparePrefix)
	var kept []netip.Prefix
	for _, p := range sorted {
		// The order is by address, then by length, so a network comes before the networks inside it.
		if len(kept) == 0 || !ipam.Contains(kept[len(kept)-1], p) {
			kept = append(kept, p)
		}
	}
	return kept
}
