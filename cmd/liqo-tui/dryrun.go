package main

import (
	"context"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
)

// pretend prints the changes that a run would make. It changes nothing.
func (r *runFlags) pretend(ctx context.Context, a, b engine.Cluster, goal flows.Goal, told report.Reporter) error {
	e, err := engine.DryRun(ctx, goal, a, b, r.dryRun == dryRunServer, engine.Options{Force: r.force, Strict: r.strict})
	if err != nil {
		return stopped(ctx, err)
	}
	told.Event(e)
	if s := e.Plan.Failure(); s != nil {
		return &flows.StepError{Step: *s, Cluster: e.Plan.ID(s.Side), Cause: s.Cause}
	}
	if e.Plan.Empty() {
		return nil
	}
	if r.brief && r.output == report.Text {
		e.Plan = report.Counted(e.Plan)
	}
	told.Pending(e.Plan)
	return exit.Verdict(exit.Pending)
}
