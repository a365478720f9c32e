// Package ipam chooses the addresses under which a cluster sees another one.
//
// Two clusters often use the same pod network. Then each cluster gives the network of the other cluster a
// free prefix of the same length, and translates at its own gateway. The clusters do not negotiate the
// prefix. The functions are pure, because the operator uses them to allocate, and the wizard to predict.
//
// Everything is IPv4, as in Liqo.
package ipam

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
)

var (
	// ErrExhausted means that no pool has a free prefix of the wanted length.
	ErrExhausted = errors.New("no free prefix of this length in any pool")
	// ErrInvalid means that a prefix or address is not usable: not IPv4, not valid, or with
	// bits set behind the mask.
	ErrInvalid = errors.New("not a valid IPv4 prefix")
)

// Reservation is a prefix under which no peer may be seen, with the reason.
type Reservation struct {
	Prefix netip.Prefix
	Reason string
}

func (r Reservation) String() string { return r.Prefix.String() + ", " + r.Reason }

// Fixed returns the reservations that are the same in every cluster. [Allocate] adds them itself.
func Fixed() []Reservation {
	v4 := func(a, b, c, d byte, bits int, reason string) Reservation {
		return Reservation{netip.PrefixFrom(netip.AddrFrom4([4]byte{a, b, c, d}), bits), reason}
	}
	return []Reservation{
		v4(0, 0, 0, 0, 8, "this network (RFC 791)"),
		v4(127, 0, 0, 0, 8, "loopback"),
		v4(169, 254, 0, 0, 16, "link-local: clouds' metadata, and the tunnels' own addresses"),
		v4(168, 63, 129, 16, 32, "Azure's metadata"),
		v4(100, 100, 100, 200, 32, "Alibaba Cloud's metadata"),
		v4(192, 0, 0, 192, 32, "Oracle Cloud's metadata"),
		v4(224, 0, 0, 0, 4, "multicast"),
		v4(240, 0, 0, 0, 16, "Consul's virtual addresses"),
		v4(240, 240, 0, 0, 16, "Istio's automatic addresses"),
		v4(241, 0, 0, 0, 16, "Kuma's addresses of Services"),
		v4(242, 0, 0, 0, 8, "Submariner's Globalnet"),
		v4(255, 0, 0, 0, 8, "broadcast, and the end of the address space"),
	}
}

// Host reserves one address.
func Host(a netip.Addr, reason string) Reservation {
	a = a.Unmap()
	return Reservation{netip.PrefixFrom(a, a.BitLen()), reason}
}

// lanBits is the prefix length of a node's own network if the real length is unknown.
const lanBits = 24

// Node reserves a node's addresses of all kinds. It also reserves the networks around private addresses,
// because the cluster may need other machines there.
func Node(name string, addresses []netip.Addr) []Reservation {
	var out []Reservation
	for _, a := range addresses {
		if a = a.Unmap(); !a.Is4() {
			continue
		}
		out = append(out, Host(a, "node "+name))
		if a.IsPrivate() {
			out = append(out, Reservation{netip.PrefixFrom(a, lanBits).Masked(), "the network around node " + name})
		}
	}
	return out
}

// widest is the shortest prefix length of a route that counts as a network. VPNs route all packets by two
// shorter prefixes, each for half of all addresses.
const widest = 8

// Around returns the networks in the routes of a node, without the cluster's own networks. They are sorted,
// and none is inside another.
func Around(routes, own []netip.Prefix) []netip.Prefix {
	inside := func(p netip.Prefix) func(netip.Prefix) bool {
		return func(o netip.Prefix) bool { return Contains(o, p) }
	}
	kept := slices.DeleteFunc(slices.Clone(routes), func(p netip.Prefix) bool {
		return check(p) != nil || p.Bits() < widest || slices.ContainsFunc(own, inside(p))
	})
	slices.SortFunc(kept, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	var out []netip.Prefix
	for _, p := range kept { // a prefix that contains p precedes p
		if n := len(out); n == 0 || !Contains(out[n-1], p) {
			out = append(out, p)
		}
	}
	return out
}

// DefaultPools returns the prefixes from which peers get ranges: class E, which Linux routes like any other
// range, and which no LAN, VPC, VPN or API server uses. Such addresses are never visible on a wire: between
// nodes, packets are inside the fabric, and the tunnel carries real addresses. Each peer takes two of the
// 3581 prefixes of length 16 that are not [Fixed].
func DefaultPools() []netip.Prefix {
	return []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{240}), 4)}
}

// Overlaps reports whether a and b share an address.
func Overlaps(a, b netip.Prefix) bool { return a.Overlaps(b) }

// Contains reports whether every address of inner is in outer.
func Contains(outer, inner netip.Prefix) bool {
	return outer.IsValid() && inner.IsValid() && outer.Bits() <= inner.Bits() && outer.Contains(inner.Addr())
}

// Remap moves addr from one prefix to another of the same length, and keeps the host bits. The gateway's
// prefix translation does the same to a packet.
func Remap(addr netip.Addr, from, to netip.Prefix) (netip.Addr, error) {
	if err := check(from); err != nil {
		return netip.Addr{}, fmt.Errorf("remap %s: %w", addr, err)
	}
	if err := check(to); err != nil {
		return netip.Addr{}, fmt.Errorf("remap %s: %w", addr, err)
	}
	if from.Bits() != to.Bits() {
		return netip.Addr{}, fmt.Errorf("remap %s: %s and %s differ in length", addr, from, to)
	}
	if !from.Contains(addr) {
		return netip.Addr{}, fmt.Errorf("remap %s: not in %s", addr, from)
	}
	host := number(addr) & hostMask(from.Bits())
	return address(number(to.Addr()) | host), nil
}

// Kinds of ranges that a peer has.
const (
	Pods     = "pod"
	External = "external"
)

// Request is a peer's range for which a range is needed here.
type Request struct {
	Want netip.Prefix // as the peer knows it
	// Peer and Kind determine where in a pool the search begins. So a peer that is connected again gets its
	// former range.
	Peer, Kind string
	// Remap means that the result must not be Want.
	Remap bool
}

// Allocate chooses the prefix under which the local cluster will see r.Want.
//
// The result is r.Want itself if r.Want is private or in a pool, overlaps neither taken nor [Fixed], and
// r.Remap is not set. So a public network is always remapped. Otherwise the result is a free prefix of the
// same length, in the first pool that has one. The search begins at a position that r's peer and kind
// determine. why is the reason that the result is not r.Want; "" if it is. Entries of taken that are not IPv4
// prefixes are ignored, and so are host bits in the entries.
//
// The error wraps ErrInvalid or ErrExhausted.
func Allocate(taken []Reservation, r Request, pools []netip.Prefix) (got netip.Prefix, why string, err error) {
	if err := check(r.Want); err != nil {
		return netip.Prefix{}, "", fmt.Errorf("allocate: %w", err)
	}
	for _, pool := range pools {
		if err := check(pool); err != nil {
			return netip.Prefix{}, "", fmt.Errorf("allocate %s: pool: %w", r.Want, err)
		}
	}
	taken = slices.Concat(Fixed(), taken)
	switch inTheWay, blocked := overlapping(taken, r.Want); {
	case blocked:
		why = "it overlaps " + inTheWay.String()
	case r.Remap:
		why = "the peer may have said it without an admin of this cluster"
	case private(r.Want) || slices.ContainsFunc(pools, func(pool netip.Prefix) bool { return Contains(pool, r.Want) }):
		return r.Want, "", nil
	default:
		why = "it is neither private nor in a pool"
	}
	for _, pool := range pools {
		if p, ok := nextFree(taken, pool, r); ok {
			return p, why, nil
		}
	}
	return netip.Prefix{}, why, fmt.Errorf("allocate %s: %w: %v", r.Want, ErrExhausted, pools)
}

// private reports whether all addresses of p are private (RFC 1918). It checks only the first and the last
// address, because a prefix with addresses of two private ranges would begin at 0.0.0.0 or 128.0.0.0.
func private(p netip.Prefix) bool {
	return p.Addr().IsPrivate() && address(number(p.Addr())|hostMask(p.Bits())).IsPrivate()
}

func overlapping(taken []Reservation, p netip.Prefix) (Reservation, bool) {
	i := slices.IndexFunc(taken, func(t Reservation) bool { return t.Prefix.Overlaps(p) })
	if i < 0 {
		return Reservation{}, false
	}
	return taken[i], true
}

func nextFree(taken []Reservation, pool netip.Prefix, r Request) (netip.Prefix, bool) {
	bits := r.Want.Bits()
	if bits < pool.Bits() {
		return netip.Prefix{}, false
	}
	// The arithmetic has 64 bits, so that it does not overflow at the end of the address space.
	begin := uint64(number(pool.Addr()))
	end := begin + size(pool.Bits())
	from := begin + position(r)%(size(pool.Bits())/size(bits))*size(bits)
	if p, ok := firstFree(taken, from, end, bits); ok {
		return p, true
	}
	return firstFree(taken, begin, from, bits)
}

func position(r Request) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(r.Peer + "/" + r.Kind)) // never fails
	return h.Sum64()
}

// firstFree returns the first prefix of this length from begin to end that no prefix of taken overlaps. It
// visits each prefix of taken once. To compare every candidate with the thousands of reservations of a hub
// took 8 ms, and a /8 has four million candidates of length 30.
func firstFree(taken []Reservation, begin, end uint64, bits int) (netip.Prefix, bool) {
	type span struct{ start, stop uint64 }
	spans := make([]span, 0, len(taken))
	for _, t := range taken {
		if p := t.Prefix.Masked(); p.Addr().Is4() {
			start := uint64(number(p.Addr()))
			spans = append(spans, span{start, start + size(p.Bits())})
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	next := begin
	for _, s := range spans {
		if s.start >= next+size(bits) {
			break // all further spans begin later
		}
		if s.stop > next {
			next = (s.stop + size(bits) - 1) / size(bits) * size(bits)
		}
	}
	if next >= end {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(address(uint32(next)), bits), true
}

// Without returns IPv4 prefixes without the spared addresses, as the fewest prefixes. It does not change a
// prefix without such an address.
func Without(prefixes []netip.Prefix, spared []Reservation) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range prefixes {
		inside, some := overlapping(spared, p)
		switch {
		case !some:
			out = append(out, p)
		case !Contains(inside.Prefix, p): // a part of p
			low := netip.PrefixFrom(p.Addr(), p.Bits()+1)
			high := netip.PrefixFrom(address(number(p.Addr())|uint32(size(p.Bits()+1))), p.Bits()+1)
			out = append(out, Without([]netip.Prefix{low, high}, spared)...)
		}
	}
	return out
}

func check(p netip.Prefix) error {
	if !p.IsValid() || !p.Addr().Is4() || p.Masked() != p {
		return fmt.Errorf("%q: %w", p.String(), ErrInvalid)
	}
	return nil
}

func number(a netip.Addr) uint32 {
	b := a.As4()
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}

func address(n uint32) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}

func size(bits int) uint64 { return 1 << (32 - bits) }

func hostMask(bits int) uint32 { return uint32(size(bits) - 1) }
