package tui

import (
	"context"
	"errors"
	"fmt"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/flows"
)

const (
	// coalesce is the least time between two messages of one source: what
	// changes more often than that nobody can read.
	coalesce = 100 * time.Millisecond
	// pollInterval bounds how long something that no watch told stays unseen.
	pollInterval = 2 * time.Second
	// observeTimeout bounds one observation. It is longer than the 5 s that an
	// unreachable API server takes to be one.
	observeTimeout = 15 * time.Second
	tickInterval   = time.Second
)

// factsMsg is what one cluster says of itself.
type factsMsg struct {
	watch int
	side  flows.Side
	facts flows.ClusterFacts
	at    time.Time
}

// tickMsg is the time.
type tickMsg time.Time

// watch is the life of the commands that observe: a run takes over from them.
type watch struct {
	id     int
	ctx    context.Context
	cancel context.CancelFunc
}

func newWatch(ctx context.Context, id int) watch {
	ctx, cancel := context.WithCancel(ctx)
	return watch{id: id, ctx: ctx, cancel: cancel}
}

// stop is a command.
func (w watch) stop() tea.Msg {
	w.cancel()
	return nil
}

// watchBoth observes each side on its own: one that hangs must not hide the other.
func (m Model) watchBoth() tea.Cmd {
	return tea.Batch(m.watchSide(flows.A, true), m.watchSide(flows.B, true))
}

// watchSide waits until something changed, unless it is the first time, and
// observes. There is one such command per side at any time.
func (m Model) watchSide(side flows.Side, first bool) tea.Cmd {
	w, now, cluster := m.watching, m.options.Now, m.cluster(side)
	return func() tea.Msg {
		if !first && !waitChanged(w.ctx, cluster.Changed()) {
			return nil
		}
		facts, ok := observe(w.ctx, cluster)
		if !ok {
			return nil
		}
		return factsMsg{watch: w.id, side: side, facts: facts, at: now()}
	}
}

func (m Model) cluster(s flows.Side) flows.Cluster {
	if s == flows.B {
		return m.options.B
	}
	return m.options.A
}

func waitChanged(ctx context.Context, changed <-chan struct{}) bool {
	if !pause(ctx, coalesce) {
		return false
	}
	poll := time.NewTimer(pollInterval)
	defer poll.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-changed:
	case <-poll.C:
	}
	return true
}

// observe turns what keeps a cluster from being observed into a fact, too; ok
// is false when ctx has ended.
func observe(ctx context.Context, c flows.Cluster) (_ flows.ClusterFacts, ok bool) {
	bounded, cancel := context.WithTimeout(ctx, observeTimeout)
	defer cancel()
	facts, err := c.Observe(bounded)
	switch {
	case ctx.Err() != nil:
		return facts, false
	case errors.Is(err, context.DeadlineExceeded):
		facts.Problem = &flows.Problem{Kind: flows.Unreachable, Message: fmt.Sprintf("no answer within %s", observeTimeout)}
	case err != nil:
		facts.Problem = &flows.Problem{Kind: flows.Unreachable, Message: err.Error()}
	}
	return facts, true
}

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func tick(ctx context.Context, now func() time.Time) tea.Cmd {
	return func() tea.Msg {
		if !pause(ctx, tickInterval) {
			return nil
		}
		return tickMsg(now())
	}
}

// rewatch asks both clusters again, now.
func (m Model) rewatch() (Model, tea.Cmd) {
	stop := m.watching.stop
	m.watching = newWatch(m.ctx, m.watching.id+1)
	return m, tea.Batch(stop, m.watchBoth())
}
