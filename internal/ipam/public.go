package ipam

import (
	"net/netip"
	"slices"
)

// unroutable are the ranges, besides the private ones, that no packet from another
// network reaches: RFC 6890 lists them. Carriers share 100.64.0.0/10 behind their own
// NAT (RFC 6598).
var unroutable = [...]netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"),
}

// Public reports whether packets from anywhere may reach an address.
func Public(a netip.Addr) bool {
	a = a.Unmap()
	return a.IsGlobalUnicast() && !a.IsPrivate() && !slices.ContainsFunc(unroutable[:], func(p netip.Prefix) bool { return p.Contains(a) })
}
