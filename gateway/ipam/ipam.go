// Package ipam decides under which addresses a cluster sees another one.
//
// Two clusters often use the same pod network. Each then gives the other's
// network a free prefix of the same length and translates at its own gateway;
// nothing about the choice is negotiated. The functions are pure, so the
// operator that allocates and the wizard that predicts share them.
//
// Everything is IPv4, as in Liqo.
package ipam

import (
	"errors"
	"fmt"
	"net/netip"
)

var (
	// ErrExhausted says that no pool has a free prefix of the wanted length.
	ErrExhausted = errors.New("no free prefix of this length in any pool")
	// ErrInvalid says that a prefix or address is not usable: not IPv4, not
	// valid, or with bits set behind the mask.
	ErrInvalid = errors.New("not a valid IPv4 prefix")
)

// DefaultPools returns the prefixes from which Liqo allocates by default, in
// its order.
func DefaultPools() []netip.Prefix {
	return []netip.Prefix{
		netip.PrefixFrom(netip.AddrFrom4([4]byte{10}), 8),
		netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 168}), 16),
		netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 16}), 12),
	}
}

// Overlaps reports whether a and b share an address.
func Overlaps(a, b netip.Prefix) bool { return a.Overlaps(b) }

// Contains reports whether every address of inner is in outer.
func Contains(outer, inner netip.Prefix) bool {
	return outer.IsValid() && inner.IsValid() && outer.Bits() <= inner.Bits() && outer.Contains(inner.Addr())
}

// Remap moves addr from one prefix to another of the same length; the host
// bits stay. It is what the gateway's prefix translation does to a packet.
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

// Allocate chooses the prefix under which the local cluster will see want.
//
// It is want itself if a pool contains it and none of taken overlaps it,
// otherwise the first prefix of the same length that is free, scanning the
// pools in order and each from its lowest address. A network outside all
// pools is therefore always remapped, as Liqo does. Entries of taken that are
// no IPv4 prefixes cannot overlap and are ignored; host bits in them too.
//
// The error satisfies errors.Is for ErrInvalid or ErrExhausted.
func Allocate(taken []netip.Prefix, want netip.Prefix, pools []netip.Prefix) (netip.Prefix, error) {
	if err := check(want); err != nil {
		return netip.Prefix{}, fmt.Errorf("allocate: %w", err)
	}
	for _, pool := range pools {
		if err := check(pool); err != nil {
			return netip.Prefix{}, fmt.Errorf("allocate %s: pool: %w", want, err)
		}
	}
	for _, pool := range pools {
		if Contains(pool, want) && isFree(taken, want) {
			return want, nil
		}
	}
	for _, pool := range pools {
		if p, ok := firstFree(taken, pool, want.Bits()); ok {
			return p, nil
		}
	}
	return netip.Prefix{}, fmt.Errorf("allocate %s: %w", want, ErrExhausted)
}

func isFree(taken []netip.Prefix, p netip.Prefix) bool {
	for _, t := range taken {
		if t.Overlaps(p) {
			return false
		}
	}
	return true
}

// firstFree jumps over each taken prefix that is in the way instead of trying
// every candidate: a /30 in 10.0.0.0/8 would otherwise need four million.
func firstFree(taken []netip.Prefix, pool netip.Prefix, bits int) (netip.Prefix, bool) {
	if bits < pool.Bits() {
		return netip.Prefix{}, false
	}
	// 64-bit arithmetic, so that the end of 255.0.0.0/8 does not wrap.
	end := uint64(number(pool.Addr())) + size(pool.Bits())
	for next := uint64(number(pool.Addr())); next < end; {
		p := netip.PrefixFrom(address(uint32(next)), bits)
		blocked := false
		for _, t := range taken {
			if !t.Overlaps(p) {
				continue
			}
			blocked = true
			// Prefixes nest or are apart, so the end of the larger one is
			// aligned for the next candidate.
			after := uint64(number(p.Addr())) + size(bits)
			if t.Bits() < bits {
				after = uint64(number(t.Masked().Addr())) + size(t.Bits())
			}
			next = max(next, after)
		}
		if !blocked {
			return p, true
		}
	}
	return netip.Prefix{}, false
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
