package check_test

import (
	"testing"

	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

func TestANarrowPathIsAWarning(t *testing.T) {
	pair := flowtest.NewPair()
	connectPair(t, pair)
	for path, want := range map[int]check.Outcome{516: check.Warn, 1279: check.Warn, 1280: check.Pass, 1420: check.Pass} {
		f := factsOf(pair)
		for side := range f.Sides {
			says(&f.Sides[side], f.At, func(r *wire.Report) {
				r.Reason, r.LatencyMicros, r.MTU, r.PathMTU = wire.ReasonPinged, 900, wire.MaxMTU, path
			})
			for i := range f.Sides[side].Servers {
				f.Sides[side].Servers[i].Spec.MTU = wire.MaxMTU
			}
			for i := range f.Sides[side].Clients {
				f.Sides[side].Clients[i].Spec.MTU = wire.MaxMTU
			}
		}
		if r := find(t, check.Diagnose(f, nil), check.PathMTU); r.State != want {
			t.Errorf("%d bytes: got %s: %s", path, r.State, r.Summary)
		}
	}
}
