package tui

import (
	"context"
	"errors"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/flows"
)

// runMsg is what a run has told since the last one.
type runMsg struct {
	run    int
	events []runEvent
	at     time.Time
	ended  bool
	err    error // of the run, when it has ended
}

// runEvent is one event, with the facts that its plan was made of.
type runEvent struct {
	flows.Event
	facts flows.Facts
}

// run is one call of [flows.Run] and the way its events take into Update.
type run struct {
	id      int
	program context.Context // ends when nobody reads messages any more
	now     func() time.Time
	ctx     context.Context
	cancel  context.CancelFunc
	events  chan runEvent
	result  chan error
}

// eventBuffer is enough for the events of one coalesced message in practice; a
// run that has more to say waits.
const eventBuffer = 16

func newRun(ctx context.Context, id int, now func() time.Time) run {
	r := run{id: id, program: ctx, now: now, events: make(chan runEvent, eventBuffer), result: make(chan error, 1)}
	r.ctx, r.cancel = context.WithCancel(ctx)
	return r
}

// stop is a command: it ends the run after the requests that are under way.
func (r run) stop() tea.Msg {
	r.cancel()
	return nil
}

// drive is a command: it runs the plan to its end.
func (r run) drive(plan func(flows.Facts) flows.Plan, a, b flows.Cluster, o flows.Options) tea.Cmd {
	return func() tea.Msg {
		defer r.cancel()
		var facts flows.Facts
		seen := func(f flows.Facts) flows.Plan {
			facts = f
			return plan(f)
		}
		r.result <- flows.Run(r.ctx, seen, a, b, func(e flows.Event) {
			select {
			case r.events <- runEvent{Event: e, facts: facts}:
			case <-r.program.Done():
			}
		}, o)
		close(r.events)
		return nil
	}
}

// next is a command: it waits for events, and takes all that are there.
func (r run) next(first bool) tea.Cmd {
	return func() tea.Msg {
		if !first && !pause(r.program, coalesce) {
			return nil
		}
		msg := runMsg{run: r.id}
		select {
		case e, ok := <-r.events:
			msg = r.collect(msg, e, ok)
		case <-r.program.Done():
			return nil
		}
		msg.at = r.now()
		return msg
	}
}

// collect adds an event and those that have come since, without waiting.
func (r run) collect(msg runMsg, e runEvent, ok bool) runMsg {
	for ok {
		msg.events = append(msg.events, e)
		select {
		case e, ok = <-r.events:
		default:
			return msg
		}
	}
	msg.ended, msg.err = true, <-r.result
	return msg
}

// startRun applies the current plan. approved is what the admin has seen.
func (m Model) startRun(approved flows.Plan) (Model, tea.Cmd) {
	a, b := m.on(flows.A).cluster, m.on(flows.B).cluster
	if a == nil || b == nil { // they are being opened again
		m.confirm, m.note = nil, "The clusters are being asked again. Look at the plan when they have answered."
		return m, nil
	}
	r := newRun(m.ctx, m.apply.run.id+1, m.options.Now)
	m.apply = applyScreen{
		run: r, goal: m.goal, phase: phaseRunning, approved: approved, began: m.clock, timeout: m.options.Timeout,
		changed: m.apply.changed, log: m.apply.log,
	}
	m.screen, m.confirm = screenApply, nil
	o := flows.Options{
		Timeout: m.options.Timeout, Now: m.options.Now, Measure: measuring(a, b, m.options.Now),
		Approve: func(p flows.Plan) (bool, error) { return covers(approved, p), nil },
	}
	plan := m.planFor
	if m.goal == Connect {
		plan = flows.Connecting(m.params)
	}
	return m, tea.Batch(r.drive(plan, a, b, o), r.next(true))
}

// covers reports whether who approved one plan has approved the other: between
// the question and the first request the clusters may have changed. A step that
// had no diff to show yet was approved as what it is going to do.
func covers(approved, p flows.Plan) bool {
	for _, s := range p.Steps {
		if s.Status == flows.Done || !s.Action.Changes() {
			continue
		}
		before, ok := approved.Step(s.ID)
		if !ok || before.Status == flows.Done || before.Title != s.Title {
			return false
		}
		if s.Status == flows.Blocked {
			continue
		}
		if before.Action != s.Action || before.Diff != "" && before.Diff != s.Diff {
			return false
		}
	}
	return approved.A == p.A && approved.B == p.B
}

func (m Model) updateRun(msg runMsg) (Model, tea.Cmd) {
	if msg.run != m.apply.run.id {
		return m, nil
	}
	for _, e := range msg.events {
		m.clock = m.later(e.At)
		m = m.learn(m.pair[flows.A], e.facts.Local).learn(m.pair[flows.B], e.facts.Remote)
		m.apply = m.apply.take(e.Event)
	}
	m.clock = m.later(msg.at)
	if !msg.ended {
		return m, m.apply.run.next(false)
	}
	return m.endRun(msg.err)
}

// endRun goes on by how the run ended, and watches again.
func (m Model) endRun(err error) (Model, tea.Cmd) {
	m.apply.err, m.apply.ended = err, m.clock
	if err == nil {
		m.goal = Connect // what a plan is for from now on
	}
	m = m.replan()
	switch {
	case err == nil:
		m.apply.phase = phaseDone
		m.screen, m.plan = screenLive, planScreen{}
		if m.apply.goal == Connect {
			return m.verify()
		}
	case m.apply.leave:
		return m.quit(ErrInterrupted)
	case errors.Is(err, flows.ErrDeclined):
		m.apply.phase = phaseNone
		m.screen, m.plan.pinned = screenPlan, true
		m.plan.note = "The clusters have changed since you looked, and nothing was applied by this yes: look again."
	case errors.Is(err, context.Canceled):
		m.apply.phase = phaseStopped
	default:
		m.apply.phase = phaseFailed
	}
	return m, nil
}
