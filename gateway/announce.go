package gateway

import (
	"net/netip"
	"slices"
	"time"

	"github.com/liqo-tui/liqo-tui/internal/ipam"
)

// Range is a range from which a node's pods may get addresses.
type Range struct {
	Prefix netip.Prefix
	// Given is set if the pod network itself has given the range to this node. Otherwise the
	// range is from the Node's spec.podCIDRs, which many pod networks don't use.
	Given bool
}

const (
	// announcePause is the shortest time between two writes of a node.
	announcePause = time.Second
	// takeBackAfter is the delay of a write that only removes addresses. Such writes need not be fast,
	// because packets to a deleted pod are lost anyway.
	takeBackAfter = 10 * time.Second
)

// Announcer decides which of its pods' addresses a node announces to the gateways, and when. Ranges only make
// the list shorter: addresses outside the ranges are announced, too. They cost more writes, but no packets
// are lost.
type Announcer struct {
	told   bool
	said   []netip.Prefix
	tried  time.Time             // when a write was last due
	excess time.Time             // since when said has contained addresses to remove; zero if it contains none
	used   map[netip.Prefix]bool // ranges in which a pod has had an address
}

// Next returns the prefixes to write now. If no write is due, ok is false. wait is then the time until a
// write is due if nothing changes; 0: never. also is set if the caller has something else to write.
func (a *Announcer) Next(now time.Time, ranges []Range, pods []netip.Addr, also bool) (say []netip.Prefix, ok bool, wait time.Duration) {
	say = a.serves(ranges, pods)
	due := a.tried.Add(announcePause)
	switch {
	case !a.told:
		due = now
	case also || slices.ContainsFunc(say, func(p netip.Prefix) bool { return !within(a.said, p) }):
	case slices.Equal(say, a.said):
		a.excess = time.Time{}
		return nil, false, 0
	default:
		if a.excess.IsZero() {
			a.excess = now
		}
		if later := a.excess.Add(takeBackAfter); later.After(due) {
			due = later
		}
	}
	if due.After(now) {
		return nil, false, due.Sub(now)
	}
	a.tried = now
	return say, true, 0
}

// Said notes that the caller has written these prefixes.
func (a *Announcer) Said(what []netip.Prefix) {
	a.told, a.said, a.excess = true, what, time.Time{}
}

// Compare reports whether some pod has an address in the cluster's ranges. It also returns the
// announced prefixes that contain the other pods.
func (a *Announcer) Compare(cluster []netip.Prefix, ranges []Range, pods []netip.Addr) (inside bool, outside []netip.Prefix) {
	of := func(prefixes []netip.Prefix, pod netip.Addr) int {
		return slices.IndexFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(pod) })
	}
	announced := a.serves(ranges, pods)
	for _, pod := range pods {
		if of(cluster, pod) >= 0 {
			inside = true
		} else if i := of(announced, pod); i >= 0 && !slices.Contains(outside, announced[i]) {
			outside = append(outside, announced[i])
		}
	}
	slices.SortFunc(outside, comparePrefix)
	return inside, outside
}

// serves returns few prefixes that contain the addresses of all pods. These are the ranges in which a pod has
// had an address, single addresses, and blocks whose addresses all belong to pods. It uses the ranges that
// the pod network has given to the node. If no pod has used one of these, it uses the ranges of the Node
// object, because the others may be leftovers of a removed pod network, which other nodes use now.
func (a *Announcer) serves(ranges []Range, pods []netip.Addr) []netip.Prefix {
	used := map[netip.Prefix]bool{}
	of := func(given bool) (out []netip.Prefix) {
		for _, r := range ranges {
			p := r.Prefix.Masked()
			if r.Given != given || !p.IsValid() || !p.Addr().Is4() || p.Bits() == 0 {
				continue
			}
			// A range stays after its pods are deleted. Otherwise, ranges would come and go with single pods.
			if a.used[p] || slices.ContainsFunc(pods, p.Contains) {
				used[p] = true
				out = append(out, p)
			}
		}
		return out
	}
	out := of(true)
	if len(out) == 0 {
		out = of(false)
	}
	a.used = used
	return outermost(slices.Concat(out, whole(pods)))
}

func within(prefixes []netip.Prefix, p netip.Prefix) bool {
	return slices.ContainsFunc(prefixes, func(outer netip.Prefix) bool { return ipam.Contains(outer, p) })
}

// whole returns the fewest prefixes that contain exactly these IPv4 addresses. No other node has an address
// in such a prefix.
func whole(addresses []netip.Addr) []netip.Prefix {
	sorted := slices.Compact(slices.SortedFunc(slices.Values(addresses), netip.Addr.Compare))
	var out []netip.Prefix
	for _, a := range sorted {
		if !a.Is4() {
			continue
		}
		p := netip.PrefixFrom(a, a.BitLen())
		// Two halves make one block, which may itself be half of the next larger block.
		for n := len(out); n > 0 && out[n-1].Bits() == p.Bits(); n = len(out) {
			both := netip.PrefixFrom(p.Addr(), p.Bits()-1).Masked()
			if !both.Contains(out[n-1].Addr()) {
				break
			}
			out, p = out[:n-1], both
		}
		out = append(out, p)
	}
	return out
}
