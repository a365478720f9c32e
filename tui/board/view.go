package board

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/view"
	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/keys"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// The detail of the selected row is below the list on a terminal with at least belowHeight lines, and
// wherever the rows leave belowLines lines free.
const (
	belowHeight = 34
	belowLines  = 8
	// listShare is the largest part of a high terminal for the list. aroundRows is the smallest number
	// of lines for the list if there is a detail.
	listShare  = 2.0 / 5
	aroundRows = 10
)

// body returns the height of a screen without a note. A note covers the last lines for a time, and
// nothing else moves.
func body(e session.Env) int { return max(0, e.Height-session.FrameLines) }

// framed returns the program around the text of the list: with frames, its panel takes a part of the size.
func framed(e session.Env) session.Env {
	e.Theme = e.Theme.Framed(e.Width, e.Height)
	e.Width = e.Theme.Inside(e.Width)
	return e
}

// edges returns the number of lines around the list.
func edges(e session.Env) int {
	if t := e.Theme.Framed(e.Width, e.Height); t.Frames() {
		return t.Edges()
	}
	return 0
}

// paneHeight returns the number of lines of the pane below the list, including the rule above it; 0
// means no pane. The pane gets the lines that the list does not need.
func (s Screen) paneHeight(e session.Env) int {
	height := body(e) - len(s.top(e)) - s.eventsHeight(e)
	if s.Detail || s.wide || s.list.current() == nil {
		return 0
	}
	inner, least := framed(e), aroundRows
	list, most := len(s.Board.List)+4, height-belowLines // with a space, the titles, a space, and the latest event
	if inner.Theme.Frames() {
		list = len(s.Board.List) + 1 + edges(e)
		least = min(least, list)
	}
	if e.Height >= belowHeight {
		most = int(float64(height) * listShare)
	}
	if list <= most { // with many rows, the head does not matter, and it takes long to make
		list += len(s.list.head(inner.Theme, inner.Width))
	}
	if e.Height >= belowHeight {
		list = min(list, most)
	}
	list = max(least, list+s.resized)
	if pane := height - list; pane >= belowLines {
		return pane
	}
	return 0
}

// eventsHeight returns the number of lines of the panel with the latest events of all connections. If there is no
// detail, they get the lines that the list does not need.
func (s Screen) eventsHeight(e session.Env) int {
	n, most := len(s.Board.Log.Events), 0
	if s.Detail || n == 0 || edges(e) == 0 {
		return 0
	}
	if e.Height >= belowHeight {
		most = max(fewEvents, (e.Height-belowHeight)/3) //nolint:mnd // a third of what a low terminal does not have
	}
	if s.wide {
		inner := framed(e)
		list := len(s.Board.List) + 1 + edges(e) + len(s.list.head(inner.Theme, inner.Width))
		most = max(most, body(e)-len(s.top(e))-list-edges(e))
	}
	if most == 0 {
		return 0
	}
	return edges(e) + min(n, most)
}

// fewEvents is the number of events below the list on a terminal of usual height.
const fewEvents = 2

// listHeight returns the number of lines for the list with its frame, without the lines above it.
func (s Screen) listHeight(e session.Env) int {
	return max(0, body(e)-len(s.top(e))-s.paneHeight(e)-s.eventsHeight(e))
}

// resize moves the border between the list and the pane by a number of lines.
func (s Screen) resize(e session.Env, by int) Screen {
	before := s.paneHeight(e)
	s.resized += by
	if after := s.paneHeight(e); before == 0 || after == before || after == 0 {
		s.resized -= by
		e.Post(session.NoteMsg("There is no room for that."))
	}
	return s
}

func (s Screen) layout(e session.Env) listLayout {
	return s.list.layout(framed(e), s.listHeight(e)-edges(e), s.wide)
}

func (s Screen) top(e session.Env) []string {
	t := e.Theme
	var top []string
	if s.filtering || s.filter.String() != "" {
		const label = "filter: "
		count := fmt.Sprintf("%d of %d  ", len(s.Board.List), len(s.Board.Rows))
		text := s.filter.View(t, max(1, e.Width-len(count)-len(label)), s.filtering)
		top = append(top, t.Faint.Render(count)+t.Label.Render(label)+text)
	}
	for _, err := range e.Fleet.Problems {
		top = append(top, t.Marks[draw.Fail].Render(t.Plain(t.Glyphs[draw.Fail]+" "+err.Error())))
	}
	return top
}

// Text returns the text of a page, which scrolls.
func (s Screen) Text(e session.Env) session.Text {
	if !s.Detail {
		return session.Text{}
	}
	id := fmt.Sprint("page ", s.page, s.list.selected, s.find.String())
	text := session.Text{ID: id, Lines: s.found(e, s.pageText(e)), Height: e.Room(), Tail: s.page == pageLogs}
	if s.page == pageMatrix && s.find.String() == "" {
		text.ID, text.Cursor = id+string(s.from), 2+s.matrix(e).line
	}
	return text
}

// Follow keeps the selected row in its line while other rows move.
func (s Screen) Follow(e session.Env) Screen {
	if !s.Detail {
		s.list = s.list.follow(s.layout(e).rows)
	}
	return s
}

// View draws a page, or the list. If there is room, the detail of the selected row is below the list.
func (s Screen) View(e session.Env) []string {
	if s.Detail {
		return e.Pane()
	}
	if edges(e) > 0 {
		return s.panels(e)
	}
	lines := append(s.top(e), s.list.view(e, s.listHeight(e), s.wide)...)
	pane := s.paneHeight(e)
	if room := s.listHeight(e) - len(lines) - 1; len(s.Board.Rows) == 0 && len(s.Board.sources) > 0 && room > 1 {
		return append(append(lines, ""), cut(e.Theme, s.contextRows(e.Theme, e, e.Width), room, e.Keys.Info)...)
	}
	if pane == 0 {
		return lines
	}
	for len(lines) < body(e)-pane {
		lines = append(lines, "")
	}
	return append(lines, s.pane(e, s.list.current(), pane)...)
}

// panels draws the list, the detail of the selected row and the latest events in frames.
func (s Screen) panels(e session.Env) []string {
	inner := framed(e)
	t, height := inner.Theme, s.listHeight(e)
	text := s.list.view(inner, height-edges(e), s.wide)
	if room := height - edges(e) - len(text) - 1; len(s.Board.Rows) == 0 && len(s.Board.sources) > 0 && room > 1 {
		text = append(append(text, ""), cut(t, s.contextRows(t, inner, inner.Width), room, e.Keys.Info)...)
	}
	order := t.Faint.Render("by " + s.Board.Order.By.String() + s.Board.Order.mark(t))
	lines := append(s.top(e), t.Panel(draw.Panel{Title: t.Title.Render("Connections"), Right: order, Lines: text}, e.Width, height)...)
	if pane := s.paneHeight(e); pane > 0 {
		below := s.pane(e, s.list.current(), pane)
		for len(below) < pane {
			below = append(below, "")
		}
		lines = append(lines, below...)
	}
	if events := s.eventsHeight(e); events > 0 {
		text := s.Board.latestEvents(t, inner.Width, events-edges(e))
		lines = append(lines, t.Panel(draw.Panel{Title: t.Title.Render("Events"), Right: t.Faint.Render(keys.Called(e.Keys.AllEvents)), Lines: text}, e.Width, events)...)
	}
	return lines
}

// pane returns at most height lines about a connection. Without frames, they begin with a rule.
func (s Screen) pane(e session.Env, p *peering, height int) []string {
	d := s.detailOf(e, p)
	d.pane = true
	switch {
	case d.t.Frames() && height >= wholeDetail:
		return d.lines(e.Width, height)
	case d.t.Frames():
		return d.summary(e.Width, height)
	}
	return append([]string{e.Theme.RuleLine(p.title(e.Theme), e.Width)}, cut(e.Theme, d.lines(e.Width, height-1), height-1, e.Keys.Enter)...)
}

// cut cuts lines to a height. The last line then names the key that shows all lines.
func cut(t draw.Theme, lines []string, height int, shows key.Binding) []string {
	if len(lines) <= height || height < 1 {
		return lines
	}
	more := fmt.Sprintf("%d more lines: %s", len(lines)-height+1, keys.Called(shows))
	return append(lines[:height-1:height-1], t.Faint.Render(more))
}

// wholeDetail is the height from which on the pane has the panels of the detail.
const wholeDetail = 32

func (s Screen) detailOf(e session.Env, p *peering) detail {
	d := detail{t: s.theme(e), now: s.Board.now, p: p, board: s.Board, log: &s.Board.Log, began: s.Board.began, absence: s.Board.absence()}
	for i := range p.ends {
		d.peers[i] = s.objectsOf(e, p, flows.Side(i))
		d.lendings[i] = view.Lendings(s.clusterOf(e, p, flows.Side(i)), p.ends[1-i].ID)
	}
	if s.recorded.of == p.ID {
		d.recorded = s.recorded
	}
	if refs, missing := s.contextsOf(p); missing == "" {
		d.measured = func(width int) []string {
			return e.Verified.Lines(e, refs, p.verdict(), width)
		}
	}
	return d
}

// Heading returns the line above the screen. With frames, it is the number of rows in each state.
func (s Screen) Heading(e session.Env) string {
	if s.Detail || edges(e) == 0 {
		return e.Theme.RuleLine("", e.Width)
	}
	left, right := strings.Join(s.list.counts(e.Theme), "   "), e.Theme.Faint.Render(s.Board.traffic())
	if room := e.Width - draw.Cells(right) - 3; draw.Cells(left) <= room { //nolint:mnd // a space at both ends, and one between
		return " " + draw.Pad(left, e.Width-draw.Cells(right)-2) + right
	}
	return " " + left
}

// Progress returns the time, to the minute, so that the screen changes at most once a minute because of
// it.
func (s Screen) Progress(e session.Env) string { return e.Theme.Faint.Render(e.Now.Format("15:04")) }

// Title returns the subject of the screen, and whether it is live.
func (s Screen) Title(e session.Env) string {
	t := e.Theme
	title := t.Title.Render("Connections")
	if p := s.Subject(); s.Detail && p != nil && !s.page.ofAll() {
		first, second := p.order()
		name := func(side flows.Side) string { return t.Sides[side].Render(t.Plain(string(p.ends[side].ID))) }
		title += t.Faint.Render(" "+t.Into+" ") + name(first) + " " + t.To + " " + name(second)
	}
	if s.Detail && s.page != pageOverview {
		title += t.Faint.Render(" "+t.Into+" ") + s.pageName(e.Theme)
	}
	if !s.paused.IsZero() {
		return title + "  " + t.Marks[draw.Warn].Render("paused at "+s.paused.Format(time.TimeOnly))
	}
	if s.Detail {
		return title
	}
	facts := draw.Counted(len(s.Board.sources), "context")
	if edges(e) == 0 {
		facts += ", by " + s.Board.Order.By.String() + s.Board.Order.mark(t)
	}
	return title + "  " + t.Faint.Render(facts)
}

// pageName returns the name of the shown page.
func (s Screen) pageName(t draw.Theme) string {
	if s.page == pageService {
		return s.page.String() + " " + t.Plain(s.sharing.selected.String())
	}
	return s.page.String()
}

// Gist returns the number of connections in each state.
func (s Screen) Gist(session.Env) string {
	var each []string
	for state, count := range s.Board.counts {
		if count > 0 {
			each = append(each, fmt.Sprintf("%d %s", count, view.PairState(state)))
		}
	}
	return cmp.Or(strings.Join(each, ", "), "no connections")
}

// Summary returns the text for the terminal after the end of the program.
func (s Screen) Summary(e session.Env) string {
	return cmp.Or(s.copied, fmt.Sprintf("%s: %s", draw.Counted(len(s.Board.Rows), "connection"), s.Gist(e)))
}
