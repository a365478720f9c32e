//go:build linux

package linux

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/liqo-tui/liqo-tui/gateway"
)

// ourTable reports whether all routes of a routing table are ours.
func ourTable(id int) bool {
	return id == gateway.NodeTable || id == gateway.LocalTable || id == gateway.ErrorTable ||
		id >= gateway.RemoteTable && id <= gateway.RemoteTable+gateway.MaxIndex
}

func (s *session) readRoutes() ([]gateway.Route, error) {
	routes, err := dump(func() ([]netlink.Route, error) {
		return s.nl.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
	})
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	var found []gateway.Route
	for _, r := range routes {
		if ourTable(r.Table) {
			found = append(found, s.fromRoute(r))
		}
	}
	return found, nil
}

func (s *session) fromRoute(r netlink.Route) gateway.Route {
	found := gateway.Route{
		Table: r.Table, Destination: prefix(r.Dst), Via: addr(r.Gw), Device: s.names[r.LinkIndex],
		Source: addr(r.Src), MTU: r.MTU, Metric: r.Priority,
	}
	switch r.Type {
	case unix.RTN_UNICAST:
		found.Type = gateway.Unicast
	case unix.RTN_BLACKHOLE:
		found.Type = gateway.Blackhole
	case unix.RTN_UNREACHABLE:
		found.Type = gateway.Unreachable
	default:
		found.Type = gateway.RouteType(fmt.Sprintf("type-%d", r.Type))
	}
	return found
}

func (s *session) toRoute(r gateway.Route) (*netlink.Route, error) {
	route := &netlink.Route{
		Family: netlink.FAMILY_V4, Table: r.Table, Dst: ipNet(r.Destination), Priority: r.Metric,
		Protocol: gateway.RouteProtocol, MTU: r.MTU, Scope: netlink.SCOPE_UNIVERSE,
	}
	switch r.Type {
	case gateway.Unicast:
		route.Type = unix.RTN_UNICAST
	case gateway.Blackhole:
		route.Type = unix.RTN_BLACKHOLE
	case gateway.Unreachable:
		route.Type = unix.RTN_UNREACHABLE
	default:
		return nil, fmt.Errorf("%s: unknown type", r)
	}
	if r.Device != "" {
		link, ok := s.links[r.Device]
		if !ok {
			return nil, fmt.Errorf("%s: no device %s", r, r.Device)
		}
		route.LinkIndex = link.Attrs().Index
		route.Scope = netlink.SCOPE_LINK
	}
	if r.Via.IsValid() {
		route.Gw, route.Scope = r.Via.AsSlice(), netlink.SCOPE_UNIVERSE
		route.SetFlag(netlink.FLAG_ONLINK)
	}
	if r.Source.IsValid() {
		route.Src = r.Source.AsSlice()
	}
	return route, nil
}

func (s *session) syncRoutes(want gateway.KernelState) ([]string, error) {
	have, err := s.routes()
	if err != nil {
		return nil, err
	}
	c := gateway.DiffRoutes(have, want.Routes)
	var errs []error
	for _, r := range c.Add {
		route, err := s.toRoute(r)
		if err == nil {
			err = s.nl.RouteReplace(route)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("set route: %s: %w", r, errors.Join(err, s.closeRoute(r))))
		}
	}
	for _, r := range c.Remove {
		// The kernel selects by table, destination and metric.
		err := s.nl.RouteDel(&netlink.Route{
			Family: netlink.FAMILY_V4, Table: r.Table, Dst: ipNet(r.Destination), Priority: r.Metric,
			Type: unix.RTN_UNSPEC, Scope: netlink.SCOPE_NOWHERE,
		})
		if err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("delete route: %s: %w", r, err))
		}
	}
	return c.Lines, errors.Join(errs...)
}

// closeRoute makes a node drop packets to a peer whose route can't be set. Otherwise they would leave the
// cluster unencrypted, by the node's default route.
func (s *session) closeRoute(r gateway.Route) error {
	if r.Table != gateway.NodeTable {
		return nil
	}
	route, err := s.toRoute(gateway.Route{Table: r.Table, Type: gateway.Blackhole, Destination: r.Destination, Metric: r.Metric})
	if err == nil {
		err = s.nl.RouteAdd(route) // an existing route stays, because it leads into the fabric
	}
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}

// The rule for the kernel's local table, with the default preference and with the new one.
func localDefault() gateway.Rule { return gateway.Rule{Preference: 0, Table: gateway.KernelLocal} }

func localMoved() gateway.Rule {
	return gateway.Rule{Preference: gateway.LocalPref, Table: gateway.KernelLocal}
}

// movesLocal reports whether a KernelState wants the kernel's local table after our own tables.
func movesLocal(rules []gateway.Rule) bool { return slices.Contains(rules, localMoved()) }

// readRules returns our rules. The kernel's own rule for the local table counts as ours only if it has to
// move. On a node, a rule at the new preference counts only if we made it, because Cilium has a rule with the
// same preference.
func (s *session) readRules(moves bool) ([]gateway.Rule, error) {
	rules, err := dump(func() ([]netlink.Rule, error) { return s.nl.RuleList(netlink.FAMILY_V4) })
	if err != nil {
		return nil, fmt.Errorf("list rules: %w", err)
	}
	var found []gateway.Rule
	for _, r := range rules {
		f := gateway.Rule{Preference: r.Priority, Mark: r.Mark, Input: r.IifName, Table: r.Table}
		moved := f == localMoved() && (moves || r.Protocol == gateway.RouteProtocol)
		if ourTable(f.Table) || moved || moves && f == localDefault() {
			found = append(found, f)
		}
	}
	return found, nil
}

func (s *session) syncRules(want gateway.KernelState) ([]string, error) {
	moves := movesLocal(want.Rules)
	have, err := s.readRules(moves)
	if err != nil {
		return nil, err
	}
	c := gateway.DiffRules(have, want.Rules)
	add := c.Add
	if slices.Contains(c.Remove, localMoved()) {
		add = append(add, localDefault())
	}
	// Rules are added first, so that there is always a rule for the local table. If an addition fails, the
	// rule that should be replaced stays.
	for _, r := range add {
		rule := toRule(r)
		if r != localDefault() {
			rule.Protocol = gateway.RouteProtocol // marks it as ours
		}
		if err := s.nl.RuleAdd(rule); err != nil && !errors.Is(err, unix.EEXIST) {
			return c.Lines, fmt.Errorf("add rule: %s: %w", r, err)
		}
	}
	var errs []error
	for _, r := range c.Remove {
		rule := toRule(r)
		if r == localMoved() {
			rule.Protocol = gateway.RouteProtocol // another program may have an equal rule
		}
		if err := s.nl.RuleDel(rule); err != nil && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, fmt.Errorf("delete rule: %s: %w", r, err))
		}
	}
	return c.Lines, errors.Join(errs...)
}

// toRule returns a rule without a protocol. A deletion with this rule matches a rule of any program.
func toRule(r gateway.Rule) *netlink.Rule {
	rule := netlink.NewRule()
	rule.Family, rule.Priority, rule.Table = netlink.FAMILY_V4, r.Preference, r.Table
	rule.Mark, rule.IifName = r.Mark, r.Input
	return rule
}

func addr(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}

func mac(hw net.HardwareAddr) (m gateway.MAC) {
	copy(m[:], hw)
	return m
}

// prefix converts a destination; nil means all addresses.
func prefix(n *net.IPNet) netip.Prefix {
	if n == nil {
		return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(addr(n.IP), bits)
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
