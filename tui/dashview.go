package tui

import (
	"fmt"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
)

// From this size on the detail stands beside the list.
const (
	twoPanesWidth  = 120
	twoPanesHeight = 30
)

func (m Model) twoPanes() bool {
	return m.screen == screenDashboard && !m.dashboard.wide && m.width >= twoPanesWidth && m.height >= twoPanesHeight && m.dashboard.list.current() != nil
}

func (m Model) listWidth() int {
	if m.twoPanes() {
		return m.width * 52 / 100
	}
	return m.width
}

// listLayout is where the list has its parts.
func (m Model) listLayout() listLayout {
	height := m.bodyHeight() - len(m.dashboardTop())
	return m.dashboard.list.layout(m.theme, m.listWidth(), max(0, height), m.dashboard.wide)
}

// dashboardTop is what stands above the list.
func (m Model) dashboardTop() []string {
	d, t := m.dashboard, m.theme
	var top []string
	if d.filtering {
		const label = "filter: "
		top = append(top, t.label.Render(label)+d.filter.view(t, m.width-len(label), true))
	}
	for _, err := range m.fleet.problems {
		top = append(top, t.marks[markFail].Render(t.plain(t.glyphs[markFail]+" "+err.Error())))
	}
	return top
}

func (m Model) dashboardBody(height int) []string {
	if m.screen == screenDetail {
		return m.paneLines()
	}
	d, t, top := m.dashboard, m.theme, m.dashboardTop()
	left := d.list.view(t, m.listWidth(), height-len(top), d.wide)
	if !m.twoPanes() {
		return append(top, left...)
	}
	width := m.listWidth()
	right := m.detailOf(d.list.current()).lines(m.width - width - 3)
	lines := top
	for i := range height - len(top) {
		lines = append(lines, pad(t.fit(at(left, i), width), width)+" "+t.faint.Render(t.bar)+" "+at(right, i))
	}
	return lines
}

func (m Model) detailOf(p *peering) detail {
	d := detail{t: m.theme, now: m.dashboard.board.now, p: p, log: &m.dashboard.board.log, names: m.dashboard.board.names(p.id)}
	for i := range p.ends {
		d.peers[i] = m.objectsOf(p, flows.Side(i))
	}
	if refs, _ := m.contextsOf(p); m.live.verify.pair == refs && m.pair == refs {
		d.measured = m.verifyText
	}
	return d
}

// dashboardTitle says what is shown, and whether it is live.
func (m Model) dashboardTitle() string {
	t, d := m.theme, m.dashboard
	title := t.title.Render("Peerings")
	if p := m.subject(); m.screen == screenDetail && p != nil && d.page != pageAllEvents {
		title += t.faint.Render(" "+t.into+" ") + t.side(flows.A, string(p.ends[0].id), 0) + " " + t.between + " " + t.side(flows.B, string(p.ends[1].id), 0)
	}
	if m.screen == screenDetail && d.page != pageOverview {
		title += t.faint.Render(" "+t.into+" ") + d.page.String()
	}
	if !d.paused.IsZero() {
		return title + "  " + t.marks[markWarn].Render("paused at "+d.paused.Format(time.TimeOnly))
	}
	if m.screen == screenDetail {
		return title
	}
	return title + "  " + t.faint.Render(counted(len(d.board.sources), "context")+", by "+d.board.order.by.String()+t.sorted[map[bool]int{false: 0, true: 1}[d.board.order.reverse]])
}

// dashboardGist is the state of all peerings in a few words.
func (m Model) dashboardGist() string {
	var n [markUnknown + 1]int
	for s, count := range m.dashboard.board.counts {
		n[peeringState(s).mark()] += count
	}
	return fmt.Sprintf("%d ok %d warn %d fail %d other", n[markOK], n[markWarn], n[markFail], n[markPending]+n[markRunning]+n[markUnknown])
}
