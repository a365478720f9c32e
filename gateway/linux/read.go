//go:build linux

package linux

import (
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/userdata"

	"github.com/liqo-tui/liqo-tui/gateway"
)

// readFirewall reads the table from the kernel. It recognizes the rules of want, and returns all other rules
// as text.
func (s *session) readFirewall(want gateway.Table) (gateway.Table, error) {
	table, err := s.findTable()
	if err != nil || table == nil {
		return gateway.Table{}, err
	}
	found := gateway.Table{Name: table.Name}
	counters, err := s.readCounters()
	if err != nil {
		return gateway.Table{}, err
	}
	for name := range counters {
		found.Counters = append(found.Counters, name)
	}
	slices.Sort(found.Counters)
	if found.Sets, err = s.readSets(table); err != nil {
		return gateway.Table{}, err
	}
	found.Chains, err = s.readChains(table, want)
	return found, err
}

func (s *session) readSets(table *nftables.Table) ([]gateway.Set, error) {
	sets, err := guard(func() ([]*nftables.Set, error) { return s.nft.GetSets(table) })
	if errors.Is(err, errMalformed) {
		return []gateway.Set{unreadable("")}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list nft sets: %w", err)
	}
	var found []gateway.Set
	for _, set := range sets {
		if set.Anonymous {
			continue // an anonymous set is a part of another program's rule, and is deleted with that rule
		}
		set.Table = table
		elements, err := guard(func() ([]nftables.SetElement, error) { return s.nft.GetSetElements(set) })
		if errors.Is(err, errMalformed) {
			found = append(found, unreadable(set.Name))
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list nft set %s: %w", set.Name, err)
		}
		found = append(found, decodeSet(set, elements))
	}
	return found, nil
}

// unreadable stands for a set that can't be read. The whole table is replaced, because such a set is never
// wanted and can't be changed.
func unreadable(name string) gateway.Set {
	return gateway.Set{Name: name, Key: gateway.KeyAddress, Elements: []gateway.Element{{Comment: "malformed"}}}
}

var errMalformed = errors.New("malformed user data")

// guard calls read, which reads an object with user data, and turns a panic into an error. The kernel does
// not check user data, so other programs can write anything there. If the data is not in nft's format, the
// library reads beyond its end.
func guard[T any](read func() (T, error)) (found T, err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case runtime.Error:
			err = fmt.Errorf("%w: %w", errMalformed, p)
		default:
			panic(p)
		}
	}()
	return read()
}

// readComment returns a rule's comment, or a text if the comment can't be read.
func readComment(data []byte) string {
	c, err := guard(func() (string, error) {
		c, _ := userdata.GetString(data, userdata.TypeComment)
		return c, nil
	})
	if err != nil {
		return "malformed"
	}
	return c
}

func (s *session) readChains(table *nftables.Table, want gateway.Table) ([]gateway.Chain, error) {
	chains, err := s.nft.ListChainsOfTableFamily(nftables.TableFamilyIPv4)
	if err != nil {
		return nil, fmt.Errorf("list nft chains: %w", err)
	}
	var found []gateway.Chain
	for _, c := range chains {
		if c.Table.Name != table.Name {
			continue
		}
		rules, err := s.nft.GetRules(table, c)
		if err != nil {
			return nil, fmt.Errorf("list nft chain %s: %w", c.Name, err)
		}
		f := gateway.Chain{Name: c.Name, Type: string(c.Type), Hook: hookName(c.Hooknum)}
		if c.Priority != nil {
			f.Priority = int(*c.Priority)
		}
		if c.Policy != nil && *c.Policy != nftables.ChainPolicyAccept {
			f.Hook += " with policy drop"
		}
		var wanted []gateway.FirewallRule
		for _, w := range want.Chains {
			if w.Name == c.Name {
				wanted = w.Rules
			}
		}
		f.Rules = recognize(rules, wanted)
		found = append(found, f)
	}
	return found, nil
}

// recognize turns rules from the kernel back into the rules from which they were compiled.
func recognize(rules []*nftables.Rule, wanted []gateway.FirewallRule) []gateway.FirewallRule {
	known := make(map[string]gateway.FirewallRule, len(wanted))
	for _, w := range wanted {
		if exprs, err := compileRule(w.Statements, nil); err == nil {
			known[describe(exprs)] = w
		}
	}
	found := make([]gateway.FirewallRule, len(rules))
	for i, r := range rules {
		text := describe(r.Exprs)
		w, ok := known[text]
		if !ok {
			w = gateway.FirewallRule{Raw: text}
		}
		w.Comment = readComment(r.UserData)
		found[i] = w
	}
	return found
}
