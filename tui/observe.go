package tui

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/view"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/sleep"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/tui/board"
	"github.com/liqo-tui/liqo-tui/tui/session"
	"github.com/liqo-tui/liqo-tui/tui/wizard"
)

const (
	// gather is how long the first report waits for others, so that clusters which
	// answer at the same time are shown at the same time.
	gather = 10 * time.Millisecond
	// pollInterval is the longest time until the program sees a change that no
	// watch reports, such as a key in a Secret of Liqo.
	pollInterval = 10 * time.Second
	// retryInterval is the same for a cluster that can't be observed, because it
	// has no watches.
	retryInterval = 2 * time.Second
	tickInterval  = time.Second
)

// report is the difference between two observations of one cluster.
type report struct {
	watch   int
	ref     flows.ContextRef
	cluster engine.Cluster // nil if it can't be opened
	opened  bool           // this observer has opened the cluster
	first   bool           // the first report of a watch: objects that it does not mention do not exist
	facts   flows.ClusterFacts
	changed []flows.Reading
	gone    []wire.ClusterID
}

// newsMsg has the reports of all clusters since the last newsMsg.
type newsMsg struct {
	reports []report
	at      time.Time
}

// feed is the channel for the reports of all observers. It is bounded: an observer
// waits until the program has read earlier reports.
type feed chan report

const feedSize = 64

// next is a command that reads all reports in the feed. There is only one such
// command at any time, so the program draws at most ten times a second, however
// many clusters change.
func (f feed) next(ctx context.Context, now func() time.Time, first bool) tea.Cmd {
	return func() tea.Msg {
		if !first && !sleep.For(ctx, session.Coalesce-gather) {
			return nil
		}
		var msg newsMsg
		select {
		case r := <-f:
			msg.reports = append(msg.reports, r)
		case <-ctx.Done():
			return nil
		}
		if !sleep.For(ctx, gather) {
			return nil
		}
		for {
			select {
			case r := <-f:
				msg.reports = append(msg.reports, r)
			default:
				msg.at = now()
				return msg
			}
		}
	}
}

// observer observes one cluster until its watch ends.
type observer struct {
	session.Watch
	ref     flows.ContextRef
	backend session.Backend
	feed    feed
	cluster engine.Cluster
	opened  bool // by this observer, and not reported yet

	looked   time.Time // the time of the last observation after a change
	told     bool      // something was reported
	answered bool      // the cluster answered, without a problem
	last     flows.ClusterFacts
	readings view.Readings
}

// observe is a command that ends when the watch ends.
func (m Model) observe(c session.Member) tea.Cmd {
	o := &observer{Watch: c.Watch, ref: c.Ref, backend: m.options.Backend, feed: m.feed, cluster: c.Cluster}
	return func() tea.Msg {
		for o.look() && o.waitChanged() {
		}
		if o.opened {
			closeCluster(o.cluster)
		}
		return nil
	}
}

// look observes the cluster, and reports a difference. It returns false when the
// watch has ended.
func (o *observer) look() bool {
	r := report{watch: o.ID, ref: o.ref}
	if o.cluster == nil {
		cluster, err := o.backend.Open(o.ref)
		if err != nil {
			r.facts = unopened(o.ref, err)
			return o.tell(r)
		}
		o.cluster, o.opened = cluster, true
	}
	var ok bool
	if r.facts, ok = look(o.Ctx, o.cluster); !ok {
		return false
	}
	return o.tell(r)
}

func (o *observer) tell(r report) bool {
	if o.told && !o.opened && view.Equal(r.facts, o.last) {
		return true
	}
	r.cluster, r.opened = o.cluster, o.opened
	if r.facts.Problem == nil {
		r.changed, r.gone = o.readings.Update(r.facts)
		r.first, o.answered = !o.answered, true
	}
	select {
	case o.feed <- r:
	case <-o.Ctx.Done():
		return false
	}
	o.opened, o.told, o.last = false, true, r.facts
	return true
}

func (m Model) updateNews(msg newsMsg) (Model, tea.Cmd) {
	m.clock = m.later(msg.at)
	cmds := []tea.Cmd{m.feed.next(m.ctx, m.options.Now, false)}
	var all []board.News
	pair := false
	for _, r := range msg.reports {
		c := m.fleet.Member(r.ref)
		if !c.Watch.On() || c.Watch.ID != r.watch {
			if r.opened {
				cmds = append(cmds, closing(r.cluster)) // it was opened for a watch that has ended
			}
			continue
		}
		c.Cluster = r.cluster
		m.fleet = m.fleet.With(c)
		m = m.learn(r.ref, r.facts)
		pair = pair || m.wizard.Works(r.ref)
		all = append(all, newsOf(r))
	}
	m.dashboard = m.dashboard.Take(m.env(), all)
	switch {
	case pair && m.wizard.Planned(m.env()):
		m.wizard = m.wizard.Replan(m.env())
	case m.wizard.Step == wizard.Clusters:
		next, cmd := m.greet()
		m, cmds = next, append(cmds, cmd)
	}
	return m, tea.Batch(cmds...)
}

func newsOf(r report) board.News {
	return board.News{
		Ref: r.ref, Problem: r.facts.Problem, ID: r.facts.ID, UID: r.facts.UID,
		Changed: r.changed, Gone: r.gone, Complete: r.first, Events: r.facts.Events,
	}
}

// seenByRun returns all facts that a run has observed on a cluster.
func seenByRun(ref flows.ContextRef, f flows.ClusterFacts) board.News {
	r := report{ref: ref, facts: f, first: true}
	if f.Problem == nil {
		r.changed, r.gone = new(view.Readings).Update(f)
	}
	return newsOf(r)
}

// recall adds the observations from before the program began, as if the program had
// watched then.
func (m Model) recall() Model {
	readings := map[flows.ContextRef]*view.Readings{}
	for seen := range m.options.Past {
		if len(readings) == 0 {
			m.clock = seen.At
			m.dashboard = board.New(m.options, m.env())
		}
		first := readings[seen.Ref] == nil
		if first {
			readings[seen.Ref] = &view.Readings{}
			m.fleet = m.fleet.With(m.fleet.Member(seen.Ref))
			m.dashboard.Know(m.fleet)
		}
		r := report{ref: seen.Ref, facts: seen.Facts, first: first}
		r.changed, r.gone = readings[seen.Ref].Update(seen.Facts)
		m.clock = seen.At
		m = m.learn(seen.Ref, seen.Facts)
		m.dashboard = m.dashboard.Take(m.env(), []board.News{newsOf(r)})
	}
	return m
}

// greet goes on from the list of clusters. It opens the dashboard if a cluster has a connection, or lets the wizard
// choose the only pair, unless the admin has already begun something else.
func (m Model) greet() (Model, tea.Cmd) {
	m.wizard = m.wizard.Listed(m.env())
	connected := slices.ContainsFunc(m.fleet.Members, func(c *session.Member) bool { return len(c.Good.Connections) > 0 })
	if m.options.Start == session.StartAny && !m.touched && connected && m.wizard.Step == wizard.Clusters {
		m.wizard.Step = wizard.Away
	}
	return m.update(wizard.GreetMsg{})
}

// unopened returns the facts about a cluster that can't be opened.
func unopened(ref flows.ContextRef, err error) flows.ClusterFacts {
	return flows.ClusterFacts{Context: ref, Problem: &flows.Problem{Kind: flows.Unreachable, Word: "not usable", Message: err.Error(), Fix: flows.HintOf(err)}}
}

// waitChanged waits for a reason to observe again. For a cluster that could not be
// opened, the only reason is the time.
func (o *observer) waitChanged() bool {
	if !sleep.For(o.Ctx, session.Coalesce-time.Since(o.looked)) {
		return false
	}
	var changed <-chan struct{}
	interval := retryInterval
	if o.cluster != nil {
		changed = o.cluster.Changed()
	}
	if o.last.Problem == nil {
		interval = pollInterval
	}
	// All observers poll at the same time, so that an idle program wakes up once,
	// and not once for each cluster.
	now := time.Now()
	poll := time.NewTimer(now.Truncate(interval).Add(interval).Sub(now))
	defer poll.Stop()
	select {
	case <-o.Ctx.Done():
		return false
	case <-changed:
		o.looked = time.Now()
	case <-poll.C:
	}
	return true
}

// look observes the cluster. If that fails, the reason is in the facts. ok is false
// when ctx has ended.
func look(ctx context.Context, c engine.Cluster) (_ flows.ClusterFacts, ok bool) {
	bounded, cancel := context.WithTimeout(ctx, session.AskTimeout)
	defer cancel()
	facts, err := c.Observe(bounded)
	switch {
	case ctx.Err() != nil:
		return facts, false
	case facts.Problem != nil: // this problem says more than the timeout
	case errors.Is(err, context.DeadlineExceeded):
		facts.Problem = &flows.Problem{
			Kind: flows.Unreachable, Message: fmt.Sprintf("no answer within %s", session.AskTimeout),
			Fix: command.Text("check the server in the kubeconfig, and firewall or VPN on the way; an API server that only answers slowly is asked again"),
		}
	case err != nil:
		facts.Problem = &flows.Problem{Kind: flows.Unreachable, Message: err.Error()}
	}
	return facts, true
}

func closing(c engine.Cluster) tea.Cmd {
	return func() tea.Msg {
		closeCluster(c)
		return nil
	}
}

func closeCluster(c engine.Cluster) {
	if c, ok := c.(interface{ Close() }); ok {
		c.Close()
	}
}

// tickMsg is the present time.
type tickMsg time.Time

// tick is a command that returns the time after d.
func tick(ctx context.Context, now func() time.Time, d time.Duration) tea.Cmd {
	return func() tea.Msg {
		if !sleep.For(ctx, d) {
			return nil
		}
		return tickMsg(now())
	}
}

// learn stores a cluster's facts in the fleet.
func (m Model) learn(ref flows.ContextRef, f flows.ClusterFacts) Model {
	m.fleet = m.fleet.Learn(ref, f, m.clock)
	m.wizard = m.wizard.Learned(m.env(), ref)
	return m
}
