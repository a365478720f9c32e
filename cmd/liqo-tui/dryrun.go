package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/liqo-tui/liqo-tui/flows"
)

// pretend tells what a run would change. Nothing is changed.
func (r *runFlags) pretend(ctx context.Context, a, b flows.Cluster, plan func(flows.Facts) flows.Plan, report reporter) error {
	facts, err := flows.Observe(ctx, a, b, time.Now)
	var p flows.Plan
	if err == nil {
		p = plan(facts)
		if r.dryRun == dryRunServer {
			err = tryPlan(ctx, [2]flows.Cluster{a, b}, p, r.force)
		}
	}
	if err != nil && ctx.Err() != nil {
		return stopped(ctx, false)
	}
	if err != nil {
		return err
	}
	report.event(flows.Event{At: facts.At, Started: facts.At, Plan: p})
	if s := p.Failure(); s != nil {
		return &flows.StepError{Step: *s, Cluster: p.ID(s.Side)}
	}
	if p.Empty() {
		return nil
	}
	report.pending(p)
	return verdict(exitPending)
}

// tryPlan has the API servers judge what is ready, and puts into p what they
// say: their own merge as the diff, a refusal as the step's failure. A step that
// needs another one first can't be tried, and its reason says so.
func tryPlan(ctx context.Context, clusters [2]flows.Cluster, p flows.Plan, force bool) error {
	for i := range p.Steps {
		s := &p.Steps[i]
		if s.Status == flows.Done || s.Action != flows.Create && s.Action != flows.Update {
			continue
		}
		runner, ok := clusters[s.Side].(flows.DryRunner)
		if !ok || s.Status != flows.Ready {
			s.Reason = strings.TrimPrefix(s.Reason+"; not tried on the API server", "; ")
			continue
		}
		answers, err := runner.DryRun(ctx, s.Objects, force)
		if err != nil {
			return fmt.Errorf("%s %s: %w", s.Side, p.ID(s.Side), err)
		}
		var diff strings.Builder
		for _, answer := range answers {
			diff.WriteString(answer.Diff)
			if answer.Err != nil && !apierrors.IsNotFound(answer.Err) {
				refuse(s, answer.Err)
			}
		}
		s.Diff = diff.String()
	}
	return nil
}

// refuse makes the API server's answer the failure of a step.
func refuse(s *flows.Step, err error) {
	s.Status, s.Kind, s.Code, s.Reason, s.Hint = flows.Failed, flows.FailedApply, flows.CodeRefused, err.Error(), hint(err)
	if _, ok := errors.AsType[*flows.ConflictError](err); ok {
		s.Kind, s.Code = flows.FailedConflict, flows.CodeOwnership
	}
}
