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

// isLow reports whether the terminal is so low that rows need every line.
func isLow(e session.Env) bool { return e.Height < 20 }

// body returns the height of a screen without a note. A note covers the last lines for a time, and
// nothing else moves.
func body(e session.Env) int { return max(0, e.Height-session.FrameLines) }

// paneHeight is how many lines the pane below the list has, with the rule above it; 0: there
// is none. What the list has no use for is the pane's.
func (s Screen) paneHeight(e session.Env) int {
	height := body(e) - len(s.top(e))
	if s.Detail || s.wide || s.list.current() == nil {
		return 0
	}
	list, most := len(s.Board.List)+4, height-belowLines // with space, titles, space, the latest event
	if e.Height >= belowHeight {
		most = int(float64(height) * listShare)
	}
	if list <= most { // of many rows the head has no say, and takes its time
		list += len(s.list.head(e.Theme, e.Width, isLow(e)))
	}
	if e.Height >= belowHeight {
		list = min(list, most)
	}
	list = max(aroundRows, list+s.resized)
	if pane := height - list; pane >= belowLines {
		return pane
	}
	return 0
}

// listHeight is how many lines the list has below what stands above it.
func (s Screen) listHeight(e session.Env) int {
	return max(0, body(e)-len(s.top(e))-s.paneHeight(e))
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
	return s.list.layout(e, s.listHeight(e), s.wide)
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
		text.ID, text.Cursor = id+string(s.from), 1+s.matrix(e).line
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
	lines := append(s.top(e), s.list.view(e, s.listHeight(e), s.wide)...)
	pane := s.paneHeight(e)
	if room := s.listHeight(e) - len(lines) - 1; len(s.Board.Rows) == 0 && len(s.Board.sources) > 0 && room > 1 {
		return append(append(lines, ""), cut(e.Theme, s.contextsText(e), room, e.Keys.Info)...)
	}
	if pane == 0 {
		return lines
	}
	for len(lines) < body(e)-pane {
		lines = append(lines, "")
	}
	return append(lines, s.pane(e, s.list.current(), pane)...)
}

// pane is so many lines about a peering, with the rule above them.
func (s Screen) pane(e session.Env, p *peering, height int) []string {
	d := s.detailOf(e, p)
	d.pane = true
	names := string(p.ends[0].ID) + " " + e.Theme.Between + " " + string(p.ends[1].ID)
	return append([]string{e.Theme.RuleLine(names, e.Width)}, cut(e.Theme, d.lines(e.Width, height-1), height-1, e.Keys.Enter)...)
}

// cut cuts lines to a height. The last line then names the key that shows all lines.
func cut(t draw.Theme, lines []string, height int, shows key.Binding) []string {
	if len(lines) <= height || height < 1 {
		return lines
	}
	more := fmt.Sprintf("%d more lines: %s", len(lines)-height+1, keys.Called(shows))
	return append(lines[:height-1:height-1], t.Faint.Render(more))
}

func (s Screen) detailOf(e session.Env, p *peering) detail {
	d := detail{t: e.Theme, now: s.Board.now, p: p, log: &s.Board.Log, names: s.Board.names(p.ID), began: s.Board.began, absence: s.Board.absence()}
	for i := range p.ends {
		d.peers[i] = s.objectsOf(e, p, flows.Side(i))
		d.lendings[i] = view.Lendings(s.clusterOf(e, p, flows.Side(i)), p.ends[1-i].ID)
	}
	if refs, missing := s.contextsOf(p); missing == "" {
		d.measured = func(width int) []string {
			return e.Verified.Lines(e.Theme, refs, p.verdict(), e.Now, draw.Minutes, width)
		}
	}
	return d
}

// Heading is the line above the screen.
func (s Screen) Heading(e session.Env) string { return e.Theme.RuleLine("", e.Width) }

// Progress returns the time, to the minute, so that the screen changes at most once a minute because of
// it.
func (s Screen) Progress(e session.Env) string { return e.Theme.Faint.Render(e.Now.Format("15:04")) }

// Title returns the subject of the screen, and whether it is live.
func (s Screen) Title(e session.Env) string {
	t := e.Theme
	title := t.Title.Render("Peerings")
	if p := s.Subject(); s.Detail && p != nil && !s.page.ofAll() {
		title += t.Faint.Render(" "+t.Into+" ") + t.Side(flows.A, string(p.ends[0].ID), 0) + " " + t.Between + " " + t.Side(flows.B, string(p.ends[1].ID), 0)
	}
	if s.Detail && s.page != pageOverview {
		title += t.Faint.Render(" "+t.Into+" ") + s.page.String()
	}
	if !s.paused.IsZero() {
		return title + "  " + t.Marks[draw.Warn].Render("paused at "+s.paused.Format(time.TimeOnly))
	}
	if s.Detail {
		return title
	}
	return title + "  " + t.Faint.Render(draw.Counted(len(s.Board.sources), "context")+", by "+s.Board.Order.By.String()+s.Board.Order.mark(t))
}

// Gist returns the number of connections in each state.
func (s Screen) Gist(session.Env) string {
	var each []string
	for state, count := range s.Board.counts {
		if count > 0 {
			each = append(each, fmt.Sprintf("%d %s", count, view.PairState(state)))
		}
	}
	return cmp.Or(strings.Join(each, ", "), "no peerings")
}

// Summary returns the text for the terminal after the end of the program.
func (s Screen) Summary(e session.Env) string {
	return cmp.Or(s.copied, fmt.Sprintf("%s: %s", draw.Counted(len(s.Board.Rows), "peering"), s.Gist(e)))
}
