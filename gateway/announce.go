package gateway

import (
	"net/netip"
	"slices"
	"time"

	"github.com/liqo-tui/liqo-tui/internal/ipam"
)

// Range is one of which a node's pods may have addresses.
type Range struct {
	Prefix netip.Prefix
	// Given: the pod network itself says that this node has it. Otherwise the
	// Node says so (spec.podCIDRs), which many pod networks don't follow.
	Given bool
}

const (
	// announcePause is between two writes of a node.
	announcePause = time.Second
	// takeBackAfter is how long a write waits that only takes back. Such writes can
	// be few: packets for a pod that is gone are lost wherever they are sent.
	takeBackAfter = 10 * time.Second
)

// Announcer decides what a node tells the gateways about where pods are, and
// when. Pods are the truth, and ranges only make it short: a pod network that
// gives out other addresses than it says costs writes, never packets.
type Announcer struct {
	told   bool
	said   []netip.Prefix
	tried  time.Time             // when a write was due last
	excess time.Time             // since when said has had too much; zero: it has not
	used   map[netip.Prefix]bool // ranges that some pod had an address of
}

// Next returns what to write now. If nothing is due, ok is false, and wait is
// until there will be, if nothing changes; 0: never. With also, the caller has
// something else to write.
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

// Said notes that what Next returned was written.
func (a *Announcer) Said(what []netip.Prefix) {
	a.told, a.said, a.excess = true, what, time.Time{}
}

// serves returns as few prefixes as hold the addresses of all pods: what the pod
// network has given to the node; where it says nothing, those of the Node's ranges
// of which a pod had an address; and for the rest single addresses, or blocks of which
// pods have all.
func (a *Announcer) serves(ranges []Range, pods []netip.Addr) []netip.Prefix {
	var given, stated, out []netip.Prefix
	for _, r := range ranges {
		switch p := r.Prefix; {
		case !p.IsValid() || !p.Addr().Is4() || p.Bits() == 0:
		case r.Given:
			given = append(given, p.Masked())
		default:
			stated = append(stated, p.Masked())
		}
	}
	if len(given) > 0 {
		stated = nil
	}
	used := map[netip.Prefix]bool{}
	for _, p := range stated {
		// Once is enough: what a node is told by its podCIDRs does not come and go
		// with single pods.
		if a.used[p] || slices.ContainsFunc(pods, p.Contains) {
			used[p] = true
			out = append(out, p)
		}
	}
	a.used = used
	return outermost(slices.Concat(out, given, whole(pods)))
}

func within(prefixes []netip.Prefix, p netip.Prefix) bool {
	return slices.ContainsFunc(prefixes, func(outer netip.Prefix) bool { return ipam.Contains(outer, p) })
}

// whole are the fewest prefixes that hold these IPv4 addresses and no other: where
// all of a block are this node's, no other node has one of them.
func whole(addresses []netip.Addr) []netip.Prefix {
	sorted := slices.Compact(slices.SortedFunc(slices.Values(addresses), netip.Addr.Compare))
	var out []netip.Prefix
	for _, a := range sorted {
		if !a.Is4() {
			continue
		}
		p := netip.PrefixFrom(a, a.BitLen())
		// Two halves are one, which may be half of the next.
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
