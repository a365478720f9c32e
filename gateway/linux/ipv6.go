//go:build linux

package linux

import (
	"fmt"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/liqo-tui/liqo-tui/gateway"
)

// closeIPv6 drops IPv6 packets from the fabric. The table of a KernelState judges only IPv4, and a machine
// accepts packets to any of its addresses from any device. closeIPv6 makes a table, because a device's own
// switch for IPv6 is below /proc/sys, which containers can't write. The table has the same name as the
// KernelState's table, and exists as long as the KernelState wants one.
func (s *session) closeIPv6(want gateway.KernelState) error {
	const priorityRaw = -300
	tables, err := s.nft.ListTablesOfFamily(nftables.TableFamilyIPv6)
	if err != nil {
		return fmt.Errorf("list nft tables of IPv6: %w", err)
	}
	there := slices.ContainsFunc(tables, func(t *nftables.Table) bool { return t.Name == gateway.TableName })
	table := &nftables.Table{Family: nftables.TableFamilyIPv6, Name: gateway.TableName}
	if want.Firewall.Name == "" && !there {
		return nil
	}
	exprs := []expr.Any{load(expr.MetaKeyIIFNAME), equal(interfaceName(gateway.FabricDevice)), &expr.Verdict{Kind: expr.VerdictDrop}}
	chain := &nftables.Chain{
		Name: "fabric", Table: table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookPrerouting,
		Priority: new(nftables.ChainPriority(priorityRaw)), Policy: new(nftables.ChainPolicyAccept),
	}
	if there && want.Firewall.Name != "" {
		found, err := s.nft.ListChainsOfTableFamily(nftables.TableFamilyIPv6)
		if err != nil {
			return fmt.Errorf("list nft chains of IPv6: %w", err)
		}
		i := slices.IndexFunc(found, func(c *nftables.Chain) bool {
			return c.Table.Name == table.Name && c.Name == chain.Name && hookName(c.Hooknum) == "prerouting"
		})
		if i >= 0 {
			rules, err := s.nft.GetRules(table, chain)
			if err != nil {
				return fmt.Errorf("list nft rules of IPv6: %w", err)
			}
			if len(rules) == 1 && describe(rules[0].Exprs) == describe(exprs) {
				return nil
			}
		}
	}
	s.nft.AddTable(table) // so that the delete below cannot fail with ENOENT
	s.nft.DelTable(table)
	if want.Firewall.Name != "" {
		s.nft.AddTable(table)
		s.nft.AddRule(&nftables.Rule{Table: table, Chain: s.nft.AddChain(chain), Exprs: exprs})
	}
	if err := s.nft.Flush(); err != nil {
		return fmt.Errorf("write nft table %s of IPv6: %w", table.Name, err)
	}
	return nil
}
