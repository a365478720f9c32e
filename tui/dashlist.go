package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/liqo-tui/liqo-tui/flows"
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
	l.held, l.row, l.selected = at > 0 || by > 0, at, l.board.list[at].id
	return l.follow(height)
}

// columns are those that there is room for.
type columns struct {
	status, name                                   int  // widths, in cells
	joined                                         bool // both names in one column
	back, age, server, spark, traffic, loss, flaps bool
}

const (
	stateCells   = 16 // "unreachable 59m" beside its glyph
	latencyCells = 8
	ageCells     = 5
	serverCells  = 4
	sparkCells   = 13
	trafficCells = 12
	lossCells    = 6
	flapCells    = 6
	// A name is cut in its middle; with less than this nobody knows it again.
	leastName = 10
	mostName  = 28
)

// columnsFor drops what matters less until both names have room.
func (t theme) columnsFor(width int) columns {
	c := columns{status: ansi.StringWidth(t.glyphs[markOK]) + 1 + stateCells}
	room := width - 2 - c.status - latencyCells
	if c.joined = room < 2*(leastName+1); c.joined {
		c.name = max(1, room)
		return c
	}
	room -= 2 * (leastName + 1)
	take := func(cells int) bool {
		if room < cells {
			return false
		}
		room -= cells
		return true
	}
	// One that does not fit ends it: what is dropped first is always the same.
	c.back = take(latencyCells)
	c.age = c.back && take(ageCells)
	c.server = c.age && take(serverCells)
	c.spark = c.server && take(sparkCells)
	c.traffic = c.spark && take(trafficCells)
	c.loss = c.traffic && take(lossCells)
	c.flaps = c.loss && take(flapCells)
	c.name = min(mostName, leastName+1+room/2)
	return c
}

func (t theme) columnHeads(c columns, o order) string {
	arrow := func(by column, text string) string {
		if o.by != by {
			return text
		}
		return text + t.sorted[map[bool]int{false: 0, true: 1}[o.reverse]]
	}
	line := "  " + pad(arrow(byStatus, "STATUS"), c.status)
	if c.joined {
		line += pad(arrow(byName, "PEERING"), c.name)
		return line + left(arrow(byLatency, "A"+t.to+"B"), latencyCells)
	}
	line += pad(arrow(byName, "A"), c.name) + pad("B", c.name)
	if c.server {
		line += pad("SRV", serverCells)
	}
	line += left(arrow(byLatency, "RTT A"+t.to+"B"), latencyCells)
	if c.back {
		line += left("B"+t.to+"A", latencyCells)
	}
	if c.spark {
		line += " " + pad("2 min", sparkCells-1)
	}
	if c.loss {
		line += left("LOSS", lossCells)
	}
	if c.traffic {
		line += left(arrow(byThroughput, "RX/TX"), trafficCells)
	}
	if c.flaps {
		line += left("FLAPS", flapCells)
	}
	if c.age {
		line += left(arrow(byAge, "AGE"), ageCells)
	}
	return line
}

// left pads on the left: figures stand under each other by their last digit.
func left(text string, width int) string {
	return strings.Repeat(" ", max(0, width-ansi.StringWidth(text))) + text
}

// line is one row.
func (t theme) peeringLine(p *peering, c columns, now time.Time, selected bool) string {
	word := p.state.String()
	if since := p.began(); !since.IsZero() && p.state != peeringConnected {
		word += " " + minutes(now.Sub(since))
	}
	line := "  " + t.state(p.state.mark(), word, c.status)
	a, b := t.plain(string(p.ends[0].id)), t.plain(string(p.ends[1].id))
	rest := ""
	if c.joined {
		rest = pad(t.middle(a+"/"+b, c.name-1), c.name)
	} else {
		rest = pad(t.middle(a, c.name-1), c.name) + pad(t.middle(b, c.name-1), c.name)
	}
	if c.server {
		side := "-"
		if s, ok := p.server(); ok {
			side = s.String()
		}
		rest += pad(side, serverCells)
	}
	rest += left(latency(p.roundTrip(flows.A, now)), latencyCells)
	if c.back {
		rest += left(latency(p.roundTrip(flows.B, now)), latencyCells)
	}
	if c.spark {
		rest += " " + pad(t.spark(roundTrips(p.measured(now, sparkCells-1))), sparkCells-1)
	}
	if c.loss {
		text := "-"
		if share, known := p.loss(now); known {
			text = percent(share)
		}
		rest += left(text, lossCells)
	}
	if c.traffic {
		text := "-"
		if r := p.traffic(now); r.known {
			text = perSecond(r.received) + "/" + perSecond(r.sent)
		}
		rest += left(text, trafficCells)
	}
	if c.flaps {
		rest += left(fmt.Sprint(p.flapCount(now)), flapCells)
	}
	if c.age {
		text := "-"
		if at := p.created(); !at.IsZero() {
			text = minutes(now.Sub(at))
		}
		rest += left(text, ageCells)
	}
	switch {
	case selected:
		return t.cursor.Render(t.plain(t.pointer + ansi.Strip(line[1:]) + rest))
	case p.state == peeringStale || p.state == peeringUnreachable:
		rest = t.faint.Render(rest)
	}
	return line + rest
}

// measured are the latest points of the end that measures: A's, or else B's.
func (p *peering) measured(now time.Time, length int) []point {
	side := 0
	if len(p.history[0].points) == 0 {
		side = 1
	}
	return p.history[side].until(now, length)
}

func latency(d time.Duration) string {
	if d <= 0 {
		return "-"
	}
	return roundTrip(d)
}

// middle cuts the middle of a name out: its beginning and its end tell more.
func (t theme) middle(text string, width int) string {
	over := ansi.StringWidth(text) - width
	if over <= 0 {
		return text
	}
	keep := width - ansi.StringWidth(t.ellipsis)
	if keep < 2 {
		return ansi.Truncate(text, max(0, width), "")
	}
	return ansi.Truncate(text, (keep+1)/2, "") + t.ellipsis + ansi.TruncateLeft(text, ansi.StringWidth(text)-keep/2, "")
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
		wrapped := strings.Split(ansi.Wrap(text, width, "/"), "\n")
		lines = append(lines, wrapped[:min(len(wrapped), noticeLines)]...)
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

// view draws the list into at most height lines. Only the rows in sight cost
// anything.
func (l peeringList) view(t theme, width, height int) []string {
	b := l.board
	lines := l.head(t, width)
	if spare := height - len(lines); spare > 8 {
		lines = append(lines, "")
	}
	if len(b.list) == 0 {
		return append(lines, t.wrap(b.nothing(), width, 0)...)
	}
	c := t.columnsFor(width)
	lines = append(lines, t.faint.Render(t.columnHeads(c, b.order)))
	rows, foot := b.room(t, height-len(lines))
	l = l.follow(rows)
	for i := l.top; i < min(l.top+rows, len(b.list)); i++ {
		lines = append(lines, t.peeringLine(b.list[i], c, b.now, i == l.row))
	}
	if len(foot) == 0 {
		return lines
	}
	for len(lines) < height-len(foot) {
		lines = append(lines, "")
	}
	return append(lines, foot...)
}

// rows is how many rows a list of this size has in sight.
func (l peeringList) rows(t theme, width, height int) int {
	head := len(l.head(t, width)) + 1
	if height-head+1 > 8 {
		head++
	}
	rows, _ := l.board.room(t, height-head)
	return rows
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
