package main

import (
	"context"
	"slices"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
)

// looks is the largest number of further observations by diagnose. One is usually enough,
// unless a gateway reports late or the connection breaks meanwhile.
const looks = 3

const lookInterval = 2 * time.Second

type lookFunc = func(context.Context) (flows.Facts, error)

// diagnose observes again, after await, if a further observation is needed to see in which
// direction packets pass. It returns the facts of the last observation.
func diagnose(ctx context.Context, f flows.Facts, observe lookFunc, await func(context.Context) error) ([]check.Result, flows.Facts, error) {
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

// watch diagnoses until pause returns false. After each change, it calls tell with the new or
// different results, and with all present results. It returns the last results.
func watch(
	ctx context.Context, f flows.Facts, results []check.Result, observe lookFunc, pause func() bool,
	tell func(at time.Time, changed, all []check.Result),
) (flows.Facts, []check.Result, error) {
	last := check.Looks{}.With(f)
	for pause() {
		now, err := observe(ctx)
		if ctx.Err() != nil {
			return f, results, nil //nolint:nilerr // the watch has ended, so the error does not matter
		}
		if err != nil {
			return f, results, err
		}
		next := last.Diagnose(now)
		last = last.With(now)
		if changed := differences(results, next); len(changed) > 0 || len(next) != len(results) {
			tell(now.At, changed, next)
		}
		f, results = now, next
	}
	return f, results, nil
}

// differences returns the results with another check, place, state or root than before. Texts
// are ignored, because they contain ages and differ each time.
func differences(before, now []check.Result) []check.Result {
	return slices.DeleteFunc(slices.Clone(now), func(r check.Result) bool {
		return slices.ContainsFunc(before, func(b check.Result) bool {
			return b.ID == r.ID && b.Where() == r.Where() && b.State == r.State && b.Root == r.Root
		})
	})
}
