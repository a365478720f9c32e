package tui

import (
	"context"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/flows"
)

// Backend is the world outside of the program: kubeconfigs and clusters. Its
// methods are called by commands, several at once.
type Backend interface {
	// Contexts lists the contexts of all kubeconfig files, those that the admin
	// has added here last. A file that can't be read hides no other.
	Contexts(added []string) ([]Context, []error)
	// Open prepares to talk to a cluster. One that has a Close method is closed
	// when the program has no more use for it.
	Open(flows.ContextRef) (flows.Cluster, error)
}

// Context is one entry of a kubeconfig.
type Context struct {
	Ref    flows.ContextRef
	File   string // that it is in, also where Ref needs none
	Server string // URL of the API server
	User   string // name of the kubeconfig's user
	// Problem is why it can't be used at all, such as a user that is missing.
	Problem string
}

// fleet is every cluster that the program knows of, in the order of the
// kubeconfig files. It is a value: what changes it returns another one.
type fleet struct {
	members  []*member // never changed in place: models share them
	problems []error   // of files
	added    []string  // files
	listed   bool      // the files were read
	listing  bool      // they are being read
	watches  int       // that were ever started
}

// member is one cluster, and what is known of it.
type member struct {
	Context
	latest flows.ClusterFacts // the latest answer, which may be a Problem
	good   flows.ClusterFacts // the latest one without a Problem
	asked  bool               // there was an answer
	began  time.Time          // when it was first asked
	since  time.Time          // when the Problem began

	cluster flows.Cluster // nil until it is open
	watch   watch
}

// probing reports whether nothing is known yet.
func (c member) probing() bool { return !c.asked }

func (f fleet) index(ref flows.ContextRef) int {
	return slices.IndexFunc(f.members, func(c *member) bool { return c.Ref == ref })
}

// member is a copy; the zero value for a context that nobody has heard of.
func (f fleet) member(ref flows.ContextRef) member {
	if i := f.index(ref); i >= 0 {
		return *f.members[i]
	}
	return member{Context: Context{Ref: ref}}
}

// with puts a member in, in the place of the one with the same context.
func (f fleet) with(c member) fleet {
	f.members = slices.Clone(f.members)
	if i := f.index(c.Ref); i >= 0 {
		f.members[i] = &c
	} else {
		f.members = append(f.members, &c)
	}
	return f
}

// relist takes what the files say now. Members stay who they are; one whose
// context is gone goes, unless keep says that it is in use.
func (f fleet) relist(found []Context, keep func(flows.ContextRef) bool) (_ fleet, gone []member) {
	var members []*member
	for _, c := range found {
		m := f.member(c.Ref)
		m.Context = c
		members = append(members, &m)
	}
	for _, m := range f.members {
		switch {
		case slices.ContainsFunc(found, func(c Context) bool { return c.Ref == m.Ref }):
		case keep(m.Ref):
			members = append(members, m)
		default:
			gone = append(gone, *m)
		}
	}
	f.members = members
	return f, gone
}

// contextsMsg is what the kubeconfig files say.
type contextsMsg struct {
	contexts []Context
	problems []error
}

// watch is the life of the commands that observe one cluster; the zero value
// is none.
type watch struct {
	id     int
	ctx    context.Context
	cancel context.CancelFunc
}

func (w watch) on() bool { return w.cancel != nil }

// stop is a command.
func (w watch) stop() tea.Msg {
	w.cancel()
	return nil
}

// interest is what the program wants of a cluster now.
type interest uint8

const (
	notWanted interest = iota
	heldOpen           // a run observes it by itself
	watched
)

// interests follow from what is shown, so that nothing has to be remembered
// when screens change.
func (m Model) interests() func(flows.ContextRef) interest {
	running, choosing, pair := m.apply.active(), m.screen == screenClusters, m.pair
	dashboard, chosen := m.dashboard.open || m.screen == screenDashboard || m.screen == screenDetail, m.dashboard.chosen
	return func(ref flows.ContextRef) interest {
		paired := ref != flows.ContextRef{} && (ref == pair[flows.A] || ref == pair[flows.B])
		switch {
		case paired && running:
			return heldOpen
		case paired, choosing, dashboard && (chosen == nil || chosen[ref]):
			return watched
		}
		return notWanted
	}
}

// steer starts and stops watches, so that they are those of [Model.interests],
// and closes the clusters that are of none.
func (m Model) steer() (Model, tea.Cmd) {
	var cmds []tea.Cmd
	// A dashboard reads the files again only while they are what is wrong.
	unread := m.screen == screenDashboard && (len(m.fleet.problems) > 0 || len(m.fleet.members) == 0)
	if (m.screen == screenClusters || unread) && !m.fleet.listing {
		m.fleet.listing = true
		cmds = append(cmds, m.list(m.fleet.listed))
	}
	interests := m.interests()
	for _, known := range m.fleet.members {
		want := interests(known.Ref)
		if (want == watched) == known.watch.on() && (want != notWanted || known.cluster == nil) {
			continue
		}
		c := *known
		switch {
		case want == watched && !c.watch.on():
			m.fleet.watches++
			c.watch = newWatch(m.ctx, m.fleet.watches)
			if c.began.IsZero() {
				c.began = m.clock
			}
			cmds = append(cmds, m.observe(c))
		case want != watched && c.watch.on():
			cmds = append(cmds, c.watch.stop)
			c.watch = watch{}
		case want == notWanted && c.cluster != nil:
			cmds = append(cmds, closing(c.cluster))
			c.cluster = nil
		}
		m.fleet = m.fleet.with(c)
	}
	return m, tea.Batch(cmds...)
}

func newWatch(ctx context.Context, id int) watch {
	ctx, cancel := context.WithCancel(ctx)
	return watch{id: id, ctx: ctx, cancel: cancel}
}

// list is a command that reads the kubeconfig files.
func (m Model) list(again bool) tea.Cmd {
	backend, added, ctx := m.options.Backend, m.fleet.added, m.ctx
	return func() tea.Msg {
		if again && !pause(ctx, relistInterval) {
			return nil
		}
		contexts, problems := backend.Contexts(added)
		return contextsMsg{contexts, problems}
	}
}

func (m Model) updateContexts(msg contextsMsg) (Model, tea.Cmd) {
	var gone []member
	m.fleet, gone = m.fleet.relist(msg.contexts, m.paired)
	m.fleet.problems, m.fleet.listed, m.fleet.listing = msg.problems, true, false
	var cmds []tea.Cmd
	for _, c := range gone {
		if c.watch.on() {
			cmds = append(cmds, c.watch.stop)
		}
		if c.cluster != nil {
			cmds = append(cmds, closing(c.cluster))
		}
	}
	m.clusters = m.clusters.keep(m.clusterRows())
	m.dashboard.board.choose(m.dashboardContexts())
	return m, tea.Batch(cmds...)
}

// learn takes a cluster's facts in.
func (m Model) learn(ref flows.ContextRef, f flows.ClusterFacts) Model {
	c := m.fleet.member(ref)
	switch {
	case f.Problem == nil:
		c.good, c.since = f, time.Time{}
	case c.since.IsZero():
		c.since = m.clock
	}
	c.latest, c.asked = f, true
	m.fleet = m.fleet.with(c)
	for _, s := range []flows.Side{flows.A, flows.B} {
		if m.paired(ref) { // the peer's ID may be news too
			m.live.witnesses[s] = m.live.witnesses[s].note(m.clock, m.pair[s], m.peer(s).Reading())
		}
	}
	return m
}

// rewatch opens the clusters on the screen again, and asks them: what was wrong
// may have been the kubeconfig.
func (m Model) rewatch() (Model, tea.Cmd) {
	var cmds []tea.Cmd
	for _, known := range m.fleet.members {
		c := *known
		if !c.watch.on() {
			continue
		}
		cmds = append(cmds, c.watch.stop)
		if c.cluster != nil {
			cmds = append(cmds, closing(c.cluster))
		}
		c.watch, c.cluster = watch{}, nil
		m.fleet = m.fleet.with(c)
	}
	return m, tea.Batch(cmds...)
}
