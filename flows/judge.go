package flows

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// What a failure's evidence is called.
const (
	evidenceObject   = "object"
	evidenceManagers = "managers" // who else writes the object
	evidenceObserved = "observed" // what was seen last
	EvidenceSince    = "since"    // when what was seen last began
	evidenceEvent    = "event"    // the cluster's latest warning about it
	evidenceEndpoint = "endpoint"
)

// wait is what a step waits for, and since when.
type wait struct {
	reason string
	since  time.Time
}

// judge adds what only the run knows: that a cluster which answered before and
// doesn't now may come back, and that time is up.
func (r *runner) judge(p Plan, now time.Time) Plan {
	if p.Failure() == nil {
		r.last = p
	} else if len(r.last.Steps) > 0 {
		p = r.outage(p)
	}
	r.note(p.Steps, now)
	if !now.Before(r.deadline) && p.Failure() == nil {
		p.Steps = slices.Clone(p.Steps)
		r.expire(p.Steps, now)
	}
	return p
}

// note keeps since when each step has waited for what it waits for.
func (r *runner) note(steps []Step, now time.Time) {
	for _, s := range steps {
		if s.Status != Waiting {
			delete(r.waits, s.ID)
		} else if r.waits[s.ID].reason != s.Reason {
			r.waits[s.ID] = wait{s.Reason, now}
		}
	}
}

// outage is the last plan made with both clusters in sight, headed by a wait
// for each that does not answer. What else p says has failed stays failed: a
// cluster that no longer accepts the credentials needs a person.
func (r *runner) outage(p Plan) Plan {
	steps := slices.Clone(p.Steps)
	var lost [2]bool
	for i, s := range steps {
		if s.Status == Failed && s.Kind == FailedUnreachable {
			steps[i].Status, steps[i].Code, lost[s.Side] = Waiting, CodeLost, true
		}
	}
	if lost == [2]bool{} || slices.ContainsFunc(steps, func(s Step) bool { return s.Status == Failed }) {
		return p
	}
	for _, s := range r.last.Steps {
		// What a lost cluster was waiting for is not known any more.
		if s.Status == Ready || s.Status == Waiting && lost[s.Side] {
			s.Status, s.Reason = Blocked, "needs the cluster to answer"
		}
		steps = append(steps, s)
	}
	p.Steps = steps
	p.A, p.B, p.Params, p.Kept, p.Owed = r.last.A, r.last.B, r.last.Params, r.last.Kept, r.last.Owed
	return p
}

// expire fails what is still waited for. If that is nothing, it fails what is
// in the way instead: a change that does not last, or a value that never comes.
func (r *runner) expire(steps []Step, now time.Time) {
	waiting := slices.ContainsFunc(steps, func(s Step) bool { return s.Status == Waiting })
	for i := range steps {
		s := &steps[i]
		if s.Status == Done || waiting && s.Status != Waiting {
			continue
		}
		if s.Status == Ready && s.Action.Changes() {
			s.fail(FailedConflict, CodeUndone,
				fmt.Sprintf("not within %s: it was applied, and does not stay as applied%s", r.options.Timeout, othersOf(*s)),
				"look for another program that changes it: kubectl get with --show-managed-fields")
			continue
		}
		r.timeOut(s, now)
	}
}

// timeOut fails a step with all that is known of what it waited for: what was
// seen last, since when, and what the cluster says of it.
func (r *runner) timeOut(s *Step, now time.Time) {
	again := "run the same command again to go on waiting"
	hint := again
	if s.Hint != "" {
		hint = s.Hint + "; then " + again
	}
	code := s.Code
	if code == "" {
		code = CodeTimeout
	}
	evidence := map[string]string{evidenceObserved: s.Reason}
	if s.Object.Kind != "" {
		evidence[evidenceObject] = s.Object.String()
	}
	maps.Copy(evidence, s.Evidence)
	reason := fmt.Sprintf("not within %s: %s", r.options.Timeout, s.Reason)
	if w, ok := r.waits[s.ID]; ok {
		evidence[EvidenceSince] = w.since.UTC().Format(time.RFC3339)
		if waited := now.Sub(w.since).Round(time.Second); waited < r.options.Timeout {
			reason += fmt.Sprintf(" (for %s)", waited)
		}
	}
	if len(s.Events) > 0 {
		evidence[evidenceEvent] = s.Events[0].Text(now)
		reason += "; " + s.Events[0].Text(now)
	}
	s.fail(FailedTimeout, code, reason, hint)
	s.Evidence = evidence
}

// Text is an event as the end of a sentence.
func (e EventFacts) Text(now time.Time) string {
	text := fmt.Sprintf("warning about %s: %s: %s", e.Object, e.Reason, strings.TrimSpace(e.Message))
	if !e.At.IsZero() {
		text += fmt.Sprintf(" (%s ago)", now.Sub(e.At).Round(time.Second))
	}
	return text
}
