package engine

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/liqo-tui/liqo-tui/flows"
)

// DryRun returns the plan that [Run] would carry out, and changes nothing. A
// missing right of the user fails the plan, as in a run. If tried is set, the API
// servers try each object that can be applied now. Their merged objects give the
// diffs of the steps, and their refusals make the steps fail. A step that needs an
// earlier one can't be tried; its reason says so.
func DryRun(ctx context.Context, goal flows.Goal, a, b Cluster, tried bool, o Options) (Event, error) {
	r := newRunner(goal, a, b, func(Event) {}, o)
	facts, p, err := r.look(ctx)
	if err != nil {
		return Event{}, err
	}
	if p.Failure() == nil && !p.Empty() {
		if p, err = r.review(ctx, p, facts); err != nil {
			return Event{}, err
		}
	}
	if tried && p.Failure() == nil {
		if err := r.try(ctx, p, facts); err != nil {
			return Event{}, err
		}
	}
	return Event{At: facts.At, Started: facts.At, Goal: r.goal, Facts: facts, Plan: p}, nil
}

// try sends the ready steps to the API servers in a dry run.
func (r *runner) try(ctx context.Context, p flows.Plan, f flows.Facts) error {
	for i := range p.Steps {
		s := &p.Steps[i]
		if s.Status == flows.Done || s.Action != flows.Create && s.Action != flows.Update {
			continue
		}
		runner, ok := r.clusters[s.Side].(DryRunner)
		if !ok || s.Status != flows.Ready {
			s.Reason = strings.TrimPrefix(s.Reason+"; not tried on the API server", "; ")
			continue
		}
		answers, err := runner.DryRun(ctx, s.Objects, r.options.Force || s.Force)
		if err != nil {
			return fmt.Errorf("%s: %w", p.ID(s.Side), err)
		}
		s.Tried = len(answers) > 0
		var diff strings.Builder
		for _, answer := range answers {
			diff.WriteString(answer.Diff)
			if answer.Err != nil && !apierrors.IsNotFound(answer.Err) {
				if s.Refused(answer.Err, f); s.Code == flows.CodeRefused {
					s.Fail(s.Kind, s.Code, s.Reason, flows.HintOf(answer.Err)) // nothing was applied, so there is nothing to continue
				}
			}
		}
		s.Diff = diff.String()
	}
	return nil
}
