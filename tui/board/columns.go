package board

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/view"
	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// tableColumn is one column of the list of connections.
type tableColumn struct {
	title string
	width int // in cells, including the space before the next column
	right bool
	sorts bool // by is the order of the rows after a click on the title
	by    column
	rank  int // columns with the highest rank are dropped first if there is no room; 0 is always there
	text  func(p *peering, now time.Time) string
	means string // for the help
}

// table has the columns that fit. The first one is the state.
type table []tableColumn

const (
	pointerCells   = 2  // before each row
	stateCells     = 16 // "unreachable 59m" after its glyph
	latencyCells   = 8
	sparkCells     = 2 + 2*minute // with a space on both sides
	trafficCells   = 9
	lossCells      = 6
	handshakeCells = 10
	mtuCells       = 6
	endpointCells  = 24
	// a name is cut in its middle; with fewer cells, nobody would recognize it
	leastName = 10
	mostName  = 28
	// minute is the number of cells of a sparkline for one minute: each cell is a
	// bucket. A sparkline shows at most a quarter of an hour.
	minute    = int(time.Minute / session.Bucket)
	mostSpark = 15 * minute
	// morePast are the cells of the past that matter more than the columns with the highest ranks.
	morePast = 4 * minute
)

// tableFor drops the columns with the highest ranks until both names have room. A wide
// table has more columns.
func tableFor(t draw.Theme, width int, wide bool) table {
	status := tableColumn{title: "STATUS", means: "how it is, and for how long", width: draw.Cells(t.Glyphs[draw.OK]) + 1 + stateCells, sorts: true, by: ByStatus}
	room := width - pointerCells - status.width - latencyCells
	apart := arrowCells(t) + 1
	least := 2*leastName + apart
	if room < least {
		return table{status, namesColumn(t, max(1, room)), latencyColumn()}
	}
	room -= least
	columns, fitting := columnsOf(t, sparkCells), 0
	// The first column that does not fit ends the table, so the order in which columns
	// are dropped never changes.
	fit := func(most int) {
		for fitting < most && columns.ranked(fitting+1).width <= room {
			fitting++
			room -= columns.ranked(fitting).width
		}
	}
	if wide {
		fit(len(columns) - 1)
	}
	fit(narrowRanks)
	names := min(2*mostName+apart, least+room)
	if fitting == narrowRanks { // names and the past share what is left
		names = min(names, least+room/2)
	}
	room -= names - least
	past := min(room, morePast)
	if room -= past; fitting == narrowRanks {
		fit(len(columns) - 1)
	}
	room += past
	if fitting >= sparkRank { // the remaining cells show more of the past
		columns = columnsOf(t, min(mostSpark+2, sparkCells+room/minute*minute))
	}
	all := table{status, namesColumn(t, names)}
	for _, c := range columns {
		if c.rank <= fitting {
			all = append(all, c)
		}
	}
	for _, c := range all { // the selected row is one bar across the screen
		width -= c.width
	}
	all[len(all)-1].width += max(0, width-pointerCells)
	return all
}

// narrowRanks is the highest rank of the columns that matter more than long names,
// unless the list is wide. sparkRank is the rank of the column with the past.
const (
	narrowRanks = 4
	sparkRank   = 1
)

// columnsOf returns the columns after the names, from left to right. spark is the
// number of cells for the past.
func columnsOf(t draw.Theme, spark int) table {
	traffic := func(rank int, title, means string, rate func(session.Rate) float64) tableColumn {
		return tableColumn{rank: rank, title: title, means: means, width: trafficCells, right: true, sorts: true, by: byThroughput, text: func(p *peering, now time.Time) string {
			if r := p.traffic(now); r.Known {
				if first, _ := p.order(); first == flows.B {
					r.Received, r.Sent = r.Sent, r.Received
				}
				return draw.PerSecond(rate(r))
			}
			return "-"
		}}
	}
	return table{
		latencyColumn(),
		{rank: sparkRank, title: fmt.Sprintf(" last %d min", (spark-2)/minute), means: "round trips until now, a sign for each " + session.Bucket.String(), width: spark, text: func(p *peering, now time.Time) string {
			points := p.measured(now, spark-2)
			return " " + t.SparkRTT(session.RoundTrips(points), session.Lost(points))
		}},
		{rank: 2, title: "LOSS", means: "the share of pings without an answer", width: lossCells, right: true, text: lossText},
		traffic(3, "IN/s", "bytes that the first of both receives", func(r session.Rate) float64 { return r.Received }),
		traffic(4, "OUT/s", "bytes that the first of both sends", func(r session.Rate) float64 { return r.Sent }),
		{rank: 5, title: "HANDSHAKE", means: "how long ago keys were exchanged last", width: handshakeCells, right: true, text: handshakeText},
		{rank: 6, title: "MTU", means: "bytes of the longest packet", width: mtuCells, right: true, text: mtuText},
		{rank: 7, title: " ENDPOINT", means: "the address that is dialled", width: endpointCells, text: func(p *peering, _ time.Time) string { return " " + t.Plain(p.endpoint()) }},
	}
}

func (c table) ranked(rank int) tableColumn {
	return c[slices.IndexFunc(c, func(column tableColumn) bool { return column.rank == rank })]
}

func latencyColumn() tableColumn {
	return tableColumn{
		title: "RTT", means: "the latest round trip", width: latencyCells, right: true, sorts: true, by: ByLatency,
		text: func(p *peering, now time.Time) string {
			return draw.Latency(max(p.roundTrip(flows.A, now), p.roundTrip(flows.B, now)))
		},
	}
}

// arrowCells is the width of the arrow between two names.
func arrowCells(t draw.Theme) int { return draw.Cells(t.To) + 2 }

func namesColumn(t draw.Theme, width int) tableColumn {
	return tableColumn{title: "CONNECTION", means: "the cluster that dials, and the one that listens", width: width, sorts: true, by: byName, text: func(p *peering, _ time.Time) string {
		first, second := p.order()
		return pairText(t, t.Plain(string(p.ends[first].ID)), t.Plain(string(p.ends[second].ID)), width-1)
	}}
}

// pairText returns both names with an arrow, in width cells. A short name leaves its room to the other one.
func pairText(t draw.Theme, first, second string, width int) string {
	arrow := " " + t.To + " "
	if draw.Cells(first)+draw.Cells(second)+draw.Cells(arrow) > width { // letters matter more than space
		arrow = t.To
	}
	room := width - draw.Cells(arrow)
	half := room / 2
	switch a, b := draw.Cells(first), draw.Cells(second); {
	case a+b <= room:
	case a <= half:
		second = t.Middle(second, room-a)
	case b <= half:
		first = t.Middle(first, room-b)
	default:
		first, second = t.Middle(first, half), t.Middle(second, room-half)
	}
	return first + arrow + second
}

func lossText(p *peering, now time.Time) string {
	if share, known := p.loss(now); known {
		return draw.Percent(share)
	}
	return "-"
}

func handshakeText(p *peering, now time.Time) string {
	if at := p.handshake(now); !at.IsZero() {
		return draw.Short(now.Sub(at))
	}
	return "-"
}

func mtuText(p *peering, _ time.Time) string {
	if mtu := p.mtu(); mtu != 0 {
		return fmt.Sprint(mtu)
	}
	return "-"
}

// titles returns the line above the rows, with a mark at the sorted column.
func (c table) titles(t draw.Theme, o order) string {
	var line strings.Builder
	line.WriteString(strings.Repeat(" ", pointerCells))
	for _, column := range c {
		title := column.title
		if column.sorts && column.by == o.By {
			title += o.mark(t)
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

func (c table) line(t draw.Theme, p *peering, now time.Time, selected bool) string {
	word := p.State.String()
	if since := p.began(); !since.IsZero() && p.State != view.Connected && p.State != view.Untested {
		word += " " + draw.Short(now.Sub(since))
	}
	state := c[0].pad(t.Glyphs[draw.PairMarks[p.State]] + " " + t.Plain(word))
	var rest strings.Builder
	for _, column := range c[1:] {
		rest.WriteString(column.pad(column.text(p, now)))
	}
	switch {
	case selected:
		return t.Chosen(t.Marks[draw.PairMarks[p.State]].Render(state) + rest.String())
	case p.State == view.Stale || p.State == view.Unreachable:
		return "  " + t.Marks[draw.PairMarks[p.State]].Render(state) + t.Faint.Render(ansi.Strip(rest.String()))
	}
	return "  " + t.Marks[draw.PairMarks[p.State]].Render(state) + rest.String()
}
