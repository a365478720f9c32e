package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/command"
)

// wait is the reason for which a step waits, and when it began.
type wait struct {
	reason string
	since  time.Time
}

// amend changes a plan by facts that only the run has: a cluster that answered
// before may come back, and the time for a wait may be over.
func (r *runner) amend(ctx context.Context, p flows.Plan, f flows.Facts) flows.Plan {
	if p.Failure() == nil {
		r.last = p
	} else if len(r.last.Steps) > 0 {
		p = r.outage(p)
	}
	r.note(p.Steps, f.At)
	if !f.At.Before(r.deadline) && p.Failure() == nil {
		p.Steps = slices.Clone(p.Steps)
		r.expire(ctx, p.Steps, f)
	}
	return p
}

type waitReason struct {
	step   flows.StepID
	reason string
}

// sayAgainAfter is the time after which the same reason is reported again.
const sayAgainAfter = 30 * time.Second

// note records since when each step waits for its present reason.
func (r *runner) note(steps []flows.Step, now time.Time) {
	for _, s := range steps {
		if s.Status != flows.Waiting {
			delete(r.waits, s.ID)
		} else if r.waits[s.ID].reason != s.Reason {
			r.waits[s.ID] = wait{s.Reason, now}
			said, before := r.reported[waitReason{s.ID, s.Reason}]
			if r.again[s.ID] = before && now.Sub(said) < sayAgainAfter; !r.again[s.ID] {
				r.reported[waitReason{s.ID, s.Reason}] = now
			}
		}
	}
}

// outage returns the last plan that was made while both clusters answered.
// Before its steps is a wait for each cluster that does not answer. Other
// failures of p remain: a person has to act if a cluster no longer accepts the
// credentials.
func (r *runner) outage(p flows.Plan) flows.Plan {
	steps := slices.Clone(p.Steps)
	var lost [2]bool
	for i, s := range steps {
		if s.Status == flows.Failed && s.Kind == flows.FailedUnreachable {
			steps[i].Status, steps[i].Code, lost[s.Side] = flows.Waiting, flows.CodeLost, true
		}
	}
	if lost == [2]bool{} || slices.ContainsFunc(steps, func(s flows.Step) bool { return s.Status == flows.Failed }) {
		return p
	}
	for _, s := range r.last.Steps {
		// The state of a wait is unknown while its cluster does not answer.
		if s.Status == flows.Ready || s.Status == flows.Waiting && lost[s.Side] {
			s.Status, s.Reason = flows.Blocked, "needs the cluster to answer"
		}
		steps = append(steps, s)
	}
	p.Steps = steps
	p.A, p.B, p.Params, p.Kept, p.Owed = r.last.A, r.last.B, r.last.Params, r.last.Kept, r.last.Owed
	return p
}

// expire fails the steps that still wait. If no step waits, expire fails the
// steps that prevent the end: a change that does not last, or a value that
// never comes.
func (r *runner) expire(ctx context.Context, steps []flows.Step, f flows.Facts) {
	waiting := slices.ContainsFunc(steps, func(s flows.Step) bool { return s.Status == flows.Waiting })
	for i := range steps {
		s := &steps[i]
		if s.Status == flows.Done || waiting && s.Status != flows.Waiting {
			continue
		}
		if s.Status == flows.Ready && s.Action.Changes() {
			r.failUndone(ctx, s, f, r.gaveUp(), command.Hintf("look for another program that changes it: %s", seeWriters(f, *s)))
			continue
		}
		r.timeOut(s, f.At)
	}
}

// gaveUp returns the beginning of the reason for a failure by the time limit.
func (r *runner) gaveUp() string {
	limit := r.options.Timeout.String()
	if whole, ok := strings.CutSuffix(limit, "m0s"); ok {
		limit = whole + "m"
	}
	return "gave up after " + limit + ": "
}

// timeOut fails a step with all facts about its wait: the last observation, the
// duration, and the cluster's event.
func (r *runner) timeOut(s *flows.Step, now time.Time) {
	fix := append(slices.Clone(s.Fix), command.Text("to wait longer: run the same command again"))
	code := s.Code
	if code == "" {
		code = flows.CodeTimeout
	}
	evidence := map[string]string{flows.EvidenceObserved: s.Reason}
	if s.Object.Kind != "" {
		evidence[flows.EvidenceObject] = s.Object.String()
	}
	maps.Copy(evidence, s.Evidence)
	reason := r.gaveUp() + s.Reason
	if w, ok := r.waits[s.ID]; ok {
		evidence[flows.EvidenceSince] = w.since.UTC().Format(time.RFC3339)
		if waited := now.Sub(w.since).Round(time.Second); waited < r.options.Timeout {
			reason += fmt.Sprintf(" (for %s)", waited)
		}
	}
	if len(s.Events) > 0 {
		evidence[flows.EvidenceEvent] = s.Events[0].Text(now)
		reason += "; " + s.Events[0].Text(now)
	}
	s.Fail(flows.FailedTimeout, code, reason, fix...)
	s.Evidence = evidence
}
