package flows

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/liqo-tui/liqo-tui/render"
)

// Cluster is one cluster, as flows need it.
type Cluster interface {
	// Observe says what is there now. A cluster that can't be used is a fact
	// ([ClusterFacts.Problem]), not an error: the other side may still be worked on.
	Observe(context.Context) (ClusterFacts, error)
	// Apply makes the objects be as given, and says what that changed. The
	// next Observe sees the result.
	Apply(context.Context, []render.Object) ([]Change, error)
	// Delete deletes the objects. Those that don't exist are no error.
	Delete(context.Context, []render.Object) ([]Change, error)
	// Changed receives after something worth observing has happened; several
	// happenings may be one value.
	Changed() <-chan struct{}
}

// Change is one thing that was done to one object.
type Change struct {
	Side   Side
	Verb   Verb
	Object string // as [render.Name] writes it
}

// Verb is what was done.
type Verb string

// What can be done to an object.
const (
	Created   Verb = "created"
	Updated   Verb = "updated"
	Deleted   Verb = "deleted"
	Unchanged Verb = "unchanged"
)

// Event is the state of a run at one moment.
type Event struct {
	At      time.Time
	Started time.Time // when the run began
	Plan    Plan
	Changes []Change // since the last event
}

// Changed reports whether anything was changed since the last event.
func (e Event) Changed() bool { return changedAnything(e.Changes) }

// Options of [Run].
type Options struct {
	// Timeout bounds the waiting after the first change; 0 means 5 minutes.
	Timeout time.Duration
	// Approve is asked once, before the first change. Nil means yes.
	Approve func(Plan) (bool, error)
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// ErrDeclined is returned when [Options.Approve] said no. Nothing was changed.
var ErrDeclined = errors.New("declined, nothing was changed")

// StepError is a run that ended because a step failed.
type StepError struct {
	Step    Step
	Cluster render.ClusterID
	// Changed reports whether the run had changed anything before.
	Changed bool
	// Cause is the API server's answer, if that is what failed the step.
	Cause error
}

func (e *StepError) Error() string {
	return fmt.Sprintf("%s %s: %s: %s", e.Step.Side, e.Cluster, e.Step.Title, e.Step.Reason)
}

func (e *StepError) Unwrap() error { return e.Cause }

// Hint is what the admin can do.
func (e *StepError) Hint() string { return e.Step.Hint }

const (
	defaultTimeout = 5 * time.Minute
	// pollInterval bounds how long a run can miss something that no watch told.
	pollInterval = time.Second
	// finishTimeout lets a request that is under way end after a cancellation,
	// so that what was changed is known.
	finishTimeout = 10 * time.Second
)

// Run observes both clusters, plans, and applies what is ready, until the plan
// is done or a step has failed. It emits an event after every observation and
// every change. Cancelling stops after the requests that are under way; what
// was done stays, and another run continues from it.
func Run(ctx context.Context, plan func(Facts) Plan, a, b Cluster, emit func(Event), o Options) error {
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	r := &runner{plan: plan, clusters: [2]Cluster{a, b}, emit: emit, options: o, started: o.Now()}
	r.deadline = r.started.Add(o.Timeout)
	for {
		done, err := r.step(ctx)
		if done || err != nil {
			return err
		}
	}
}

type runner struct {
	plan     func(Facts) Plan
	clusters [2]Cluster
	emit     func(Event)
	options  Options
	started  time.Time
	deadline time.Time
	approved bool
	changed  bool
	last     Plan // the last plan made with both clusters in sight
}

// step is one turn of the loop.
func (r *runner) step(ctx context.Context) (done bool, err error) {
	facts, err := r.observe(ctx)
	if err != nil {
		return false, err
	}
	p := r.judge(r.plan(facts), facts.At)
	r.send(p, facts.At, nil)
	switch f := p.Failure(); {
	case f != nil:
		return false, &StepError{Step: *f, Cluster: p.ID(f.Side), Changed: r.changed}
	case p.Done():
		return true, nil
	}
	if err := r.approve(p); err != nil {
		return false, err
	}
	changes, err := r.apply(ctx, p)
	p, refused := withFailure(p, err)
	if refused || len(changes) > 0 {
		r.send(p, r.options.Now(), changes)
	}
	if err != nil || changedAnything(changes) {
		return false, err
	}
	return false, r.wait(ctx)
}

// withFailure is p with the step that err speaks of, if it speaks of one.
func withFailure(p Plan, err error) (Plan, bool) {
	var failed *StepError
	if !errors.As(err, &failed) {
		return p, false
	}
	p.Steps = slices.Clone(p.Steps)
	for i := range p.Steps {
		if p.Steps[i].ID == failed.Step.ID {
			p.Steps[i] = failed.Step
		}
	}
	return p, true
}

func changedAnything(changes []Change) bool {
	return slices.ContainsFunc(changes, func(c Change) bool { return c.Verb != Unchanged })
}

func (r *runner) send(p Plan, at time.Time, changes []Change) {
	r.emit(Event{At: at, Started: r.started, Plan: p, Changes: changes})
}

func (r *runner) observe(ctx context.Context) (Facts, error) {
	var sides [2]ClusterFacts
	var g errgroup.Group
	for i, c := range r.clusters {
		g.Go(func() (err error) {
			sides[i], err = c.Observe(ctx)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return Facts{}, err
	}
	return Facts{Local: sides[A], Remote: sides[B], At: r.options.Now()}, nil
}

// judge adds what only the run knows: that a cluster which answered before and
// doesn't now may come back, and that time is up.
func (r *runner) judge(p Plan, now time.Time) Plan {
	if p.Failure() == nil {
		r.last = p
	} else if len(r.last.Steps) > 0 {
		p = r.outage(p)
	}
	if !now.Before(r.deadline) && p.Failure() == nil {
		r.expire(p.Steps)
	}
	return p
}

// outage is the last plan made with both clusters in sight, headed by a wait
// for each that does not answer. What else p says has failed stays failed.
func (r *runner) outage(p Plan) Plan {
	steps, lost := slices.Clone(p.Steps), false
	for i := range steps {
		if steps[i].Status == Failed && steps[i].Kind == FailedUnreachable {
			steps[i].Status, lost = Waiting, true
		}
	}
	if !lost {
		return p
	}
	for _, s := range r.last.Steps {
		if s.Status == Ready {
			s.Status, s.Reason = Blocked, "needs the cluster to answer"
		}
		steps = append(steps, s)
	}
	return Plan{Steps: steps, A: r.last.A, B: r.last.B}
}

// expire fails what is still waited for. If that is nothing, it fails what is
// in the way instead: a change that does not last, or a value that never comes.
func (r *runner) expire(steps []Step) {
	waiting := slices.ContainsFunc(steps, func(s Step) bool { return s.Status == Waiting })
	for i := range steps {
		s := &steps[i]
		if s.Status == Done || waiting && s.Status != Waiting {
			continue
		}
		s.Kind, s.Hint = FailedTimeout, "run the same command again to go on waiting"
		if s.Status == Ready {
			s.Kind, s.Hint = FailedConflict, "look for another program that changes it: kubectl get with --show-managed-fields"
			s.Reason = "it was applied, and does not stay as applied"
		}
		s.Status, s.Reason = Failed, fmt.Sprintf("not after %s: %s", r.options.Timeout, s.Reason)
	}
}

func (r *runner) approve(p Plan) error {
	if r.approved || p.Empty() {
		return nil
	}
	if r.options.Approve != nil {
		ok, err := r.options.Approve(p)
		if err != nil {
			return err
		}
		if !ok {
			return ErrDeclined
		}
		// The admin's thinking does not count as waiting.
		r.deadline = r.options.Now().Add(r.options.Timeout)
	}
	r.approved = true
	return nil
}

// apply does all that is ready, both sides at once.
func (r *runner) apply(ctx context.Context, p Plan) ([]Change, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	var g errgroup.Group
	var changes [2][]Change
	for _, side := range []Side{A, B} {
		g.Go(func() (err error) {
			changes[side], err = r.applySide(ctx, p, side)
			return err
		})
	}
	err := g.Wait()
	all := append(changes[A], changes[B]...)
	r.changed = r.changed || changedAnything(all)
	if failed, ok := errors.AsType[*StepError](err); ok {
		failed.Changed = r.changed
	}
	return all, err
}

func (r *runner) applySide(ctx context.Context, p Plan, side Side) ([]Change, error) {
	var all []Change
	for _, s := range p.Steps {
		if s.Side != side || s.Status != Ready {
			continue
		}
		act := r.clusters[side].Apply
		if s.Action == Delete {
			act = r.clusters[side].Delete
		}
		changes, err := act(ctx, s.Objects)
		for i := range changes {
			changes[i].Side = side
		}
		all = append(all, changes...)
		if err != nil {
			s.Status, s.Kind, s.Reason = Failed, FailedApply, err.Error()
			s.Hint = hintOf(err)
			return all, &StepError{Step: s, Cluster: p.ID(side), Cause: err}
		}
	}
	return all, nil
}

// hintOf is the advice that an error brings along.
func hintOf(err error) string {
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		return h.Hint()
	}
	return ""
}

func (r *runner) wait(ctx context.Context) error {
	timer := time.NewTimer(pollInterval)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-r.clusters[A].Changed():
	case <-r.clusters[B].Changed():
	case <-timer.C:
	}
	return nil
}
