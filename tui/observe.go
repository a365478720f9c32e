package tui

import (
	"context"
	"errors"
	"fmt"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/render"
)

const (
	// coalesce is the least time between two messages of a source, and of all
	// clusters together: what changes more often than that nobody can read.
	coalesce = 100 * time.Millisecond
	// gather is how long the first report waits for others, so that clusters
	// which answer together are seen together.
	gather = 10 * time.Millisecond
	// pollInterval bounds how long something stays unseen that no watch tells of,
	// such as a key in a Secret that belongs to Liqo.
	pollInterval = 10 * time.Second
	// retryInterval is the same for a cluster that can't be observed: nothing is
	// watched there.
	retryInterval = 2 * time.Second
	// observeTimeout bounds one observation. It is longer than the 5 s that an
	// unreachable API server takes to be one.
	observeTimeout = 15 * time.Second
	tickInterval   = time.Second
	// relistInterval is how often the kubeconfig files are read again while
	// their contexts are shown: files change.
	relistInterval = 5 * time.Second
)

// report is what one cluster says of itself, when that is something new.
type report struct {
	watch   int
	ref     flows.ContextRef
	cluster flows.Cluster // nil if it can't be opened
	opened  bool          // the cluster was opened for this
	first   bool          // answer of its watch: what it does not speak of does not exist
	facts   flows.ClusterFacts
	changed []flows.Reading
	gone    []render.ClusterID
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
		if !first && !pause(ctx, coalesce-gather) {
			return nil
		}
		var msg newsMsg
		select {
		case r := <-f:
			msg.reports = append(msg.reports, r)
		case <-ctx.Done():
			return nil
		}
		if !pause(ctx, gather) {
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
	watch
	ref     flows.ContextRef
	backend Backend
	feed    feed
	cluster flows.Cluster
	opened  bool // by this observer, and nobody else knows of it yet

	looked   time.Time // because of a change
	told     bool      // something was
	answered bool      // without a problem
	last     flows.ClusterFacts
	readings flows.Readings
}

// observe is a command that ends with the watch.
func (m Model) observe(c member) tea.Cmd {
	o := &observer{watch: c.watch, ref: c.Ref, backend: m.options.Backend, feed: m.feed, cluster: c.cluster}
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
	r := report{watch: o.id, ref: o.ref}
	if o.cluster == nil {
		cluster, err := o.backend.Open(o.ref)
		if err != nil {
			r.facts = unopened(o.ref, err)
			return o.tell(r)
		}
		o.cluster, o.opened = cluster, true
	}
	var ok bool
	if r.facts, ok = look(o.ctx, o.cluster); !ok {
		return false
	}
	return o.tell(r)
}

func (o *observer) tell(r report) bool {
	if o.told && !o.opened && r.facts.Equal(o.last) {
		return true
	}
	r.cluster, r.opened = o.cluster, o.opened
	if r.facts.Problem == nil {
		r.changed, r.gone = o.readings.Update(r.facts)
		r.first, o.answered = !o.answered, true
	}
	select {
	case o.feed <- r:
	case <-o.ctx.Done():
		return false
	}
	o.opened, o.told, o.last = false, true, r.facts
	return true
}

func (m Model) updateNews(msg newsMsg) (Model, tea.Cmd) {
	m.clock = m.later(msg.at)
	cmds := []tea.Cmd{m.feed.next(m.ctx, m.options.Now, false)}
	var all []news
	pair := false
	for _, r := range msg.reports {
		c := m.fleet.member(r.ref)
		if !c.watch.on() || c.watch.id != r.watch {
			if r.opened {
				cmds = append(cmds, closing(r.cluster)) // opened for a watch that has ended
			}
			continue
		}
		c.cluster = r.cluster
		m.fleet = m.fleet.with(c)
		m = m.learn(r.ref, r.facts)
		pair = pair || m.paired(r.ref)
		all = append(all, newsOf(r))
	}
	m = m.tellDashboard(all)
	for _, n := range all {
		m = m.renewYAML(n.ref)
	}
	switch {
	case pair && m.planned():
		m = m.replan()
	case m.screen == screenClusters:
		m = m.greet()
	}
	return m, tea.Batch(cmds...)
}

// unopened is a cluster that there is no way to talk to.
func unopened(ref flows.ContextRef, err error) flows.ClusterFacts {
	p := &flows.Problem{Kind: flows.Unreachable, Message: err.Error()}
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		p.Hint = h.Hint()
	}
	return flows.ClusterFacts{Context: ref, Problem: p}
}

// waitChanged waits for a reason to look again. A cluster that could not be
// opened has none but the time.
func (o *observer) waitChanged() bool {
	if !pause(o.ctx, coalesce-time.Since(o.looked)) {
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
	case <-o.ctx.Done():
		return false
	case <-changed:
		o.looked = time.Now()
	case <-poll.C:
	}
	return true
}

// look turns what keeps a cluster from being observed into a fact, too; ok is
// false when ctx has ended.
func look(ctx context.Context, c flows.Cluster) (_ flows.ClusterFacts, ok bool) {
	bounded, cancel := context.WithTimeout(ctx, observeTimeout)
	defer cancel()
	facts, err := c.Observe(bounded)
	switch {
	case ctx.Err() != nil:
		return facts, false
	case errors.Is(err, context.DeadlineExceeded):
		facts.Problem = &flows.Problem{
			Kind: flows.Unreachable, Message: fmt.Sprintf("no answer within %s", observeTimeout),
			Hint: "does its kubeconfig run a program for the credentials, and does that one wait for something?",
		}
	case err != nil:
		facts.Problem = &flows.Problem{Kind: flows.Unreachable, Message: err.Error()}
	}
	return facts, true
}

// closing is a command.
func closing(c flows.Cluster) tea.Cmd {
	return func() tea.Msg {
		closeCluster(c)
		return nil
	}
}

func closeCluster(c flows.Cluster) {
	if c, ok := c.(interface{ Close() }); ok {
		c.Close()
	}
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

// tickMsg is the time.
type tickMsg time.Time

// tick is a command: it tells the time after d.
func tick(ctx context.Context, now func() time.Time, d time.Duration) tea.Cmd {
	return func() tea.Msg {
		if !pause(ctx, d) {
			return nil
		}
		return tickMsg(now())
	}
}
