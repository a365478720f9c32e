package wizard

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/internal/sleep"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// RunMsg has the events of a run since the last RunMsg.
type RunMsg struct {
	Run    int
	Events []engine.Event
	At     time.Time
	Ended  bool
	Err    error // the error of a run that has ended
}

// run is one call of [engine.Run], and the channel for its events to Update.
type run struct {
	id      int
	program context.Context // ends when nobody reads messages any more
	now     func() time.Time
	ctx     context.Context
	cancel  context.CancelFunc
	events  chan engine.Event
	result  chan error
}

// eventBuffer is enough for the events of one coalesced message in practice. A
// run with more events waits.
const eventBuffer = 16

func newRun(ctx context.Context, id int, now func() time.Time) run {
	r := run{id: id, program: ctx, now: now, events: make(chan engine.Event, eventBuffer), result: make(chan error, 1)}
	r.ctx, r.cancel = context.WithCancel(ctx)
	return r
}

// stop is a command that ends the run after the requests that have begun.
func (r run) stop() tea.Msg {
	r.cancel()
	return nil
}

// drive is a command that runs until the goal is reached.
func (r run) drive(goal flows.Goal, a, b engine.Cluster, o engine.Options) tea.Cmd {
	return func() tea.Msg {
		defer r.cancel()
		r.result <- engine.Run(r.ctx, goal, a, b, func(e engine.Event) {
			select {
			case r.events <- e:
			case <-r.program.Done():
			}
		}, o)
		close(r.events)
		return nil
	}
}

// next is a command that waits for events, and returns all that are there.
func (r run) next(first bool) tea.Cmd {
	return func() tea.Msg {
		if !first && !sleep.For(r.program, session.Coalesce) {
			return nil
		}
		msg := RunMsg{Run: r.id}
		select {
		case e, ok := <-r.events:
			msg = r.collect(msg, e, ok)
		case <-r.program.Done():
			return nil
		}
		msg.At = r.now()
		return msg
	}
}

// collect adds an event to msg, with the events that have come since, without
// waiting.
func (r run) collect(msg RunMsg, e engine.Event, ok bool) RunMsg {
	for ok {
		msg.Events = append(msg.Events, e)
		select {
		case e, ok = <-r.events:
		default:
			return msg
		}
	}
	msg.Ended, msg.Err = true, <-r.result
	return msg
}

// covers reports whether the approval of one plan is valid for the plan p:
// between the question and the first request, the clusters may have changed. If
// a step had no diff at the time of approval, its later diff is approved.
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
