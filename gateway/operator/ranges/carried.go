package ranges

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/internal/ipam"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// Bounds of the ranges of one peer. Each range takes a range of the same length from the pools for all peers,
// a Network, and a route of every node. The same bounds are in policies.yaml of package render.
const (
	maxRanges  = 16
	widestBits = 8
)

// Bounded returns an error if a peer has too many ranges, or a range that is too large. Ranges that already
// are remapped stay.
func Bounded(c *networkingv1beta1.Configuration) error {
	pods, external := c.Spec.Remote.CIDR.Pod, c.Spec.Remote.CIDR.External
	if s := c.Status.Remote; s != nil && len(s.CIDR.Pod) == len(pods) && len(s.CIDR.External) == len(external) {
		return nil
	}
	if n := len(pods) + len(external); n > maxRanges {
		return fmt.Errorf("the peer has %d ranges, at most %d can be remapped: %w", n, maxRanges, ipam.ErrInvalid)
	}
	for _, cidr := range append(slices.Clone(pods), external...) {
		if p, err := netip.ParsePrefix(string(cidr)); err == nil && p.Bits() < widestBits {
			return fmt.Errorf("remote CIDR %s is larger than a /%d: %w", cidr, widestBits, ipam.ErrInvalid)
		}
	}
	return nil
}

// Grown reports whether a cluster has all its former ranges, and further ones. It returns false if the former
// ranges are not as written, because then an admin has chosen the addresses that a peer reaches.
func Grown(written string, had, has networkingv1beta1.ClusterConfigCIDR) bool {
	return written == wire.RangesText(had) && written != wire.RangesText(has) &&
		containsAll(has.Pod, had.Pod) && containsAll(has.External, had.External)
}

func containsAll(all, some []networkingv1beta1.CIDR) bool {
	return !slices.ContainsFunc(some, func(c networkingv1beta1.CIDR) bool { return !slices.Contains(all, c) })
}

// Additional returns a peer's ranges of pods that no admin here has agreed to. With them, a peer could
// attract traffic. So none of the agreed ranges may be missing, no new range may be larger than they are, and
// the caller gives each new range another range here. The error is the reason that no new range is accepted.
func Additional(agreed, said networkingv1beta1.ClusterConfigCIDR) (more []networkingv1beta1.CIDR, err error) {
	switch {
	case !containsAll(said.Pod, agreed.Pod):
		return nil, errors.New("former ranges are missing")
	case !containsAll(said.External, agreed.External) || !containsAll(agreed.External, said.External):
		return nil, errors.New("the external ranges differ")
	case len(said.Pod) > maxRanges:
		return nil, fmt.Errorf("%d ranges are too many", len(said.Pod))
	}
	var known []netip.Prefix
	shortest := 32
	for _, c := range append(slices.Clone(agreed.Pod), agreed.External...) {
		if p, err := netip.ParsePrefix(string(c)); err == nil {
			known = append(known, p)
		}
	}
	for _, c := range agreed.Pod {
		if p, err := netip.ParsePrefix(string(c)); err == nil {
			shortest = min(shortest, p.Bits())
		}
	}
	for _, c := range said.Pod {
		if slices.Contains(agreed.Pod, c) {
			continue
		}
		p, err := netip.ParsePrefix(string(c))
		switch {
		case err != nil || !p.Addr().Is4() || p != p.Masked():
			return nil, fmt.Errorf("%q: %w", c, ipam.ErrInvalid)
		case p.Bits() < shortest:
			return nil, fmt.Errorf("%s is larger than the present ranges", c)
		case slices.ContainsFunc(known, p.Overlaps):
			return nil, fmt.Errorf("%s overlaps another range of the peer", c)
		}
		known, more = append(known, p), append(more, c)
	}
	return more, nil
}

// Carried returns the peer's ranges that no admin of this cluster has agreed to.
func Carried(c *networkingv1beta1.Configuration) []networkingv1beta1.CIDR {
	return wire.ParseRanges(c.Annotations[render.AnnotationCarriedRanges]).Pod
}
