package board

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/view"
	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// peeringList is the part of a board's rows that the screen shows, with the
// selected row.
type peeringList struct {
	board *board
	// held is set when the admin has selected a row. Then this row stays selected, and on
	// the same line of the screen, even if sorting moves it. Otherwise the first row is
	// selected. It usually has the worst state.
	held     bool
	selected pairID
	row      int // the last known position of the selected row
	top      int // the position of the first row on the screen
}

func (l peeringList) current() *peering {
	if len(l.board.List) == 0 {
		return nil
	}
	return l.board.List[l.position()]
}

// position returns the position of the selected row. If the row is gone, it returns the row's
// last position.
func (l peeringList) position() int {
	if !l.held {
		return 0
	}
	if p, ok := l.board.Rows[l.selected]; ok && p.show {
		if i, ok := l.board.find(p); ok {
			return i
		}
	}
	return max(0, min(l.row, len(l.board.List)-1))
}

// follow keeps the selected row on its line of the screen while other rows move. The screen
// shows height rows.
func (l peeringList) follow(height int) peeringList {
	at := l.position()
	l.top += at - l.row
	l.row = at
	if p := l.current(); p != nil {
		l.selected = p.ID
	}
	l.top = max(min(l.top, at), at-height+1)
	l.top = max(0, min(l.top, len(l.board.List)-height))
	return l
}

// move selects another row, and sets held. A move up from the first row resets held.
func (l peeringList) move(by, height int) peeringList {
	if len(l.board.List) == 0 {
		return l
	}
	before := l.position()
	at := min(max(before+by, 0), len(l.board.List)-1)
	l = l.pick(at, height)
	l.held = before > 0 || by > 0
	return l
}

// pick selects the row at a position, and sets held.
func (l peeringList) pick(at, height int) peeringList {
	l.held, l.row, l.selected = true, at, l.board.List[at].ID
	return l.follow(height)
}

// measured returns the latest points of A's history, or of B's if A's is empty. It leaves out
// the bucket of the present time: it is still empty, and would look like a gap.
func (p *peering) measured(now time.Time, length int) []session.Point {
	now = now.Add(-session.Bucket)
	side := 0
	if len(p.History[0].Points) == 0 {
		side = 1
	}
	return p.History[side].Until(now, length)
}

// head returns the lines above the rows: the number of rows in each state, and notices about contexts. With
// frames, the numbers stand above the list.
func (l peeringList) head(t draw.Theme, width int) []string {
	b := l.board
	var lines []string
	if !t.Frames() {
		lines = t.PackApart(l.counts(t), width)
	}
	for _, text := range b.notices(t) {
		parts := draw.Wrapped(text, width)
		if len(parts) > noticeLines {
			parts = append(parts[:noticeLines-1], t.Fit(parts[noticeLines-1]+t.Ellipsis+strings.Repeat(" ", width), width))
		}
		lines = append(lines, parts...)
	}
	return lines
}

// counts returns the number of rows in each state, and above the first visible row.
func (l peeringList) counts(t draw.Theme) []string {
	var facts []string
	for s := range view.States {
		if n := l.board.counts[s]; n > 0 {
			facts = append(facts, t.Marks[draw.PairMarks[s]].Render(fmt.Sprintf("%d %s %s", n, t.Glyphs[draw.PairMarks[s]], s)))
		}
	}
	slices.Reverse(facts)
	if l.top > 0 {
		facts = append(facts, t.Faint.Render(fmt.Sprintf("%d rows above, g shows them", l.top)))
	}
	return facts
}

// traffic returns the sum of all rows, also of those that the filter hides.
func (b *board) traffic() string {
	sum, known := 0.0, 0
	for _, p := range b.Rows {
		if r := p.traffic(b.now); r.Known {
			sum += r.Received + r.Sent
			known++
		}
	}
	if known == 0 {
		return ""
	}
	text := "traffic " + draw.PerSecond(sum) + "/s"
	if known < len(b.Rows) {
		text += fmt.Sprintf(", of %d of %d connections", known, len(b.Rows))
	}
	return text
}

// noticeLines is the largest number of lines of a notice. The rows need the other lines.
const noticeLines = 2

// notices returns the lines about contexts that don't answer, have not answered yet, or are not
// shown.
func (b *board) notices(t draw.Theme) []string {
	var lines []string
	var words, asking []string
	silent, why := map[string][]string{}, map[string]string{}
	for _, s := range b.sources {
		switch {
		case !s.asked:
			asking = append(asking, t.Middle(b.call(s), mostName))
		case !s.silent.IsZero():
			if silent[s.word] == nil {
				words = append(words, s.word)
			}
			silent[s.word] = append(silent[s.word], fmt.Sprintf("%s for %s", t.Middle(b.call(s), mostName), draw.Short(b.now.Sub(s.silent))))
			why[s.word] = s.problem
		}
	}
	for _, word := range words {
		names, prefix := silent[word], word+":"
		if word == "no answer" {
			prefix = word + " from"
		}
		text := fmt.Sprintf("%s %d contexts: %s", prefix, len(names), flows.Some(names))
		switch {
		case b.hides:
			text = prefix + " " + draw.Counted(len(names), "context") + ", hidden"
		case len(names) == 1:
			text = prefix + " " + names[0] + ": " + why[word]
		}
		lines = append(lines, t.Marks[draw.Unknown].Render(t.Plain(t.Glyphs[draw.Unknown]+" "+text)))
	}
	if len(asking) > 0 {
		lines = append(lines, t.Marks[draw.Running].Render(t.Plain(t.Glyphs[draw.Running]+" asking "+flows.Some(asking))))
	}
	for _, text := range b.strangers() {
		lines = append(lines, t.Marks[draw.Warn].Render(t.Plain(t.Glyphs[draw.Warn]+" "+text)))
	}
	return lines
}

// call returns the shortest name of a source that no other source has. It adds the file only if
// needed, because long context names usually differ at their ends, and the file would hide
// them.
func (b *board) call(s source) string {
	sameName := func(o source) bool { return o.ref != s.ref && o.ref.Name == s.ref.Name }
	switch {
	case s.ID != "":
		return string(s.ID)
	case slices.ContainsFunc(b.sources, sameName):
		return s.ref.String()
	}
	return flows.ContextRef{Name: s.ref.Name}.String()
}

// listLayout has the lines above and below the rows, and the room for the rows.
type listLayout struct {
	top   []string // the lines above the rows; the last line has the titles of the columns
	table table    // nil if there are no rows
	rows  int      // the largest number of rows on the screen
	foot  []string
}

func (l peeringList) layout(e session.Env, height int, wide bool) listLayout {
	b, t, width := l.board, e.Theme, e.Width
	lines := l.head(t, width)
	if spare := height - len(lines); spare > 8 && !t.Frames() {
		lines = append(lines, "")
	}
	if len(b.List) == 0 {
		return listLayout{top: append(lines, t.Wrap(b.nothing(), width, 0)...), rows: 1}
	}
	columns := tableFor(t, width, wide)
	lines = append(lines, t.Faint.Render(columns.titles(t, b.Order)))
	rows, foot := b.room(t, height-len(lines))
	return listLayout{top: lines, table: columns, rows: rows, foot: foot}
}

// view draws the list into at most height lines. It draws only the rows on the screen.
func (l peeringList) view(e session.Env, height int, wide bool) []string {
	b, t, parts := l.board, e.Theme, l.layout(e, height, wide)
	lines := parts.top
	if parts.table == nil {
		return lines
	}
	l = l.follow(parts.rows)
	for i := l.top; i < min(l.top+parts.rows, len(b.List)); i++ {
		lines = append(lines, parts.table.line(t, b.List[i], b.now, i == l.row))
	}
	if len(parts.foot) == 0 {
		return lines
	}
	if free := height - len(lines); free >= roomForEvents {
		return append(append(lines, "", t.Label.Render("Latest events")), b.latestEvents(t, e.Width, free-2)...)
	}
	for len(lines) < height-len(parts.foot) {
		lines = append(lines, "")
	}
	return append(lines, parts.foot...)
}

// roomForEvents is the number of lines below the rows from which on the list shows several
// events, and not only the latest.
const roomForEvents = 6

// latestEvents returns as many events as fit, the latest first.
func (b *board) latestEvents(t draw.Theme, width, height int) []string {
	if t.Frames() {
		width = 0
	}
	recent := b.Log.recent()
	recent = recent[max(0, len(recent)-height):]
	lines := b.eventRows(t, recent, false, width)
	for len(lines) > height && len(recent) > 0 { // without frames, an event may have several lines
		recent = recent[1:]
		lines = b.eventRows(t, recent, false, width)
	}
	return lines
}

// room divides the remaining height between rows and foot.
func (b *board) room(t draw.Theme, height int) (rows int, foot []string) {
	rows = max(1, height)
	if t.Frames() { // events have a panel
		return rows, nil
	}
	foot = b.foot(t)
	left := rows - len(foot) - 1
	if hides := left < len(b.List) && len(b.List) <= rows; rows <= 6 || len(foot) == 0 || hides {
		return rows, nil
	}
	return left, foot
}

// foot returns the line with the latest event.
func (b *board) foot(t draw.Theme) []string {
	e, ok := b.Log.latest()
	if !ok {
		return nil
	}
	return []string{t.Faint.Render("Last: "+e.at.Format(time.TimeOnly)) + " " + t.Plain(e.line(t, b.names(e.id)))}
}

// names returns the names of a pair in the order of its row.
func (b *board) names(id pairID) string {
	if p, ok := b.Rows[id]; ok {
		first, second := p.order()
		return string(p.ends[first].ID) + "/" + string(p.ends[second].ID)
	}
	return string(id.low) + "/" + string(id.high)
}

// nothing returns the text that says why there are no rows.
func (b *board) nothing() string {
	known := slices.ContainsFunc(b.sources, func(s source) bool { return s.asked && s.silent.IsZero() })
	asking := slices.ContainsFunc(b.sources, func(s source) bool { return !s.asked })
	switch {
	case len(b.Rows) > 0:
		return "No connection matches the filter. Words are parts of names, or states: down, degraded, !connected. Press esc to clear it."
	case len(b.sources) == 0:
		return "There are no contexts to look at. Press n, then F, to add a kubeconfig file, or set KUBECONFIG before the start."
	case !known && asking:
		return "Nothing is known of any cluster yet."
	case !known:
		return "No cluster answers. Press i for the reasons."
	}
	return "None of these clusters has a peer. Press n to connect two clusters."
}
