package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
)

// peeringList is the rows of a board on the screen: which one is selected, and
// which part is in sight.
type peeringList struct {
	board *board
	// held is set when the admin has chosen a row: it then stays under the
	// cursor, on the same line, wherever it is sorted to. Until then the cursor
	// is on the first row, whichever that is: usually the worst.
	held     bool
	selected pairID
	row      int // of the selected one, when it was last looked up
	top      int // the first row in sight
}

// current is the selected row, or nil without rows.
func (l peeringList) current() *peering {
	if len(l.board.list) == 0 {
		return nil
	}
	return l.board.list[l.position()]
}

// position is where the selected row is now; where it was, if it is gone.
func (l peeringList) position() int {
	if !l.held {
		return 0
	}
	if p, ok := l.board.rows[l.selected]; ok && p.show {
		if i, ok := l.board.find(p); ok {
			return i
		}
	}
	return max(0, min(l.row, len(l.board.list)-1))
}

// follow keeps the selected row on its line while others move; height is how
// many rows are in sight.
func (l peeringList) follow(height int) peeringList {
	at := l.position()
	l.top += at - l.row
	l.row = at
	if p := l.current(); p != nil {
		l.selected = p.id
	}
	l.top = max(min(l.top, at), at-height+1)
	l.top = max(0, min(l.top, len(l.board.list)-height))
	return l
}

// move selects another row. Going back to the first one lets go of it.
func (l peeringList) move(by, height int) peeringList {
	if len(l.board.list) == 0 {
		return l
	}
	at := min(max(l.position()+by, 0), len(l.board.list)-1)
	l = l.pick(at, height)
	l.held = at > 0 || by > 0
	return l
}

// pick selects the row of an index, and holds on to it.
func (l peeringList) pick(at, height int) peeringList {
	l.held, l.row, l.selected = true, at, l.board.list[at].id
	return l.follow(height)
}

// measured are the latest points of the end that measures: A's, or else B's.
func (p *peering) measured(now time.Time, length int) []point {
	side := 0
	if len(p.history[0].points) == 0 {
		side = 1
	}
	return p.history[side].until(now, length)
}

// middle cuts the middle of a name out: its beginning and its end tell more.
func (t theme) middle(text string, width int) string {
	over := cells(text) - width
	if over <= 0 {
		return text
	}
	keep := width - cells(t.ellipsis)
	if keep < 2 {
		return ansi.Truncate(text, max(0, width), "")
	}
	return ansi.Truncate(text, (keep+1)/2, "") + t.ellipsis + ansi.TruncateLeft(text, cells(text)-keep/2, "")
}

// minutes writes a duration in at most three cells, whole minutes at the
// finest, so that it changes only with the minute.
func minutes(d time.Duration) string {
	switch d = max(0, d); {
	case d < time.Minute:
		return "<1m"
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	case d < 1000*24*time.Hour:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
	return fmt.Sprintf("%dy", int(d.Hours()/24/365))
}

// head is what stands above the rows: how many are how, and what can't be seen.
func (l peeringList) head(t theme, width int) []string {
	b := l.board
	var counts []string
	for s := range peeringStates {
		if n := b.counts[s]; n > 0 {
			counts = append(counts, t.marks[s.mark()].Render(fmt.Sprintf("%d %s %s", n, t.glyphs[s.mark()], s)))
		}
	}
	slices.Reverse(counts)
	if l.top > 0 {
		counts = append(counts, t.faint.Render(fmt.Sprintf("%d rows above, g shows them", l.top)))
	}
	lines := t.pack(counts, width)
	if b.filter.text != "" {
		text := fmt.Sprintf("filter %q: %d of %d", b.filter.text, len(b.list), len(b.rows))
		lines = append(lines, t.label.Render(t.plain(text)))
	}
	for _, text := range b.notices(t) {
		parts := wrapped(text, width)
		lines = append(lines, parts[:min(len(parts), noticeLines)]...)
	}
	return lines
}

// noticeLines is how much room a notice gets: the rows matter more.
const noticeLines = 2

// notices are about contexts of which nothing, or nothing new, is known.
func (b *board) notices(t theme) []string {
	var lines []string
	var silent, asking []string
	why := ""
	for _, s := range b.sources {
		switch {
		case !s.asked:
			asking = append(asking, s.ref.String())
		case !s.silent.IsZero():
			silent = append(silent, fmt.Sprintf("%s for %s", cmp.Or(string(s.id), s.ref.String()), minutes(b.now.Sub(s.silent))))
			why = s.problem
		}
	}
	if len(silent) > 0 {
		text := fmt.Sprintf("no answer from %s", enumerate(silent))
		if len(silent) == 1 {
			text += ": " + why
		}
		lines = append(lines, t.marks[markUnknown].Render(t.plain(t.glyphs[markUnknown]+" "+text)))
	}
	if len(asking) > 0 {
		lines = append(lines, t.marks[markRunning].Render(t.plain(t.glyphs[markRunning]+" asking "+enumerate(asking))))
	}
	for _, text := range b.strangers() {
		lines = append(lines, t.marks[markWarn].Render(t.plain(t.glyphs[markWarn]+" "+text)))
	}
	return lines
}

// enumerate names a few, and how many more there are.
func enumerate(names []string) string {
	const few = 3
	if len(names) > few {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
	}
	return strings.Join(names, ", ")
}

// listLayout is where a list of a size has its parts.
type listLayout struct {
	top   []string // the lines above the rows; the last ones are the columns' titles
	table table    // nil without rows
	rows  int      // in sight, at most
	foot  []string
}

func (l peeringList) layout(t theme, width, height int, wide bool) listLayout {
	b := l.board
	lines := l.head(t, width)
	if spare := height - len(lines); spare > 8 {
		lines = append(lines, "")
	}
	if len(b.list) == 0 {
		return listLayout{top: append(lines, t.wrap(b.nothing(), width, 0)...), rows: 1}
	}
	columns := t.tableFor(width, wide)
	lines = append(lines, t.faint.Render(columns.titles(t, b.order)))
	rows, foot := b.room(t, height-len(lines))
	return listLayout{top: lines, table: columns, rows: rows, foot: foot}
}

// view draws the list into at most height lines. Only the rows in sight cost
// anything.
func (l peeringList) view(t theme, width, height int, wide bool) []string {
	b, parts := l.board, l.layout(t, width, height, wide)
	lines := parts.top
	if parts.table == nil {
		return lines
	}
	l = l.follow(parts.rows)
	for i := l.top; i < min(l.top+parts.rows, len(b.list)); i++ {
		lines = append(lines, parts.table.line(t, b.list[i], b.now, i == l.row))
	}
	if len(parts.foot) == 0 {
		return lines
	}
	for len(lines) < height-len(parts.foot) {
		lines = append(lines, "")
	}
	return append(lines, parts.foot...)
}

// room shares what is left of the height between rows and foot.
func (b *board) room(t theme, height int) (rows int, foot []string) {
	rows = max(1, height)
	if foot = b.foot(t); rows <= 6 || len(foot) == 0 {
		return rows, nil
	}
	return rows - len(foot) - 1, foot
}

// foot is the latest event.
func (b *board) foot(t theme) []string {
	e, ok := b.log.latest()
	if !ok {
		return nil
	}
	return []string{t.faint.Render("Last: "+e.at.Format(time.TimeOnly)) + " " + t.plain(e.line(t, b.names(e.id)))}
}

// names of a pair, as its row has them.
func (b *board) names(id pairID) string {
	if p, ok := b.rows[id]; ok {
		return string(p.ends[0].id) + "/" + string(p.ends[1].id)
	}
	return string(id.low) + "/" + string(id.high)
}

// nothing says why there are no rows.
func (b *board) nothing() string {
	asked := slices.ContainsFunc(b.sources, func(s source) bool { return s.id != "" })
	switch {
	case len(b.rows) > 0:
		return "No peering matches the filter; esc clears it."
	case len(b.sources) == 0:
		return "There are no contexts to look at."
	case !asked:
		return "Nothing is known of any cluster yet."
	}
	return "None of these clusters is peered with another one. n connects two."
}
