//go:build linux

package linux

import (
	"fmt"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/liqo-tui/liqo-tui/gateway"
)

// changeable reports whether changes of single elements, rules, sets and chains are enough to make have equal
// to want. An element that is no prefix can't be deleted.
func changeable(have, want gateway.Table) bool {
	return sameShape(have, want) && !slices.ContainsFunc(have.Sets, func(s gateway.Set) bool {
		prefixes := s.Key != gateway.KeyInterface && s.Key != gateway.KeyPort
		return slices.ContainsFunc(s.Elements, func(e gateway.Element) bool {
			return prefixes && !e.Prefix.IsValid() || s.Value == gateway.ValuePrefix && !e.To.IsValid()
		})
	})
}

// sameShape reports whether the sets and chains that both tables have are alike, because a set's type and
// comment can't be changed, and a chain's kind neither.
func sameShape(have, want gateway.Table) bool {
	if have.Name == "" || want.Name == "" {
		return false
	}
	for _, h := range have.Sets {
		w, ok := findSet(want, h.Name)
		if ok && (h.Key != w.Key || h.Value != w.Value || h.Comment != w.Comment) {
			return false
		}
	}
	for _, h := range have.Chains {
		w, ok := findChain(want, h.Name)
		if ok && (h.Type != w.Type || h.Hook != w.Hook || h.Priority != w.Priority) {
			return false
		}
	}
	return true
}

func findSet(t gateway.Table, name string) (gateway.Set, bool) {
	i := slices.IndexFunc(t.Sets, func(s gateway.Set) bool { return s.Name == name })
	if i < 0 {
		return gateway.Set{}, false
	}
	return t.Sets[i], true
}

func findChain(t gateway.Table, name string) (gateway.Chain, bool) {
	i := slices.IndexFunc(t.Chains, func(c gateway.Chain) bool { return c.Name == name })
	if i < 0 {
		return gateway.Chain{}, false
	}
	return t.Chains[i], true
}

// changeTable adds the changes from one table to the other to the batch. New objects are added before the
// rules that need them. Unused objects are deleted after the rules.
func (s *session) changeTable(table *nftables.Table, have, want gateway.Table) error {
	for _, name := range want.Counters {
		if !slices.Contains(have.Counters, name) {
			s.nft.AddObj(&nftables.NamedObj{Table: table, Name: name, Type: nftables.ObjTypeCounter, Obj: &expr.Counter{}})
		}
	}
	ids := setIDs(want)
	for _, w := range want.Sets {
		if err := s.changeSet(table, have, w, ids[w.Name]); err != nil {
			return fmt.Errorf("nft set %s: %w", w.Name, err)
		}
	}
	for _, h := range have.Chains {
		if _, ok := findChain(want, h.Name); !ok {
			s.nft.FlushChain(&nftables.Chain{Name: h.Name, Table: table})
		}
	}
	for _, w := range want.Chains {
		h, exists := findChain(have, w.Name)
		if exists && sameRules(h, w) {
			continue
		}
		chain, err := s.addChain(table, w)
		if err != nil {
			return err
		}
		if exists {
			s.nft.FlushChain(chain)
		}
		if err := s.addRules(table, chain, w, ids); err != nil {
			return err
		}
	}
	s.removeUnused(table, have, want)
	return nil
}

func (s *session) changeSet(table *nftables.Table, have gateway.Table, want gateway.Set, id uint32) error {
	set := compileSet(table, want, id)
	old, exists := findSet(have, want.Name)
	if !exists {
		return s.nft.AddSet(set, compileElements(want))
	}
	set.ID = 0 // the set exists: its name identifies it
	gone, added := old, want
	gone.Elements, added.Elements = without(old.Elements, want.Elements), without(want.Elements, old.Elements)
	if len(gone.Elements) > 0 {
		if err := s.nft.SetDeleteElements(set, compileElements(gone)); err != nil {
			return err
		}
	}
	if len(added.Elements) > 0 {
		return s.nft.SetAddElements(set, compileElements(added))
	}
	return nil
}

func without(list, other []gateway.Element) []gateway.Element {
	found := make(map[gateway.Element]bool, len(other))
	for _, e := range other {
		found[e] = true
	}
	return slices.DeleteFunc(slices.Clone(list), func(e gateway.Element) bool { return found[e] })
}

func sameRules(have, want gateway.Chain) bool {
	return slices.EqualFunc(have.Rules, want.Rules, func(h, w gateway.FirewallRule) bool { return h.String() == w.String() })
}

func (s *session) removeUnused(table *nftables.Table, have, want gateway.Table) {
	for _, h := range have.Chains {
		if _, ok := findChain(want, h.Name); !ok {
			s.nft.DelChain(&nftables.Chain{Name: h.Name, Table: table})
		}
	}
	for _, h := range have.Sets {
		if _, ok := findSet(want, h.Name); !ok {
			s.nft.DelSet(compileSet(table, h, 0))
		}
	}
	for _, name := range have.Counters {
		if !slices.Contains(want.Counters, name) {
			s.nft.DeleteObject(&nftables.NamedObj{Table: table, Name: name, Type: nftables.ObjTypeCounter, Obj: &expr.Counter{}})
		}
	}
}
