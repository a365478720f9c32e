//go:build linux

package linux

import (
	"slices"

	"github.com/liqo-tui/liqo-tui/gateway"
)

// onlyDifferences shortens the long lists of two states to the parts that differ, so that the cost of a
// change does not depend on the number of peers. The parts are short in sorted lists. In unsorted lists,
// everything may remain.
func onlyDifferences(have, want gateway.KernelState) (gateway.KernelState, gateway.KernelState) {
	have.Neighbors, want.Neighbors = differing(have.Neighbors, want.Neighbors)
	have.Forwards, want.Forwards = differing(have.Forwards, want.Forwards)
	have.Routes, want.Routes = differing(have.Routes, want.Routes)
	if !sameShape(have.Firewall, want.Firewall) {
		return have, want // the whole table is replaced
	}
	have.Firewall.Sets, want.Firewall.Sets = slices.Clone(have.Firewall.Sets), slices.Clone(want.Firewall.Sets)
	for i := range want.Firewall.Sets {
		w := &want.Firewall.Sets[i]
		if j := slices.IndexFunc(have.Firewall.Sets, func(h gateway.Set) bool { return h.Name == w.Name }); j >= 0 {
			h := &have.Firewall.Sets[j]
			h.Elements, w.Elements = differing(h.Elements, w.Elements)
		}
	}
	return have, want
}

// differing cuts off the equal start and the equal end of two lists.
func differing[T comparable](a, b []T) ([]T, []T) {
	begin := 0
	for begin < min(len(a), len(b)) && a[begin] == b[begin] {
		begin++
	}
	a, b = a[begin:], b[begin:]
	end := 0
	for end < min(len(a), len(b)) && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	return a[:len(a)-end], b[:len(b)-end]
}

// The functions below return the long lists: from s.known if it is set, otherwise as read from the kernel.

func (s *session) neighbors() ([]gateway.Neighbor, error) {
	if s.known != nil {
		return s.known.Neighbors, nil
	}
	return s.readNeighbors()
}

func (s *session) forwards() ([]gateway.Forward, error) {
	if s.known != nil {
		return s.known.Forwards, nil
	}
	return s.readForwards()
}

func (s *session) routes() ([]gateway.Route, error) {
	if s.known != nil {
		return s.known.Routes, nil
	}
	return s.readRoutes()
}

func (s *session) firewall(want gateway.Table) (gateway.Table, error) {
	if s.known != nil {
		return s.known.Firewall, nil
	}
	return s.readFirewall(want)
}
