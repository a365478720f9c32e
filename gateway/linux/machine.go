//go:build linux

package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/liqo-tui/liqo-tui/gateway"
)

// ErrMachine means that the machine lacks something that every KernelState needs. The error that wraps
// it names the missing part.
var ErrMachine = errors.New("this machine can't be a gateway")

// CheckMachine verifies that the kernel is new enough and has nftables. Its
// error satisfies ErrMachine.
func CheckMachine() error { return errors.Join(checkKernel(), checkNftables()) }

// checkKernel requires Linux 5.10. Concatenated intervals came with 5.6, input interfaces in
// postrouting chains with 5.7, and prefix NAT with 5.8.
func checkKernel() error {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return fmt.Errorf("read kernel version: %w", err)
	}
	release := unix.ByteSliceToString(u.Release[:])
	major, minor, err := parseRelease(release)
	if err != nil {
		return err
	}
	if major < 5 || major == 5 && minor < 10 {
		return fmt.Errorf("%w: kernel %s is older than 5.10", ErrMachine, release)
	}
	return nil
}

func parseRelease(release string) (major, minor int, err error) {
	parts := strings.SplitN(release, ".", 3)
	if len(parts) >= 2 {
		minorDigits, _, _ := strings.Cut(parts[1], "-")
		major, err = strconv.Atoi(parts[0])
		if err == nil {
			minor, err = strconv.Atoi(minorDigits)
		}
	}
	if len(parts) < 2 || err != nil {
		return 0, 0, fmt.Errorf("kernel version %q: not understood", release)
	}
	return major, minor, nil
}

func checkNftables() error {
	c, err := nftables.New()
	if err == nil {
		_, err = c.ListTablesOfFamily(nftables.TableFamilyIPv4)
	}
	if err != nil {
		return fmt.Errorf("%w: no nftables (kernel module nf_tables, or CAP_NET_ADMIN): %w", ErrMachine, err)
	}
	return nil
}

// Networks returns the networks that the machine has routes to: its own networks, and networks that an admin,
// DHCP, a routing protocol or a VPN has added. Routes of VPNs are in other tables (Tailscale 52, wg-quick
// 51820), whose rules come after ours. VRFs have their own tables, too.
func Networks() ([]netip.Prefix, error) {
	rules, err := dump(func() ([]netlink.Rule, error) { return netlink.RuleList(netlink.FAMILY_V4) })
	if err != nil {
		return nil, fmt.Errorf("list rules: %w", err)
	}
	links, err := dump(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list devices: %w", err)
	}
	routes, err := dump(func() ([]netlink.Route, error) {
		return netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
	})
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	return networks(rules, links, routes), nil
}

// networks returns the destinations of the routes that packets can take.
func networks(rules []netlink.Rule, links []netlink.Link, routes []netlink.Route) (found []netip.Prefix) {
	used := map[int]bool{}
	use := func(table int) { used[table] = table != gateway.KernelLocal && !ourTable(table) }
	for _, r := range rules {
		use(r.Table)
	}
	for _, l := range links {
		// One rule, l3mdev, is for all VRFs. The rule names no table, because each VRF device has its own.
		if vrf, ok := l.(*netlink.Vrf); ok {
			use(int(vrf.Table))
		}
	}
	for _, r := range routes {
		if used[r.Table] && r.Protocol != gateway.RouteProtocol && r.Type == unix.RTN_UNICAST && r.Dst != nil {
			found = append(found, prefix(r.Dst))
		}
	}
	return found
}

// Addresses returns, sorted, the addresses that this machine's own packets can have as their
// source. A secondary address can be the source of a route, such as a floating address at
// many providers.
func Addresses() ([]netip.Addr, error) {
	links, err := dump(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list devices: %w", err)
	}
	dummy := map[int]bool{}
	for _, l := range links {
		dummy[l.Attrs().Index] = l.Type() == "dummy" // kube-proxy keeps the addresses of all Services on a dummy device
	}
	all, err := dump(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_V4) })
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	var found []netip.Addr
	for _, a := range all {
		ip := addr(a.IP)
		if !dummy[a.LinkIndex] && !ip.IsLoopback() && !ip.IsLinkLocalUnicast() {
			found = append(found, ip)
		}
	}
	slices.SortFunc(found, netip.Addr.Compare)
	return slices.Compact(found), nil
}

// HasAddress reports whether a device of this machine has an address.
func HasAddress(a netip.Addr) (bool, error) {
	all, err := dump(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_V4) })
	if err != nil {
		return false, fmt.Errorf("list addresses: %w", err)
	}
	return slices.ContainsFunc(all, func(found netlink.Addr) bool { return addr(found.IP) == a }), nil
}

// MTUTo returns the longest packet, in bytes, that the machine's own configuration allows to an address: the
// MTU of the route, or of its device. It ignores ICMP errors from routers on the path, see CachedMTU.
func MTUTo(to netip.Addr) (int, error) {
	routes, err := netlink.RouteGetWithOptions(to.AsSlice(), &netlink.RouteGetOptions{FIBMatch: true})
	if err == nil && len(routes) == 0 {
		err = fs.ErrNotExist
	}
	if err != nil {
		return 0, fmt.Errorf("look up the route to %s: %w", to, err)
	}
	best := routes[0]
	index := best.LinkIndex
	if index == 0 && len(best.MultiPath) > 0 {
		index = best.MultiPath[0].LinkIndex
	}
	link, err := netlink.LinkByIndex(index)
	if err != nil {
		return 0, fmt.Errorf("device of the route to %s: %w", to, err)
	}
	if best.MTU != 0 {
		return min(best.MTU, link.Attrs().MTU), nil
	}
	return link.Attrs().MTU, nil
}

// CachedMTU returns the longest packet, in bytes, for the path to an address, according to ICMP errors that
// the kernel has received; 0 if there was none. If there is a limit, this machine fragments longer packets of
// userspace WireGuard. Then our questions pass, but batches don't.
func CachedMTU(to netip.Addr) (int, error) {
	routes, err := netlink.RouteGet(to.AsSlice())
	if err != nil {
		return 0, fmt.Errorf("look up the route to %s: %w", to, err)
	}
	if len(routes) == 0 {
		return 0, nil
	}
	return routes[0].MTU, nil
}
