package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/rights"
	"github.com/liqo-tui/liqo-tui/flows/verify"
	"github.com/liqo-tui/liqo-tui/internal/command"
)

// Event is the state of a run at one moment.
type Event struct {
	At      time.Time
	Started time.Time   // when the run began
	Goal    flows.Goal  // what the run wants by now
	Facts   flows.Facts // from which the plan was made
	Plan    flows.Plan
	Changes []flows.Change // since the last event
	// Again marks steps whose reason to wait was already reported a short time ago, before another
	// reason. So two alternating reasons are reported only once each.
	Again map[flows.StepID]bool
}

// Changed reports whether anything was changed since the last event.
func (e Event) Changed() bool { return flows.Changed(e.Changes) }

// Options are the options of [Run].
type Options struct {
	// Timeout limits the time of waiting after the first change; 0 means 5 minutes.
	Timeout time.Duration
	// Approve is called before the first change, and before the run deletes or replaces objects
	// that no approved plan has announced. Nil approves everything.
	Approve func(flows.Plan) (bool, error)
	// Force takes over fields that other managers own; see [Forcer].
	Force bool
	// Strict turns two warnings into failures: an interruption, see [flows.Uninterrupting], and a
	// path that loses packets.
	Strict bool
	// Measure sends packets from pod to pod if the plan contains this step; nil means [VerifyPair].
	Measure func(context.Context, flows.Facts) (flows.Measurement, error)
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// ErrDeclined is returned if [Options.Approve] declines. If the run has made changes before, the
// error says so.
var ErrDeclined = errors.New("declined")

// Declined returns [ErrDeclined] with a text about the changes so far.
func Declined(changed bool) error {
	if changed {
		return fmt.Errorf("%w; what was applied before stays: the same command continues", ErrDeclined)
	}
	return fmt.Errorf("%w, nothing was changed", ErrDeclined)
}

const (
	defaultTimeout = 5 * time.Minute
	// pollInterval is the longest time in which a run notices a change that no watch reports.
	pollInterval = time.Second
	// finishTimeout is the time that a running request gets after a cancellation, so that the run
	// learns whether it has made a change.
	finishTimeout = 10 * time.Second
)

// Run observes both clusters, plans, and applies the ready steps, until the plan is done or a step
// has failed. Before the first change, it asks the clusters whether the user may make all changes.
// It emits an event after every observation and every change. A cancellation ends Run after the
// requests that have begun. Their changes stay, and another run continues from there.
func Run(ctx context.Context, goal flows.Goal, a, b Cluster, emit func(Event), o Options) error {
	r := newRunner(goal, a, b, emit, o)
	for {
		done, err := r.step(ctx)
		if done || err != nil {
			return err
		}
	}
}

func newRunner(goal flows.Goal, a, b Cluster, emit func(Event), o Options) *runner {
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	r := &runner{
		goal: goal, clusters: [2]Cluster{a, b}, emit: emit, options: o, started: o.Now(),
		applied: map[flows.StepID]applied{}, waits: map[flows.StepID]wait{}, reported: map[waitReason]time.Time{}, again: map[flows.StepID]bool{},
	}
	r.answers = Answers{Limit: o.Timeout, Now: o.Now}
	r.deadline = r.started.Add(o.Timeout)
	return r
}

type runner struct {
	goal     flows.Goal
	clusters [2]Cluster
	emit     func(Event)
	options  Options
	started  time.Time
	deadline time.Time
	approved *flows.Plan // the last plan that the admin approved
	begun    bool        // a complete plan was found to interrupt nothing; see [Options.Strict]
	changed  bool
	last     flows.Plan // the last plan made while both clusters answered
	applied  map[flows.StepID]applied
	waits    map[flows.StepID]wait
	reported map[waitReason]time.Time // when each text was emitted last
	again    map[flows.StepID]bool
	tries    int // how many times packets were sent
	answers  Answers

	mu sync.Mutex // guards applied: both sides write to it
}

func (r *runner) step(ctx context.Context) (done bool, err error) {
	facts, p, err := r.look(ctx)
	if err != nil {
		return false, err
	}
	p = r.amend(ctx, p, facts)
	r.send(p, facts, facts.At, nil)
	if err := r.failure(p); err != nil {
		return false, err
	}
	if p.Done() {
		return true, nil
	}
	if asked, err := r.approve(ctx, p, facts); asked || err != nil {
		return false, err
	}
	if p.MeasureNext() {
		return false, r.measure(ctx, facts)
	}
	if trials := p.Trials(facts); len(trials) > 0 {
		err := r.answers.Ask(ctx, &facts, r.clusters, trials...)
		r.deadline = r.options.Now().Add(r.options.Timeout) // nothing was changed yet
		return false, err
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	changes, p, trouble := r.apply(ctx, p, facts)
	if trouble {
		r.answers.lookAgain()
	}
	if trouble || len(changes) > 0 {
		r.send(p, facts, r.options.Now(), changes)
	}
	if err := r.failure(p); err != nil || flows.Changed(changes) && !trouble {
		return false, err
	}
	return false, r.wait(ctx)
}

// Look observes both clusters, and plans. If the plan has failed, the error is its failure.
func Look(ctx context.Context, goal flows.Goal, a, b Cluster) (Event, error) {
	r := newRunner(goal, a, b, func(Event) {}, Options{})
	facts, p, err := r.look(ctx)
	if err == nil {
		err = r.failure(p)
	}
	return Event{At: facts.At, Started: facts.At, Goal: r.goal, Facts: facts, Plan: p}, err
}

func (r *runner) look(ctx context.Context) (flows.Facts, flows.Plan, error) {
	facts, err := Observe(ctx, r.clusters[flows.A], r.clusters[flows.B], r.options.Now)
	if err != nil {
		return flows.Facts{}, flows.Plan{}, err
	}
	r.answers.AddTo(&facts)
	p, err := r.ask(ctx, &facts)
	if err == nil && r.options.Strict && !r.begun {
		p, r.begun = flows.Uninterrupting(p, facts)
	}
	return facts, p, err
}

// ask settles the goal, plans, asks the plan's questions, and does so again, until no question is
// left. It asks each question once.
func (r *runner) ask(ctx context.Context, f *flows.Facts) (flows.Plan, error) {
	asked := map[flows.Question]bool{}
	for {
		r.goal = r.goal.Settle(*f)
		p := r.goal.Plan(*f)
		open := slices.DeleteFunc(p.Open(*f), func(q flows.Question) bool { return asked[q] })
		if len(open) == 0 {
			return p, nil
		}
		for _, q := range open {
			asked[q] = true
		}
		if err := r.answers.Ask(ctx, f, r.clusters, open...); err != nil {
			return p, err
		}
	}
}

// failure returns the error of a plan that has failed; nil for other plans.
func (r *runner) failure(p flows.Plan) error {
	f := p.Failure()
	if f == nil {
		return nil
	}
	return &flows.StepError{Step: *f, Cluster: p.ID(f.Side), Changed: r.changed, Cause: f.Cause}
}

// measureTries is how many times packets are sent before they count as lost. A try takes about two
// seconds. After a move of a gateway, nodes learn the new place later than the other gateway, with
// Liqo up to 10 s later.
const measureTries = 5

// measure sends packets. The plan judges the result.
func (r *runner) measure(ctx context.Context, facts flows.Facts) error {
	send := r.options.Measure
	if send == nil {
		send = r.verify
	}
	m, err := send(ctx, facts)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		m = flows.Measurement{At: r.options.Now(), Result: err.Error(), Fix: flows.HintOf(err)}
	} else if r.tries++; !m.OK && r.tries < measureTries {
		return r.wait(ctx)
	}
	r.answers.Keep(flows.AskPackets{}, flows.Read(flows.AskPackets{}, m))
	return nil
}

func (r *runner) verify(ctx context.Context, f flows.Facts) (flows.Measurement, error) {
	v, err := VerifyPair(ctx, r.clusters[flows.A], r.clusters[flows.B], VerifyRequest{Now: r.options.Now}, func(flows.Side, string) {})
	m := v.Measurement()
	if m.Fix.IsZero() {
		m.Fix = command.Hintf("see what is measured: %s", f.Ours("network", "verify"))
	}
	m.OK = m.OK && (!r.options.Strict || v.Verdict() == verify.Works)
	return m, err
}

func (r *runner) send(p flows.Plan, f flows.Facts, at time.Time, changes []flows.Change) {
	r.emit(Event{At: at, Started: r.started, Goal: r.goal, Facts: f, Plan: p, Changes: changes, Again: maps.Clone(r.again)})
}

// approve asks the clusters and then the admin, before the first change and before changes that the
// admin has not seen. After every change, the plan is made again, and the new plan may delete or
// replace more objects than the earlier plan announced.
func (r *runner) approve(ctx context.Context, p flows.Plan, f flows.Facts) (asked bool, err error) {
	if p.Empty() || r.approved != nil && r.approved.Foresaw(p) {
		return false, nil
	}
	p, err = r.review(ctx, p, f)
	if err != nil {
		return false, err
	}
	if p.Failure() != nil {
		r.send(p, f, r.options.Now(), nil)
		return false, r.failure(p)
	}
	if r.options.Approve == nil {
		r.approved = &p
		return false, nil
	}
	ok, err := r.options.Approve(p)
	if err != nil {
		return false, err
	}
	if !ok {
		return false, Declined(r.changed)
	}
	// The time of the admin's decision does not count as waiting.
	r.deadline = r.options.Now().Add(r.options.Timeout)
	r.approved = &p
	return true, nil
}

// review asks the clusters whether the user may make all of the plan's changes. If not, the
// returned plan begins with failed steps that name the missing rights.
func (r *runner) review(ctx context.Context, p flows.Plan, f flows.Facts) (flows.Plan, error) {
	reviews, errs := Review(ctx, r.clusters, rights.OfBoth(p))
	p.Steps = append(rights.Unpermitted(reviews, f), p.Steps...)
	return p, errors.Join(errs[:]...)
}

func (r *runner) wait(ctx context.Context) error {
	timer := time.NewTimer(pollInterval)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-r.clusters[flows.A].Changed():
	case <-r.clusters[flows.B].Changed():
	case <-timer.C:
	}
	return nil
}
