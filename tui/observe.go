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
	// gather is how long the first report waits for others, so that clusters
	// which answer together are seen together.
	gather = 10 * time.Millisecond
	// pollInterval bounds how long something stays unseen that no watch tells of,
	// such as a key in a Secret that belongs to Liqo.
	pollInterval = 10 * time.Second
	// retryInterval is the same for a cluster that can't be observed: nothing is
	// watched there.
	retryInterval = 2 * time.Second
	tickInterval  = time.Second
	// relistInterval is how often the kubeconfig files are read again while
	// their contexts are shown: files change.
	relistInterval = 5 * time.Second
)

// report is what one cluster says of itself, when that is something new.
type report struct {
	watch   int
	ref     flows.ContextRef
	cluster engine.Cluster // nil if it can't be opened
	opened  bool           // the cluster was opened for this
	first   bool           // answer of its watch: what it does not speak of does not exist
	facts   flows.ClusterFacts
	changed []flows.Reading
	gone    []wire.ClusterID
}

// newsMsg is what all clusters have told since the last one.
type newsMsg struct {
	reports []report
	at      time.Time
}

// feed is where all observers leave their reports. It is bounded: who has more
// to say waits until the program has taken what is there.
type feed chan report

const feedSize = 64

// next is a command that takes all reports that are there. There is one such
// command at any time, so that however many clusters change however fast, they
// make the program draw ten times a second at most.
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

// observer looks at one cluster for as long as its watch lasts.
type observer struct {
	session.Watch
	ref     flows.ContextRef
	backend session.Backend
	feed    feed
	cluster engine.Cluster
	opened  bool // by this observer, and nobody else knows of it yet

	looked   time.Time // because of a change
	told     bool      // something was
	answered bool      // without a problem
	last     flows.ClusterFacts
	readings view.Readings
}

// observe is a command that ends with the watch.
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

// look reports what is new, if anything is; false when the watch has ended.
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
				cmds = append(cmds, closing(r.cluster)) // opened for a watch that has ended
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
		m = m.greet()
	}
	return m, tea.Batch(cmds...)
}

func newsOf(r report) board.News {
	return board.News{
		Ref: r.ref, Problem: r.facts.Problem, ID: r.facts.ID, UID: r.facts.UID,
		Changed: r.changed, Gone: r.gone, Complete: r.first, Events: r.facts.Events,
	}
}

// seenByRun is all that a run has seen of a cluster.
func seenByRun(ref flows.ContextRef, f flows.ClusterFacts) board.News {
	r := report{ref: ref, facts: f, first: true}
	if f.Problem == nil {
		r.changed, r.gone = new(view.Readings).Update(f)
	}
	return newsOf(r)
}

// recall takes in what was observed before the program began, as if it had watched.
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

// greet opens the dashboard, if the admin has not begun with anything else and
// one of the clusters has a connection.
func (m Model) greet() Model {
	m.wizard = m.wizard.Listed(m.env())
	connected := slices.ContainsFunc(m.fleet.Members, func(c *session.Member) bool { return len(c.Good.Connections) > 0 })
	if m.options.Start == session.StartAny && !m.touched && connected {
		m.wizard.Step = wizard.Away
	}
	return m
}

// unopened is a cluster that there is no way to talk to.
func unopened(ref flows.ContextRef, err error) flows.ClusterFacts {
	return flows.ClusterFacts{Context: ref, Problem: &flows.Problem{Kind: flows.Unreachable, Word: "not usable", Message: err.Error(), Fix: flows.HintOf(err)}}
}

// waitChanged waits for a reason to look again. A cluster that could not be
// opened has none but the time.
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
	// All observers poll at the same moments: that wakes an idle program once,
	// not once for each cluster.
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

// look turns what keeps a cluster from being observed into a fact, too; ok is
// false when ctx has ended.
func look(ctx context.Context, c engine.Cluster) (_ flows.ClusterFacts, ok bool) {
	bounded, cancel := context.WithTimeout(ctx, session.AskTimeout)
	defer cancel()
	facts, err := c.Observe(bounded)
	switch {
	case ctx.Err() != nil:
		return facts, false
	case facts.Problem != nil: // it knows better than the clock what it waits for
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

// closing is a command.
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

// tickMsg is the time.
type tickMsg time.Time

// tick is a command: it tells the time after d.
func tick(ctx context.Context, now func() time.Time, d time.Duration) tea.Cmd {
	return func() tea.Msg {
		if !sleep.For(ctx, d) {
			return nil
		}
		return tickMsg(now())
	}
}

// learn takes a cluster's facts in.
func (m Model) learn(ref flows.ContextRef, f flows.ClusterFacts) Model {
	m.fleet = m.fleet.Learn(ref, f, m.clock)
	m.wizard = m.wizard.Learned(m.env(), ref)
	return m
}
