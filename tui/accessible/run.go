package accessible

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/connect"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/service"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// heartbeat is the longest time without a line while a run waits.
const heartbeat = 30 * time.Second

// wants returns the goal of a run.
func (w *wizard) wants() flows.Goal {
	switch {
	case w.exports != nil:
		return flows.Planner(func(f flows.Facts) flows.Plan { return service.Export(*w.exports, f) })
	case w.goal != session.Connect:
		return flows.Removal{RemoveOptions: w.removal, Disconnect: w.goal == session.Disconnect}
	}
	g := connect.Suggested(w.params)
	g.Seen = true
	return g
}

// apply writes the plan, asks for approval, and writes the progress of the run.
// After a failure, the admin may run it again.
func (w *wizard) apply(ctx context.Context) error {
	for {
		err := w.runOnce(ctx)
		if err == nil || !w.sayFailure(err) {
			return err
		}
		if _, asked := w.pick(ctx, "What now?", "again"); asked != nil {
			return err // return the error of the run, because it says more than the end of the input
		}
	}
}

// connects reports whether the run connects the clusters.
func (w *wizard) connects() bool { return w.exports == nil && w.goal == session.Connect }

func (w *wizard) runOnce(ctx context.Context) error {
	if w.connects() {
		w.say("Step 4 of 5: plan.")
	}
	began := w.options.Now()
	var last engine.Event
	spoken, swapped := began, false
	emit := func(e engine.Event) {
		w.plan, w.changed = e.Plan, w.changed || flows.Changed(e.Changes)
		if g, ok := e.Goal.(connect.Goal); ok && g.Swapped != "" && !swapped {
			swapped = true
			w.say("In the new plan, %s.", g.Swapped)
		}
		for _, r := range engine.Narrate(last, e) {
			before := last.Started.IsZero() && r.Step.Status == flows.Done // the step was already done before the run
			if r.Type == engine.RecordPlan || r.Type == engine.RecordStart || before {
				continue
			}
			w.say("%s, %s, %s.", w.where(r.Step), r.Text, seconds(r.Elapsed))
			spoken = e.At
		}
		if e.At.Sub(spoken) >= heartbeat {
			for _, s := range e.Plan.Steps {
				if s.Status == flows.Waiting {
					w.say("%s, %s: still waiting, %s, %s.", w.where(s), s.Title, s.Reason, seconds(e.At.Sub(e.Started)))
				}
			}
			spoken = e.At
		}
		last = e
	}
	a, b := w.sides[flows.A].open, w.sides[flows.B].open
	approved := false
	err := engine.Run(ctx, w.wants(), a, b, emit, engine.Options{
		Timeout: w.options.Timeout, Now: w.options.Now,
		Approve: func(p flows.Plan) (ok bool, err error) {
			approved, err = w.approve(ctx, p)
			began = w.options.Now()
			return approved, err
		},
	})
	if err == nil && w.exports == nil {
		w.sayResult(approved, w.options.Now().Sub(began))
	}
	return err
}

// sayResult writes the result of a run that has reached its goal.
func (w *wizard) sayResult(changed bool, took time.Duration) {
	a, b := w.id(flows.A), w.id(flows.B)
	for _, owed := range w.plan.Owed {
		w.say("To be run by the other cluster's admin: %s", owed)
	}
	switch {
	case w.goal != session.Connect && !changed:
		w.say("Result: there is nothing to remove.")
	case w.goal != session.Connect:
		w.say("Result: %s and %s are no longer connected. %s in all.", a, b, seconds(took))
		if !w.removal.LocalOnly {
			w.say("To connect again: %s", w.command(session.Connect))
		}
	case !changed:
		w.say("Result: already connected with these settings. Nothing was changed.")
	case w.params.Wait == flows.WaitNone:
		w.say("Result: applied, %s in all, without waiting for the connection.", seconds(took))
	case w.params.Wait == flows.WaitVerified:
		w.say("Result: connected, and a packet has passed from pod to pod both ways. %s in all.", seconds(took))
	default:
		w.say("Result: connected, each gateway answers the other's pings; no pod has tested it yet. %s in all.", seconds(took))
	}
}

// sayFailure writes why a run ended and what is left, and reports whether it may be run again.
func (w *wizard) sayFailure(err error) bool {
	if errors.Is(err, engine.ErrDeclined) || errors.Is(err, ErrNoAnswer) {
		return false
	}
	again := w.sayCause(err)
	if !w.changed {
		w.say("Nothing was changed.")
		return again
	}
	w.say("What was applied stays. To continue: %s", w.command(w.goal))
	if w.goal == session.Connect {
		w.say("To remove it: %s", w.command(session.Reset))
	}
	return again
}

// sayCause writes why a run ended, and reports whether it may be run again.
func (w *wizard) sayCause(err error) (again bool) {
	failed, again := errors.AsType[*flows.StepError](err)
	switch {
	case again:
		w.say("Failed: %s on %s, %s.", failed.Step.Title, failed.Cluster, strings.TrimSuffix(failed.Step.Reason, "."))
		if fix := failed.Hint(); !fix.IsZero() {
			w.say("To do: %s.", strings.TrimSuffix(fix.String(), "."))
		}
		for _, e := range failed.Step.Events[:min(len(failed.Step.Events), 3)] {
			w.say("Event: %s %s, %s.", e.Object, e.Reason, strings.TrimSuffix(e.Message, "."))
		}
	case errors.Is(err, context.Canceled):
		w.say("Stopped.")
	default:
		w.say("Failed: %v.", err)
		again = true
	}
	return again
}

// where returns a step's side in words; the run as a whole has none.
func (w *wizard) where(s flows.Step) string {
	for i, step := range w.plan.Steps {
		if step.ID == s.ID {
			return fmt.Sprintf("Step %d of %d on %s", i+1, len(w.plan.Steps), w.id(s.Side))
		}
	}
	return "On " + w.id(s.Side)
}

func seconds(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%d s", int(d.Seconds()))
	}
	return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
}

// approve writes the plan, and asks for the word that approves it. If the plan
// changes protected clusters, this is the names of their contexts.
func (w *wizard) approve(ctx context.Context, p flows.Plan) (bool, error) {
	w.say("Plan: %s.", p.Changes())
	for _, s := range p.Steps {
		if s.Status != flows.Done && s.Action.Changes() {
			w.say("%s %s on %s.", s.Action, s.Title, w.id(s.Side))
		}
	}
	for _, text := range p.Interrupts() {
		w.say("Warning: %s.", strings.TrimSuffix(text, "."))
	}
	apply := "apply"
	if names := w.protected(); names != "" {
		w.say("Protected by your configuration: %s. Confirm changes there by typing the name.", names)
		apply = names
	}
	for {
		word, err := w.pick(ctx, "Go on?", apply, "diff")
		switch {
		case errors.Is(err, ErrLeft):
			return false, nil
		case err != nil:
			return false, err
		case word == apply:
			if w.connects() {
				w.say("Step 5 of 5: applying.")
			}
			return true, nil
		}
		w.sayDiffs(p)
	}
}

// protected returns the names of the protected contexts, which the admin has to
// type before their clusters are changed.
func (w *wizard) protected() string {
	var names []string
	for side, c := range w.sides {
		if w.exports != nil && flows.Side(side) == flows.B { // an export changes A alone
			continue
		}
		if w.options.Protected != nil && c.Ref.Name != "" && w.options.Protected(c.Ref) {
			names = append(names, c.Ref.Name)
		}
	}
	return strings.Join(names, " ")
}

func (w *wizard) sayDiffs(p flows.Plan) {
	for _, s := range p.Steps {
		if s.Diff == "" {
			continue
		}
		w.say("%s %s on %s:", s.Action, s.Title, w.id(s.Side))
		for line := range strings.Lines(s.Diff) {
			w.say("%s", strings.TrimRight(line, "\n"))
		}
	}
}
