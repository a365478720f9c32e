//go:build linux

package linux

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/liqo-tui/liqo-tui/gateway"
)

// syncFirewall changes the table to the wanted one in one netlink transaction, so packets see the old rules
// or the new ones, never a mixture. It changes only the differences, or replaces the whole table if that is
// not possible.
func (s *session) syncFirewall(want gateway.KernelState) ([]string, error) {
	have, err := s.firewall(want.Firewall)
	if err != nil {
		return nil, err
	}
	lines := gateway.ExplainFirewall(have, want.Firewall)
	if len(lines) == 0 {
		return nil, nil
	}
	change := changeable(have, want.Firewall)
	err = s.writeFirewall(change, have, want.Firewall)
	if err != nil && change && s.known == nil {
		// A retry of the change would fail, too, for example if another program has re-created a set with
		// another size. If s.known is set, want may have only the differences, so it can't replace the
		// table.
		if err = s.openFirewall(); err == nil {
			err = s.writeFirewall(false, have, want.Firewall)
		}
	}
	if err != nil {
		return lines, err
	}
	return lines, errors.Join(s.forgetFlows(changedZones(have, want.Firewall)), s.forgetFlowsTo(changedDestinations(have, want.Firewall)))
}

// writeFirewall turns have into want in one transaction: by changes, or by a new table.
func (s *session) writeFirewall(change bool, have, want gateway.Table) error {
	table := &nftables.Table{Family: nftables.TableFamilyIPv4, Name: gateway.TableName}
	var err error
	if change {
		err = s.changeTable(table, have, want)
	} else {
		err = s.replaceTable(table, want)
	}
	if err != nil {
		return err
	}
	if err := s.nft.Flush(); err != nil {
		return fmt.Errorf("write nft table %s: %w", gateway.TableName, err)
	}
	return nil
}

func (s *session) replaceTable(table *nftables.Table, want gateway.Table) error {
	counts, err := s.readCounters()
	if err != nil {
		return err
	}
	s.nft.AddTable(table) // so that the delete below cannot fail with ENOENT
	s.nft.DelTable(table)
	if want.Name == "" {
		return nil
	}
	s.nft.AddTable(table)
	for _, name := range want.Counters {
		// Counters keep their values, so that an admin's graph does not drop to zero.
		c := counts[name]
		s.nft.AddObj(&nftables.NamedObj{Table: table, Name: name, Type: nftables.ObjTypeCounter, Obj: &c})
	}
	ids := setIDs(want)
	for _, set := range want.Sets {
		if err := s.nft.AddSet(compileSet(table, set, ids[set.Name]), compileElements(set)); err != nil {
			return fmt.Errorf("nft set %s: %w", set.Name, err)
		}
	}
	for _, c := range want.Chains {
		chain, err := s.addChain(table, c)
		if err != nil {
			return err
		}
		if err := s.addRules(table, chain, c, ids); err != nil {
			return err
		}
	}
	return nil
}

// setIDs numbers the sets. The library could do this, but its counter is not safe for concurrent use. A
// number is valid only within one batch.
func setIDs(t gateway.Table) map[string]uint32 {
	ids := make(map[string]uint32, len(t.Sets))
	for i, set := range t.Sets {
		ids[set.Name] = uint32(i + 1)
	}
	return ids
}

func (s *session) addChain(table *nftables.Table, c gateway.Chain) (*nftables.Chain, error) {
	hook, err := hookNumber(c.Hook)
	if err != nil {
		return nil, err
	}
	accept := nftables.ChainPolicyAccept
	return s.nft.AddChain(&nftables.Chain{
		Name: c.Name, Table: table, Type: nftables.ChainType(c.Type), Hooknum: hook,
		Priority: new(nftables.ChainPriority(c.Priority)), Policy: &accept,
	}), nil
}

func (s *session) addRules(table *nftables.Table, chain *nftables.Chain, c gateway.Chain, ids map[string]uint32) error {
	for _, r := range c.Rules {
		exprs, err := compileRule(r.Statements, ids)
		if err != nil {
			return fmt.Errorf("nft chain %s: %w", c.Name, err)
		}
		out := &nftables.Rule{Table: table, Chain: chain, Exprs: exprs}
		if r.Comment != "" {
			out.UserData = userdata.AppendString(nil, userdata.TypeComment, r.Comment)
		}
		s.nft.AddRule(out)
	}
	return nil
}

// Counters returns packets and bytes of the table's named counters, such as gateway.DroppedSource. The result
// is empty if there is no table.
func (k *Kernel) Counters() (map[string]Counter, error) {
	s, err := open()
	if err != nil {
		return nil, err
	}
	defer s.close()
	raw, err := s.readCounters()
	if err != nil {
		return nil, err
	}
	counters := make(map[string]Counter, len(raw))
	for name, c := range raw {
		counters[name] = Counter{Packets: c.Packets, Bytes: c.Bytes}
	}
	return counters, nil
}

// Counter is the value of a named counter of the firewall.
type Counter struct{ Packets, Bytes uint64 }

func (s *session) readCounters() (map[string]expr.Counter, error) {
	table, err := s.findTable()
	if err != nil || table == nil {
		return nil, err
	}
	objects, err := s.nft.GetObjects(table)
	if err != nil {
		return nil, fmt.Errorf("list nft counters: %w", err)
	}
	counters := make(map[string]expr.Counter, len(objects))
	for _, o := range objects {
		switch o := o.(type) {
		case *nftables.CounterObj:
			counters[o.Name] = expr.Counter{Packets: o.Packets, Bytes: o.Bytes}
		case *nftables.NamedObj:
			if c, ok := o.Obj.(*expr.Counter); ok {
				counters[o.Name] = *c
			}
		}
	}
	return counters, nil
}

// Refused returns the number of packets that the node has refused from each range of a peer since the range
// was added. The keys are the first addresses of the ranges. The result is nil if nothing counts, for example
// before the node's rules are set.
func (k *Kernel) Refused() (map[netip.Addr]uint64, error) {
	s, err := open()
	if err != nil {
		return nil, err
	}
	defer s.close()
	elements, exists, err := s.elements(gateway.SetRefused)
	if err != nil || !exists {
		return nil, err
	}
	refused := map[netip.Addr]uint64{}
	for _, e := range elements {
		if first, ok := netip.AddrFromSlice(e.Key); ok && e.Counter != nil {
			refused[first] = e.Counter.Packets
		}
	}
	return refused, nil
}

// ClosedLately returns the endpoints of [gateway.SetClosedLately], in no order. There are none if nothing is
// closed.
func (k *Kernel) ClosedLately() ([]gateway.Endpoint, error) {
	s, err := open()
	if err != nil {
		return nil, err
	}
	defer s.close()
	elements, _, err := s.elements(gateway.SetClosedLately)
	var found []gateway.Endpoint
	for _, e := range elements {
		if d := decodeEndpoint(e.Key); d.Interface == "" {
			found = append(found, gateway.Endpoint{Addr: d.Prefix.Addr(), Protocol: d.Protocol, Port: d.Port})
		}
	}
	return found, err
}

func (s *session) elements(name string) (found []nftables.SetElement, exists bool, err error) {
	table, err := s.findTable()
	if err != nil || table == nil {
		return nil, false, err
	}
	set, err := s.nft.GetSetByName(table, name)
	if errors.Is(err, unix.ENOENT) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read nft set %s: %w", name, err)
	}
	found, err = guard(func() ([]nftables.SetElement, error) { return s.nft.GetSetElements(set) })
	if err != nil {
		return nil, false, fmt.Errorf("list nft set %s: %w", name, err)
	}
	return found, true, nil
}

func (s *session) findTable() (*nftables.Table, error) {
	tables, err := s.nft.ListTablesOfFamily(nftables.TableFamilyIPv4)
	if err != nil {
		return nil, fmt.Errorf("list nft tables: %w", err)
	}
	i := slices.IndexFunc(tables, func(t *nftables.Table) bool { return t.Name == gateway.TableName })
	if i < 0 {
		return nil, nil
	}
	return tables[i], nil
}

// changedZones lists the conntrack zones of the tunnels whose translation has changed. A flow keeps the
// translation of its first packet, and with it the former destination, until conntrack forgets the flow.
func changedZones(have, want gateway.Table) []uint16 {
	if have.Name == "" {
		return nil // nothing was translated yet
	}
	before, after := translations(have), translations(want)
	var zones []uint16
	for index := range gateway.MaxIndex + 1 {
		name := gateway.TunnelName(index)
		if !slices.Equal(before[name], after[name]) {
			zones = append(zones, gateway.Zone(index))
		}
	}
	return zones
}

// translations returns the source translations of each tunnel. Destination translations
// are their reverse, except for external addresses.
func translations(t gateway.Table) map[string][]gateway.Element {
	found := make(map[string][]gateway.Element)
	for _, set := range t.Sets {
		if set.Value == gateway.ValuePrefix && set.Key == gateway.KeyInterfaceAddress {
			for _, e := range set.Elements {
				e.Comment = "" // a changed comment moves no packet
				found[e.Interface] = append(found[e.Interface], e)
			}
		}
	}
	return found
}

// changedDestinations returns the external addresses that no longer lead to the same host. Existing flows
// would keep reaching a host to which the peer has no access any more.
func changedDestinations(have, want gateway.Table) []netip.Prefix {
	destinations := func(t gateway.Table) map[netip.Prefix]netip.Prefix {
		found := map[netip.Prefix]netip.Prefix{}
		for _, set := range t.Sets {
			if set.Value == gateway.ValuePrefix && set.Key == gateway.KeyAddress {
				for _, e := range set.Elements {
					found[e.Prefix] = e.To
				}
			}
		}
		return found
	}
	var changed []netip.Prefix
	after := destinations(want)
	for external, host := range destinations(have) {
		if after[external] != host && external.IsValid() {
			changed = append(changed, external)
		}
	}
	return changed
}

func (s *session) forgetFlowsTo(external []netip.Prefix) error {
	var filters []netlink.CustomConntrackFilter
	for _, p := range external {
		f := &netlink.ConntrackFilter{}
		if err := f.AddIPNet(netlink.ConntrackOrigDstIP, ipNet(p)); err != nil {
			return fmt.Errorf("forget flows to %s: %w", p, err)
		}
		filters = append(filters, f)
	}
	return s.forget(filters)
}

func (s *session) forgetFlows(zones []uint16) error {
	var filters []netlink.CustomConntrackFilter
	for _, z := range zones {
		f := &netlink.ConntrackFilter{}
		if err := f.AddZone(z); err != nil {
			return fmt.Errorf("forget flows of zone %d: %w", z, err)
		}
		filters = append(filters, f)
	}
	return s.forget(filters)
}

func (s *session) forget(filters []netlink.CustomConntrackFilter) error {
	if len(filters) == 0 {
		return nil
	}
	_, err := s.nl.ConntrackDeleteFilters(netlink.ConntrackTable, unix.AF_INET, filters...)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("forget flows: %w", err)
	}
	return nil
}

func hookNumber(name string) (*nftables.ChainHook, error) {
	for _, h := range hooks() {
		if h.name == name {
			return h.number, nil
		}
	}
	return nil, fmt.Errorf("nft hook %q: unknown", name)
}

func hookName(n *nftables.ChainHook) string {
	for _, h := range hooks() {
		if n != nil && *h.number == *n {
			return h.name
		}
	}
	return "none"
}

type hook struct {
	name   string
	number *nftables.ChainHook
}

func hooks() []hook {
	return []hook{
		{"prerouting", nftables.ChainHookPrerouting},
		{"input", nftables.ChainHookInput},
		{"forward", nftables.ChainHookForward},
		{"output", nftables.ChainHookOutput},
		{"postrouting", nftables.ChainHookPostrouting},
	}
}

func last(p netip.Prefix) [4]byte {
	b := p.Masked().Addr().As4()
	for i := range 32 - p.Bits() {
		b[3-i/8] |= 1 << (i % 8)
	}
	return b
}
