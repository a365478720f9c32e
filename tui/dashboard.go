package tui

import (
	"fmt"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/render"
)

// dashboardScreen is the peerings of many clusters: the list of them, and the
// pages about one of them.
type dashboardScreen struct {
	open bool // it was shown, and goes on behind other screens
	// visiting is set while another screen shows the selected peering: back
	// leads here again.
	visiting bool

	chosen    map[flows.ContextRef]bool // contexts that were asked for; nil: all
	board     *board
	list      peeringList
	filter    line
	filtering bool // keys go into the filter
	wide      bool // the list has all of the screen

	page page
	text []string // of a page that is made anew only when there is reason to
	logs logsMsg  // the latest
	// earlier are the facts from when the diagnosis was opened: what has changed
	// since then tells which way packets move.
	earlier   flows.Facts
	allChecks bool // those that passed, too

	paused time.Time // since when; zero: it is live
	kept   []news    // that came meanwhile
}

// page is what is shown of the selected peering.
type page uint8

const (
	pageOverview page = iota
	pageEvents        // of this peering
	pageAllEvents
	pageYAML
	pageLogs
	pageDiagnosis
)

func (p page) String() string {
	return [...]string{"details", "events", "all events", "YAML", "logs", "diagnosis"}[p]
}

// newDashboard shows the chosen contexts; none stands for all that there are.
func newDashboard(chosen []flows.ContextRef, now time.Time) dashboardScreen {
	b := newBoard(chosen, now)
	d := dashboardScreen{board: b, list: peeringList{board: b}}
	for _, ref := range chosen {
		if d.chosen == nil {
			d.chosen = map[flows.ContextRef]bool{}
		}
		d.chosen[ref] = true
	}
	return d
}

// dashboardContexts are those that were asked for, or all there are.
func (m Model) dashboardContexts() []flows.ContextRef {
	if len(m.options.Contexts) > 0 {
		return m.options.Contexts
	}
	refs := make([]flows.ContextRef, len(m.fleet.members))
	for i, c := range m.fleet.members {
		refs[i] = c.Ref
	}
	return refs
}

// subject is the peering that keys are about: the selected row, or the one that
// the page is of, wherever that is in the list; nil when there is none, or no more.
func (m Model) subject() *peering {
	d := m.dashboard
	if m.screen == screenDashboard || !d.list.held {
		return d.list.current()
	}
	return d.board.rows[d.list.selected]
}

// contextsOf are those of both sides; missing is the cluster that has none.
func (m Model) contextsOf(p *peering) (refs [2]flows.ContextRef, missing render.ClusterID) {
	b := m.dashboard.board
	for i, e := range p.ends {
		if !e.chosen {
			missing = e.id
			continue
		}
		refs[i] = b.sources[b.owner[e.id]].ref
	}
	return refs, missing
}

// take makes the selected peering the pair that is worked on; ok is false if
// one of its clusters is not at hand.
func (m Model) take() (_ Model, ok bool) {
	refs, missing := m.contextsOf(m.subject())
	if missing != "" {
		m.note = fmt.Sprintf("This needs both clusters, and %s is not among the dashboard's contexts.", missing)
		return m, false
	}
	m.pair = refs
	return m, true
}

// visit shows the selected peering on a screen for two clusters.
func (m Model) visit(show func(Model) Model) Model {
	m, ok := m.take()
	if !ok {
		return m
	}
	m.dashboard.visiting, m.dashboard.open = true, true
	return show(m)
}

// verifyPeering sends packets from pod to pod, and shows what comes of it.
func (m Model) verifyPeering() (Model, tea.Cmd) {
	m, ok := m.take()
	if !ok {
		return m, nil
	}
	m, turning := m.turnTo(pageOverview)
	m, measuring := m.verify()
	return m, tea.Batch(turning, measuring)
}

// objectsOf are what a side has of a peering; nil if its cluster is not one of
// the dashboard's.
func (m Model) objectsOf(p *peering, s flows.Side) *flows.Peer {
	e := p.ends[s]
	if !e.chosen {
		return nil
	}
	b := m.dashboard.board
	peer := m.fleet.member(b.sources[b.owner[e.id]].ref).good.Peer(p.ends[s.Other()].id)
	return &peer
}
