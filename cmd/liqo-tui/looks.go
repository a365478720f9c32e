package main

import (
	"context"
	"slices"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
)

// looks is how often diagnose observes again. Once is enough, unless a gateway was late, or the
// connection broke in between.
const looks = 3

// lookInterval is the time between two looks of watch.
const lookInterval = 2 * time.Second

// lookFunc is one look at both clusters.
type lookFunc = func(context.Context) (flows.Facts, error)

// diagnose observes again, after await, if only that can show in which direction packets pass.
// It returns the facts of the last look.
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

// watch diagnoses until pause returns false. It calls tell after each look with a change: with
// the results that are new or different, and with all present results. It returns the last
// results.
func watch(
	ctx context.Context, f flows.Facts, results []check.Result, observe lookFunc, pause func() bool,
	tell func(at time.Time, changed, all []check.Result),
) (flows.Facts, []check.Result, error) {
	last := check.Looks{}.With(f)
	for pause() {
		now, err := observe(ctx)
		if ctx.Err() != nil {
			return f, results, nil //nolint:nilerr // nobody wants to know any more
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

// differences returns the results whose check, place, state or root has changed. Texts change
// with each look, because they have ages.
func differences(before, now []check.Result) []check.Result {
	return slices.DeleteFunc(slices.Clone(now), func(r check.Result) bool {
		return slices.ContainsFunc(before, func(b check.Result) bool {
			return b.ID == r.ID && b.Where() == r.Where() && b.State == r.State && b.Root == r.Root
		})
	})
}
