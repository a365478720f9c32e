package main

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/connect"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/simulated"
)

// Who looks on is told what changes, once, until no more looks are wanted.
func TestWatchTellsWhatChanges(t *testing.T) {
	pair := flowtest.NewPair()
	p := flows.Defaults()
	p.ServiceType = "NodePort"
	if err := engine.Run(t.Context(), connect.Goal{Params: p}, pair.A, pair.B, func(engine.Event) {}, engine.Options{Now: pair.Now}); err != nil {
		t.Fatal(err)
	}
	pass := func(d time.Duration) {
		for range d / time.Second {
			pair.Advance(time.Second)
		}
	}
	pass(15 * time.Second)
	observe := func(ctx context.Context) (flows.Facts, error) { return engine.Observe(ctx, pair.A, pair.B, pair.Now) }
	first, err := observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	n := 0
	pause := func() bool {
		switch n++; n {
		case 10:
			pair.Join("rome", "milan", func(l *simulated.Link) { l.Closed = true })
		case 60:
			pair.Join("rome", "milan", func(l *simulated.Link) { l.Closed = false })
		}
		pass(lookInterval)
		return n < 100
	}
	type told struct {
		root  bool
		worst check.Outcome
	}
	var got []told
	_, results, err := watch(t.Context(), first, check.Diagnose(first, nil), observe, pause, func(_ time.Time, changed, all []check.Result) {
		if len(changed) == 0 {
			t.Error("told of nothing")
		}
		got = append(got, told{slices.ContainsFunc(changed, func(r check.Result) bool { return r.Root && r.ID == check.UDPPath }), check.Worst(all)})
	})
	if err != nil || check.Worst(results) == check.Fail {
		t.Errorf("at the end: got %v, %s", err, check.Headline(results))
	}
	cut := slices.IndexFunc(got, func(g told) bool { return g.root })
	if cut < 0 || got[cut].worst != check.Fail || len(got) > 8 {
		t.Errorf("got %+v, want the path that was cut, and few other changes", got)
	}

	broken := errors.New("broken")
	_, _, err = watch(t.Context(), first, nil, func(context.Context) (flows.Facts, error) { return flows.Facts{}, broken }, func() bool { return true }, nil)
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want what keeps it from looking", err)
	}
}
