package tui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/render"
)

// turnTo shows a page about the selected peering, and holds on to it.
func (m Model) turnTo(p page) (Model, tea.Cmd) {
	d := &m.dashboard
	if p := m.subject(); p != nil {
		d.list.held, d.list.selected = true, p.id
	}
	m.screen, d.page, d.text, d.logs = screenDetail, p, nil, logsMsg{}
	subject := m.subject()
	switch {
	case subject == nil:
	case p == pageDiagnosis:
		d.earlier = m.factsOf(subject)
	case p == pageLogs:
		d.text = []string{"Reading" + m.theme.ellipsis}
		return m, m.readLogs(0)
	}
	return m.renewPage(), nil
}

// renewPage makes the text of a page again, of those that are long and seldom
// change: when its objects have, when there are new logs, or for another width.
func (m Model) renewPage() Model {
	d := &m.dashboard
	p := m.subject()
	switch {
	case m.screen != screenDetail || p == nil:
	case d.page == pageYAML:
		d.text = m.yamlText(p)
	case d.page == pageLogs && d.logs.id == p.id:
		d.text = m.logText(p, d.logs)
	}
	return m
}

// renewYAML is for news of a cluster. What is paused stays.
func (m Model) renewYAML(ref flows.ContextRef) Model {
	p := m.subject()
	if m.screen != screenDetail || m.dashboard.page != pageYAML || p == nil || !m.dashboard.paused.IsZero() {
		return m
	}
	if refs, _ := m.contextsOf(p); refs[flows.A] == ref || refs[flows.B] == ref {
		return m.renewPage()
	}
	return m
}

func (m Model) leavePage() (Model, tea.Cmd) {
	if m.dashboard.page != pageOverview && m.dashboard.page != pageAllEvents {
		return m.turnTo(pageOverview)
	}
	m.screen = screenDashboard
	return m, nil
}

// factsOf are those of both clusters of a peering, as a diagnosis needs them.
func (m Model) factsOf(p *peering) flows.Facts {
	refs, _ := m.contextsOf(p)
	return flows.Facts{Local: m.fleet.member(refs[0]).latest, Remote: m.fleet.member(refs[1]).latest, At: m.clock}
}

func (m Model) diagnosisText(p *peering) []string {
	_, missing := m.contextsOf(p)
	ids := [2]render.ClusterID{p.ends[0].id, p.ends[1].id}
	results := diagnosed(m.factsOf(p), m.dashboard.earlier)
	if missing == "" {
		return m.diagnosisLines(results, ids)
	}
	results = slices.DeleteFunc(results, func(r check.Result) bool {
		return len(r.Sides) != 1 || ids[r.Sides[0]] == missing
	})
	lines := m.theme.wrap(fmt.Sprintf("%s is not among the contexts: only what the other side knows by itself could be checked.", missing), m.width, 0)
	return append(append(lines, ""), m.diagnosisLines(results, ids)...)
}

// pageText is what the pane shows.
func (m Model) pageText() []string {
	d, t := m.dashboard, m.theme
	p := m.subject()
	switch {
	case d.page == pageAllEvents:
		return m.eventsText(func(event) bool { return true })
	case p == nil:
		return t.wrap("This peering is gone.", m.width, 0)
	case d.page == pageEvents:
		return m.eventsText(func(e event) bool { return e.id == p.id })
	case d.page == pageYAML, d.page == pageLogs:
		return d.text
	case d.page == pageDiagnosis:
		return m.diagnosisText(p)
	}
	return m.detailOf(p).lines(m.width)
}

// eventsText are the latest events first.
func (m Model) eventsText(keep func(event) bool) []string {
	b := m.dashboard.board
	all := b.log.all(keep)
	if len(all) == 0 {
		return m.theme.wrap("Nothing has happened since the dashboard began to watch, at "+b.began.Format(time.DateTime)+".", m.width, 0)
	}
	var lines []string
	for _, e := range slices.Backward(all) {
		lines = append(lines, m.theme.eventLines(e, b.names(e.id), m.width)...)
	}
	return append(lines, "", m.theme.faint.Render("watching since "+b.began.Format(time.DateTime)))
}

// yamlText is every object of the peering, as each cluster has it.
func (m Model) yamlText(p *peering) []string {
	var lines []string
	for _, s := range []flows.Side{flows.A, flows.B} {
		peer := m.objectsOf(p, s)
		heading := m.theme.title.Render(m.theme.side(s, string(p.ends[s].id), 0))
		if peer == nil {
			lines = append(lines, heading+"  not among the contexts", "")
			continue
		}
		text, err := render.LiveYAML(peer.Objects()...)
		if err != nil {
			text = []byte(err.Error())
		}
		lines = append(lines, heading)
		for line := range strings.Lines(string(text)) {
			lines = append(lines, m.theme.wrap(strings.TrimRight(line, "\n"), m.width, 6)...)
		}
		lines = append(lines, "")
	}
	return lines
}
