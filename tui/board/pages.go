package board

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/view"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/apply"
	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/keys"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// turnTo shows a page about the selected connection, and keeps this connection selected.
func (s Screen) turnTo(e session.Env, p page) (Screen, tea.Cmd) {
	if p := s.Subject(); p != nil {
		s.list.held, s.list.selected = true, p.ID
	}
	s.direct = p != pageOverview && (s.direct || !s.Detail)
	s.Detail, s.page, s.text, s.logs = true, p, nil, logsMsg{}
	s.find, s.filtering = keys.Line{}, false
	subject := s.Subject()
	switch {
	case subject == nil:
	case p == pageOverview:
		return s.openHistory(e)
	case p == pageDiagnosis:
		s.look(e, subject)
	case p == pageLogs:
		s.text = []string{"Reading" + e.Theme.Ellipsis}
		return s, s.readLogs(e, 0)
	case p == pageServices, p == pageService:
		return s.openServices(e)
	}
	return s.renewPage(e), nil
}

// renewPage makes the text of a page again. It does so only for long texts that seldom change,
// and only after a change: of the objects, of the logs, or of the width.
func (s Screen) renewPage(e session.Env) Screen {
	p := s.Subject()
	switch {
	case !s.Detail || p == nil:
	case s.page == pageYAML:
		s.text = s.yamlText(e, p)
	case s.page == pageLogs && s.logs.id == p.ID:
		s.text = s.logText(e, p)
	}
	return s
}

// leavePage goes back: from found lines to all lines of the page, from the page to the
// overview if the page was opened there, and from there to the list.
func (s Screen) leavePage(e session.Env) (Screen, tea.Cmd) {
	if s.find.String() != "" {
		s.find = keys.Line{}
		return s, nil
	}
	if s.page == pageService {
		return s.turnTo(e, pageServices)
	}
	if !s.direct && s.page != pageOverview && !s.page.ofAll() {
		return s.turnTo(e, pageOverview)
	}
	if s.lent {
		e.Post(session.ReturnMsg{})
	}
	s.Detail, s.lent = false, false
	return s, nil
}

// factsOf returns the facts of both clusters of a connection for a diagnosis. A cluster that
// does not answer now keeps the identity that it had before.
func (s Screen) factsOf(e session.Env, p *peering) flows.Facts {
	refs, _ := s.contextsOf(p)
	f := flows.Facts{Sides: [2]flows.ClusterFacts{e.Fleet.Member(refs[0]).Latest, e.Fleet.Member(refs[1]).Latest}, At: e.Now}
	f.Sides[flows.A].ID, f.Sides[flows.B].ID = p.ends[0].ID, p.ends[1].ID
	return f
}

func (s Screen) pageText(e session.Env) []string {
	p := s.Subject()
	switch {
	case s.page == pageAllEvents:
		return s.eventsText(e, s.Board.List, func(event) bool { return true })
	case s.page == pageContexts:
		return s.contextsText(e)
	case s.page == pageMatrix:
		return s.matrixText(e)
	case p == nil:
		return e.Theme.Wrap("Nothing is known of this peering, or no more.", e.Width, 0)
	case s.page == pageEvents:
		return s.eventsText(e, []*peering{p}, func(ev event) bool { return ev.id == p.ID })
	case s.page == pageYAML, s.page == pageLogs:
		return s.text
	case s.page == pageDiagnosis:
		return s.diagnosisText(e, p)
	case s.page == pageServices:
		return s.servicesText(e, p)
	case s.page == pageService:
		return s.serviceText(e, p)
	}
	return s.detailOf(e, p).lines(e.Width, e.Room())
}

// found returns the lines of a page that contain the text of the search, below the search
// itself.
func (s Screen) found(e session.Env, lines []string) []string {
	text := strings.ToLower(s.find.String())
	if !s.filtering && text == "" {
		return lines
	}
	t := e.Theme
	var found []string
	lines = slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return strings.TrimSpace(ansi.Strip(line)) == "" })
	for _, line := range lines {
		if strings.Contains(strings.ToLower(ansi.Strip(line)), text) {
			found = append(found, line)
		}
	}
	count := fmt.Sprintf("%d of %s  ", len(found), draw.Counted(len(lines), "line"))
	const label = "search: "
	head := t.Faint.Render(count) + t.Label.Render(label) + s.find.View(t, max(1, e.Width-len(count)-len(label)), s.filtering)
	if len(found) == 0 {
		found = []string{t.Faint.Render("No line has this text.")}
	}
	return append([]string{head}, found...)
}

// peersOf returns a line for each connection of a cluster, with its state.
func (b *board) peersOf(t draw.Theme, id wire.ClusterID) []string {
	states := map[string]view.PairState{}
	for _, p := range b.Rows {
		for i, end := range p.ends {
			if end.ID == id && id != "" {
				states[string(p.ends[1-i].ID)] = p.State
			}
		}
	}
	var peers []string
	for _, name := range slices.Sorted(maps.Keys(states)) {
		peers = append(peers, t.State(draw.PairMarks[states[name]], t.Middle(name, mostName), 0))
	}
	return peers
}

// contextsText returns the observed contexts.
func (s Screen) contextsText(e session.Env) []string {
	t, b := s.theme(e), s.Board
	if len(b.sources) == 0 {
		return t.Wrap(b.nothing(), e.Width, 0)
	}
	lines := s.contextRows(t, e, t.Inside(e.Width))
	return t.Stack(e.Width, e.Room(), []draw.Panel{{Title: t.Title.Render("Contexts"), Lines: lines, Grows: true}})
}

// contextRows returns the observed contexts as a table of width cells, with those that don't answer first.
func (s Screen) contextRows(t draw.Theme, e session.Env, width int) []string {
	b := s.Board
	sources := slices.Clone(b.sources)
	rank := func(x source) int {
		switch {
		case !x.silent.IsZero():
			return 0
		case !x.asked:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(sources, func(x, y source) int { return rank(x) - rank(y) })
	var rows [][]string
	why := make([]string, len(sources))
	for i, x := range sources {
		mark, word := draw.OK, string(x.ID)
		switch {
		case !x.silent.IsZero():
			mark, word = draw.Unknown, x.word+" for "+draw.Short(b.now.Sub(x.silent))
			why[i] = strings.Replace(x.problem, " (context "+x.ref.String()+")", "", 1) // the row begins with the context
		case !x.asked:
			mark, word = draw.Running, "was asked, and has not answered yet"
		case x.ID == "":
			mark, word, why[i] = draw.Pending, "nothing is installed", keys.Called(e.Keys.Connect)+" on the list connects it"
		}
		rows = append(rows, []string{
			t.Middle(t.Plain(x.ref.String()), width/3), t.State(mark, word, 0), t.Plain(e.Fleet.Member(x.ref).Good.Version), strings.Join(b.peersOf(t, x.ID), "  "),
		})
	}
	lines := columned([]string{"CONTEXT", "STATE", "KUBERNETES", "CONNECTIONS"}, rows)
	lines[0] = t.Faint.Render(lines[0])
	text := lines[:1]
	for i, line := range lines[1:] {
		text = append(slices.Clip(text), line)
		if why[i] != "" {
			for _, clause := range t.Clauses(why[i], width-pointerCells) {
				text = append(text, "  "+clause)
			}
		}
	}
	return text
}

// columned returns titles and rows as lines with columns. The last column is as wide as it wants.
func columned(titles []string, rows [][]string) []string {
	all := append([][]string{titles}, rows...)
	widths := make([]int, len(titles))
	for _, row := range all {
		for i, cell := range row[:len(row)-1] {
			widths[i] = max(widths[i], draw.Cells(cell)+columnGap)
		}
	}
	lines := make([]string, len(all))
	for n, row := range all {
		for i, cell := range row {
			lines[n] += draw.Pad(cell, widths[i])
		}
	}
	return lines
}

// yamlText returns all objects of the connection, from each cluster.
func (s Screen) yamlText(e session.Env, p *peering) []string {
	var lines []string
	for _, side := range []flows.Side{flows.A, flows.B} {
		end := s.objectsOf(e, p, side)
		heading := e.Theme.Sides[side].Render(e.Theme.RuleLine(string(p.ends[side].ID), e.Width))
		if end == nil {
			lines = append(lines, heading, s.Board.absence(), "")
			continue
		}
		text, err := apply.LiveYAML(end.Objects()...)
		if err != nil {
			text = []byte(err.Error())
		}
		lines = append(lines, heading)
		for line := range strings.Lines(string(text)) {
			lines = append(lines, e.Theme.Wrap(strings.TrimRight(line, "\n"), e.Width, 6)...)
		}
		lines = append(lines, "")
	}
	return lines
}
