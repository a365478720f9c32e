package tui

import (
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/sleep"
	"github.com/liqo-tui/liqo-tui/tui/session"
	"github.com/liqo-tui/liqo-tui/tui/wizard"
)

// interest says what the program does with a cluster now.
type interest uint8

const (
	notWanted interest = iota
	heldOpen           // a run observes the cluster by itself
	watched
)

// interests is computed from the present screens, so that no state has to be
// updated when screens change.
func (m Model) interests() func(flows.ContextRef) interest {
	running, choosing := m.wizard.Running(), m.wizard.Step == wizard.Clusters
	return func(ref flows.ContextRef) interest {
		paired := m.wizard.Works(ref)
		switch {
		case paired && running:
			return heldOpen
		case paired, choosing, m.boarded && m.dashboard.Watches(ref):
			return watched
		}
		return notWanted
	}
}

// steer starts and stops watches according to [Model.interests], and closes the
// clusters that nothing needs.
func (m Model) steer() (Model, tea.Cmd) {
	var cmds []tea.Cmd
	// A dashboard reads the files again only while they are the problem.
	unread := m.onBoard() && !m.dashboard.Detail && (len(m.fleet.Problems) > 0 || len(m.fleet.Members) == 0)
	if (m.wizard.Step == wizard.Clusters || unread) && !m.fleet.Listing {
		m.fleet.Listing = true
		cmds = append(cmds, m.list(session.RelistInterval-m.clock.Sub(m.fleet.Listed)))
	}
	interests := m.interests()
	for _, known := range m.fleet.Members {
		want := interests(known.Ref)
		if (want == watched) == known.Watch.On() && (want != notWanted || known.Cluster == nil) {
			continue
		}
		c := *known
		switch {
		case want == watched && !c.Watch.On():
			m.fleet.Watches++
			c.Watch = session.NewWatch(m.ctx, m.fleet.Watches)
			if c.Began.IsZero() {
				c.Began = m.clock
			}
			cmds = append(cmds, m.observe(c))
		case want != watched && c.Watch.On():
			cmds = append(cmds, c.Watch.Stop)
			c.Watch = session.Watch{}
		case want == notWanted && c.Cluster != nil:
			cmds = append(cmds, closing(c.Cluster))
			c.Cluster = nil
		}
		m.fleet = m.fleet.With(c)
	}
	return m, tea.Batch(cmds...)
}

// list is a command that reads the kubeconfig files after a while.
func (m Model) list(after time.Duration) tea.Cmd {
	backend, added, ctx := m.options.Backend, m.fleet.Added, m.ctx
	return func() tea.Msg {
		if !sleep.For(ctx, after) {
			return nil
		}
		contexts, problems := backend.Contexts(added)
		return contextsMsg{contexts, problems, len(added)}
	}
}

// contextsMsg has the contexts in the kubeconfig files.
type contextsMsg struct {
	contexts []session.Context
	problems []error
	added    int // how many of the files were added by the admin
}

func (m Model) updateContexts(msg contextsMsg) (Model, tea.Cmd) {
	m, msg = m.added(msg)
	var gone []session.Member
	m.fleet, gone = m.fleet.Relist(msg.contexts, m.wizard.Works)
	m.fleet.Problems, m.fleet.Listed, m.fleet.Listing = msg.problems, m.clock, false
	var cmds []tea.Cmd
	for _, c := range gone {
		if c.Watch.On() {
			cmds = append(cmds, c.Watch.Stop)
		}
		if c.Cluster != nil {
			cmds = append(cmds, closing(c.Cluster))
		}
	}
	m.dashboard.Know(m.fleet)
	m, cmd := m.greet()
	return m, tea.Batch(append(cmds, cmd)...)
}

// rewatch opens the clusters on the screen again and observes them, because the
// kubeconfig may have been the problem.
func (m Model) rewatch() (Model, tea.Cmd) {
	var cmds []tea.Cmd
	for _, known := range m.fleet.Members {
		c := *known
		if !c.Watch.On() {
			continue
		}
		cmds = append(cmds, c.Watch.Stop)
		if c.Cluster != nil {
			cmds = append(cmds, closing(c.Cluster))
		}
		c.Watch, c.Cluster = session.Watch{}, nil
		m.fleet = m.fleet.With(c)
	}
	return m, tea.Batch(cmds...)
}
