package engine

import (
	"context"
	"errors"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/address"
)

// Finder finds the addresses of a pod or a Service. It is an optional ability of a
// [Cluster].
type Finder interface {
	Find(context.Context, address.Target) (address.Found, error)
}

var errNoFinder = errors.New("pods and Services of this cluster can't be looked up here")

// AddressOf returns the addresses at which pods of the caller's cluster reach a
// target in the other one.
func AddressOf(ctx context.Context, caller, other Cluster, t address.Target, now func() time.Time) (address.Answer, flows.Facts, error) {
	f, err := Observe(ctx, caller, other, now)
	if err != nil {
		return address.Answer{}, f, err
	}
	for _, c := range f.Sides {
		if c.Problem != nil {
			return address.Answer{}, f, c.Problem
		}
	}
	var found address.Found
	if t.Kind != address.Address {
		finder, ok := other.(Finder)
		if !ok {
			return address.Answer{}, f, errNoFinder
		}
		if found, err = finder.Find(ctx, t); err != nil {
			return address.Answer{}, f, err
		}
	}
	a, err := address.Of(f, flows.A, t, found)
	return a, f, err
}
