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

// tableColumn is one column of the list of peerings.
type tableColumn struct {
	title string
	width int // in cells, with the space that keeps it apart from its neighbour
	right bool
	sorts bool // by is what its title sorts by
	by    column
	rank  int // what is dropped for want of room has the highest; 0 is always there
	text  func(p *peering, now time.Time) string
}

// table is the columns that there is room for. The first one is the state.
type table []tableColumn

const (
	pointerCells   = 2  // before each row
	stateCells     = 16 // "unreachable 59m" beside its glyph
	latencyCells   = 8
	ageCells       = 5
	serverCells    = 4
	sparkCells     = 13
	trafficCells   = 12
	lossCells      = 6
	flapCells      = 6
	handshakeCells = 10
	mtuCells       = 6
	endpointCells  = 24
	// A name is cut in its middle; with less than this nobody knows it again.
	leastName = 10
	mostName  = 28
	// All rows' round trips, in ms, have one scale, so that they can be compared.
	lowRTT, highRTT = 0.3, 300
)

// tableFor drops what matters less until both names have room. A wide one has
// more to drop.
func tableFor(t draw.Theme, width int, wide bool) table {
	status := tableColumn{title: "STATUS", width: draw.Cells(t.Glyphs[draw.OK]) + 1 + stateCells, sorts: true, by: ByStatus}
	room := width - pointerCells - status.width - latencyCells
	if room < 2*(leastName+1) {
		return table{status, bothNames(t, max(1, room)), latencyColumn(flows.A, "A"+t.To+"B")}
	}
	room -= 2 * (leastName + 1)
	columns, most, fitting := columnsOf(t), narrowRanks, 0
	if wide {
		most = len(columns) - 1
	}
	// One that does not fit ends it: what is dropped first is always the same.
	for rank := 1; rank <= most && columns.ranked(rank).width <= room; rank++ {
		room -= columns.ranked(rank).width
		fitting = rank
	}
	name := min(mostName, leastName+1+room/2)
	all := table{status, nameColumn(t, flows.A, name), nameColumn(t, flows.B, name)}
	for _, c := range columns {
		if c.rank <= fitting {
			all = append(all, c)
		}
	}
	return all
}

// narrowRanks is up to which rank a list has columns that is not a wide one.
const narrowRanks = 7

// columns are those after the names, from left to right.
func columnsOf(t draw.Theme) table {
	back := latencyColumn(flows.B, "B"+t.To+"A")
	back.rank = 1
	return table{
		{rank: 3, title: "SRV", width: serverCells, text: serverText},
		latencyColumn(flows.A, "RTT A"+t.To+"B"),
		back,
		{rank: 4, title: "  RTT 2 min", width: sparkCells, text: func(p *peering, now time.Time) string {
			return " " + t.SparkBetween(session.RoundTrips(p.measured(now, sparkCells-1)), lowRTT, highRTT)
		}},
		{rank: 6, title: "LOSS", width: lossCells, right: true, text: lossText},
		{rank: 5, title: "RX/TX /s", width: trafficCells, right: true, sorts: true, by: byThroughput, text: trafficText},
		{rank: 7, title: "FLAPS", width: flapCells, right: true, text: func(p *peering, now time.Time) string { return fmt.Sprint(p.flapCount(now)) }},
		{rank: 2, title: "AGE", width: ageCells, right: true, sorts: true, by: byAge, text: ageText},
		{rank: 8, title: "HANDSHAKE", width: handshakeCells, right: true, text: handshakeText},
		{rank: 9, title: "MTU", width: mtuCells, right: true, text: mtuText},
		{rank: 10, title: " ENDPOINT", width: endpointCells, text: func(p *peering, _ time.Time) string { return " " + t.Plain(p.endpoint()) }},
	}
}

func (c table) ranked(rank int) tableColumn {
	return c[slices.IndexFunc(c, func(column tableColumn) bool { return column.rank == rank })]
}

func latencyColumn(s flows.Side, title string) tableColumn {
	return tableColumn{
		title: title, width: latencyCells, right: true, sorts: s == flows.A, by: ByLatency,
		text: func(p *peering, now time.Time) string { return draw.Latency(p.roundTrip(s, now)) },
	}
}

func nameColumn(t draw.Theme, s flows.Side, width int) tableColumn {
	return tableColumn{title: s.String(), width: width, sorts: s == flows.A, by: byName, text: func(p *peering, _ time.Time) string {
		return t.Middle(t.Plain(string(p.ends[s].ID)), width-1)
	}}
}

// bothNames is where there is no room for two columns.
func bothNames(t draw.Theme, width int) tableColumn {
	return tableColumn{title: "PEERING", width: width, sorts: true, by: byName, text: func(p *peering, _ time.Time) string {
		return t.Middle(t.Plain(string(p.ends[0].ID)+"/"+string(p.ends[1].ID)), width-1)
	}}
}

func ageText(p *peering, now time.Time) string {
	if at := p.created(); !at.IsZero() {
		return draw.Minutes(now.Sub(at))
	}
	return "-"
}

func serverText(p *peering, _ time.Time) string {
	if s, ok := p.server(); ok {
		return s.String()
	}
	return "-"
}

func trafficText(p *peering, now time.Time) string {
	if r := p.traffic(now); r.Known {
		return draw.PerSecond(r.Received) + "/" + draw.PerSecond(r.Sent)
	}
	return "-"
}

func lossText(p *peering, now time.Time) string {
	if share, known := p.loss(now); known {
		return draw.Percent(share)
	}
	return "-"
}

func handshakeText(p *peering, now time.Time) string {
	if at := p.handshake(now); !at.IsZero() {
		return draw.Minutes(now.Sub(at))
	}
	return "-"
}

func mtuText(p *peering, _ time.Time) string {
	if mtu := p.mtu(); mtu != 0 {
		return fmt.Sprint(mtu)
	}
	return "-"
}

// titles is the line above the rows, with a mark after what they are sorted by.
func (c table) titles(t draw.Theme, o order) string {
	var line strings.Builder
	line.WriteString(strings.Repeat(" ", pointerCells))
	for _, column := range c {
		title := column.title
		if column.sorts && column.by == o.By {
			title += t.Sorted[map[bool]int{false: 0, true: 1}[o.Reverse]]
		}
		line.WriteString(column.pad(title))
	}
	return line.String()
}

func (c tableColumn) pad(text string) string {
	if c.right {
		return draw.PadLeft(text, c.width)
	}
	return draw.Pad(text, c.width)
}

// at is the column that a cell of the line belongs to.
func (c table) at(x int) (column tableColumn, ok bool) {
	x -= pointerCells
	for _, column := range c {
		if x < column.width {
			return column, x >= 0
		}
		x -= column.width
	}
	return tableColumn{}, false
}

// line is one row.
func (c table) line(t draw.Theme, p *peering, now time.Time, selected bool) string {
	word := p.State.String()
	if since := p.began(); !since.IsZero() && p.State != view.Connected && p.State != view.Untested {
		word += " " + draw.Minutes(now.Sub(since))
	}
	state := t.Glyphs[draw.PairMarks[p.State]] + " " + t.Plain(word)
	var rest strings.Builder
	for _, column := range c[1:] {
		rest.WriteString(column.pad(column.text(p, now)))
	}
	switch {
	case selected:
		return t.Cursor.Render(t.Pointer + " " + c[0].pad(state) + rest.String())
	case p.State == view.Stale || p.State == view.Unreachable:
		return "  " + t.Marks[draw.PairMarks[p.State]].Render(c[0].pad(state)) + t.Faint.Render(rest.String())
	}
	return "  " + t.Marks[draw.PairMarks[p.State]].Render(c[0].pad(state)) + rest.String()
}
