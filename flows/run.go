package flows

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
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
	// next Observe sees the result. Fields that other managers own are a
	// [ConflictError], unless those are our own operator and gateways: what they
	// carried there is older than what the admin wants now. An error that means
	// that the cluster can't be used wraps a [Problem].
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
	// Force takes fields over that other managers own; see [Forcer].
	Force bool
	// Measure sends packets from pod to pod, for a plan that ends with that.
	Measure func(context.Context, Facts) (Measurement, error)
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

// Code names what went wrong.
func (e *StepError) Code() Code { return e.Step.Code }

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
// is done or a step has failed. Before the first change it asks the clusters
// whether the user may make all of them. It emits an event after every
// observation and every change. Cancelling stops after the requests that are
// under way; what was done stays, and another run continues from it.
func Run(ctx context.Context, plan func(Facts) Plan, a, b Cluster, emit func(Event), o Options) error {
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	r := &runner{
		plan: plan, clusters: [2]Cluster{a, b}, emit: emit, options: o, started: o.Now(),
		applied: map[StepID]applied{}, waits: map[StepID]wait{},
	}
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
	applied  map[StepID]applied
	waits    map[StepID]wait
	measured *Measurement

	mu sync.Mutex // guards applied, which both sides write
}

// step is one turn of the loop.
func (r *runner) step(ctx context.Context) (done bool, err error) {
	facts, err := Observe(ctx, r.clusters[A], r.clusters[B], r.options.Now)
	if err != nil {
		return false, err
	}
	facts.Measured = r.measured
	p := r.judge(r.plan(facts), facts.At)
	r.send(p, facts.At, nil)
	if err := r.failure(p); err != nil {
		return false, err
	}
	if p.Done() {
		return true, nil
	}
	if err := r.approve(ctx, p); err != nil {
		return false, err
	}
	if p.measureNext() {
		return false, r.measure(ctx, facts)
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	changes, p, trouble := r.apply(ctx, p)
	if trouble || len(changes) > 0 {
		r.send(p, r.options.Now(), changes)
	}
	if err := r.failure(p); err != nil || changedAnything(changes) && !trouble {
		return false, err
	}
	return false, r.wait(ctx)
}

// failure is the error of a plan that can't go on, nil for others.
func (r *runner) failure(p Plan) error {
	f := p.Failure()
	if f == nil {
		return nil
	}
	return &StepError{Step: *f, Cluster: p.ID(f.Side), Changed: r.changed, Cause: f.Cause}
}

// measureNext reports whether all is done but the measurement.
func (p Plan) measureNext() bool {
	return !p.Done() && !slices.ContainsFunc(p.Steps, func(s Step) bool {
		return s.Status != Done && (s.Action != Verify || s.Status != Ready)
	})
}

func (r *runner) measure(ctx context.Context, facts Facts) error {
	if r.options.Measure == nil {
		return errors.New("verify: nothing was given to measure with")
	}
	m, err := r.options.Measure(ctx, facts)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		m = Measurement{At: r.options.Now(), Result: err.Error(), Hint: hintOf(err)}
	}
	r.measured = &m
	return nil
}

func changedAnything(changes []Change) bool {
	return slices.ContainsFunc(changes, func(c Change) bool { return c.Verb != Unchanged })
}

func (r *runner) send(p Plan, at time.Time, changes []Change) {
	r.emit(Event{At: at, Started: r.started, Plan: p, Changes: changes})
}

// Observe observes two clusters side by side.
func Observe(ctx context.Context, a, b Cluster, now func() time.Time) (Facts, error) {
	var sides [2]ClusterFacts
	var g errgroup.Group
	for i, c := range []Cluster{a, b} {
		g.Go(func() (err error) {
			sides[i], err = c.Observe(ctx)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return Facts{}, err
	}
	return Facts{Local: sides[A], Remote: sides[B], At: now()}, nil
}

// Absent stands for a cluster that is not to be asked, for plans that leave it
// alone.
type Absent struct{ Context ContextRef }

// Observe says that nobody was asked.
func (a Absent) Observe(context.Context) (ClusterFacts, error) {
	return ClusterFacts{Context: a.Context, Problem: &Problem{Kind: Unreachable, Message: "the other cluster was not asked"}}, nil
}

// Apply is never called: what is not there has no steps.
func (a Absent) Apply(context.Context, []render.Object) ([]Change, error) {
	return nil, errors.New("apply: the other cluster was not asked")
}

// Delete is never called: what is not there has no steps.
func (a Absent) Delete(context.Context, []render.Object) ([]Change, error) {
	return nil, errors.New("delete: the other cluster was not asked")
}

// Changed never receives.
func (a Absent) Changed() <-chan struct{} { return nil }

// approve asks the clusters and then the admin, once, before the first change.
func (r *runner) approve(ctx context.Context, p Plan) error {
	if r.approved || p.Empty() {
		return nil
	}
	refused, err := reviewPlan(ctx, p, r.clusters)
	if err != nil {
		return err
	}
	if len(refused) > 0 {
		p.Steps = append(refused, p.Steps...)
		r.send(p, r.options.Now(), nil)
		return r.failure(p)
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
