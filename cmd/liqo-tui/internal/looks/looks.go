// Package looks diagnoses a connection by more than one look at it: which way packets
// move, and what changes as time goes by.
package looks

import (
	"context"
	"slices"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
)

const (
	// Movement is how long a diagnosis waits until it looks again which way packets
	// move: gateways report every 10 s.
	Movement = 11 * time.Second
	// looks is how often it does. One is enough, unless a gateway was late, or the
	// connection broke in between.
	looks = 3
	// Interval is between two looks of a diagnosis that goes on.
	Interval = 2 * time.Second
)

// Observe is one look at both clusters.
type Observe = func(context.Context) (flows.Facts, error)

// Diagnose looks again where only that can tell: which way packets move. It
// returns the facts of the last look.
func Diagnose(ctx context.Context, f flows.Facts, observe Observe, await func(context.Context) error) ([]check.Result, flows.Facts, error) {
	results := check.Diagnose(f, nil)
	for range looks {
		if !slices.ContainsFunc(results, func(r check.Result) bool { return r.State == check.Measuring }) {
			break
		}
		if err := await(ctx); err != nil {
			return nil, f, err
		}
		now, err := observe(ctx)
		if err != nil {
			return nil, f, err
		}
		results, f = check.Diagnose(now, &f), now
	}
	return results, f, nil
}

// Watch looks until pause says no, and tells whatever has changed since the last look: of
// the results that are there, those that came or are another one now. It returns the last ones.
func Watch(
	ctx context.Context, f flows.Facts, results []check.Result, observe Observe, pause func() bool,
	tell func(at time.Time, changed, all []check.Result),
) ([]check.Result, error) {
	last := looked{latest: f}
	for pause() {
		now, err := observe(ctx)
		if ctx.Err() != nil {
			return results, nil //nolint:nilerr // nobody wants to know any more
		}
		if err != nil {
			return results, err
		}
		next := check.Diagnose(now, last.before(now))
		last = last.with(now)
		if changed := differences(results, next); len(changed) > 0 || len(next) != len(results) {
			tell(now.At, changed, next)
		}
		results = next
	}
	return results, nil
}

// looked are two looks to compare with: the latest, and one before for as long as that is
// too young.
type looked struct{ former, latest flows.Facts }

func (l looked) before(now flows.Facts) *flows.Facts {
	for _, f := range []*flows.Facts{&l.latest, &l.former} {
		if !f.At.IsZero() && now.At.Sub(f.At) >= Movement {
			return f
		}
	}
	return nil
}

func (l looked) with(now flows.Facts) looked {
	if now.At.Sub(l.latest.At) >= Movement {
		return looked{l.latest, now}
	}
	return l
}

// differences are the results that say something else than before. What they tell by the
// way, such as how old something is, changes with each look.
func differences(before, now []check.Result) []check.Result {
	return slices.DeleteFunc(slices.Clone(now), func(r check.Result) bool {
		return slices.ContainsFunc(before, func(b check.Result) bool {
			return b.ID == r.ID && b.Where() == r.Where() && b.State == r.State && b.Root == r.Root
		})
	})
}
