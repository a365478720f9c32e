package ipam

import (
	"net/netip"
	"slices"
)

// unroutable are the ranges, in addition to the private ranges, that packets from other networks never reach
// (RFC 6890). Carriers share 100.64.0.0/10 behind their own NAT (RFC 6598).
var unroutable = [...]netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"),
}

// Public reports whether an address is reachable from everywhere.
func Public(a netip.Addr) bool {
	a = a.Unmap()
	return a.IsGlobalUnicast() && !a.IsPrivate() && !slices.ContainsFunc(unroutable[:], func(p netip.Prefix) bool { return p.Contains(a) })
}
