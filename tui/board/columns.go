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
	ageCells       = 5
	serverCells    = 4
	sparkCells     = 1 + 2*minute
	trafficCells   = 14
	lossCells      = 6
	flapCells      = 6
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
)

// tableFor drops the columns with the highest ranks until both names have room. A wide
// table has more columns.
func tableFor(t draw.Theme, width int, wide bool) table {
	status := tableColumn{title: "STATUS", means: "how it is, and for how long", width: draw.Cells(t.Glyphs[draw.OK]) + 1 + stateCells, sorts: true, by: ByStatus}
	room := width - pointerCells - status.width - latencyCells
	if room < 2*(leastName+1) {
		return table{status, bothNames(t, max(1, room)), latencyColumn(flows.A, "A"+t.To+"B")}
	}
	room -= 2 * (leastName + 1)
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
	name := min(mostName, leastName+1+room/2)
	room -= 2 * (name - leastName - 1)
	if fitting == narrowRanks {
		fit(len(columns) - 1)
	}
	if fitting >= sparkRank { // what is left shows more of the past
		columns = columnsOf(t, min(mostSpark+1, sparkCells+room/minute*minute))
	}
	all := table{status, nameColumn(t, flows.A, name), nameColumn(t, flows.B, name)}
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
	narrowRanks = 7
	sparkRank   = 4
)

// columnsOf returns the columns after the names, from left to right. spark is the
// number of cells for the past.
func columnsOf(t draw.Theme, spark int) table {
	back := latencyColumn(flows.B, "B"+t.To+"A")
	back.rank = 1
	return table{
		{rank: 3, title: "SRV", means: "whose gateway is the server, and is dialled", width: serverCells, text: serverText},
		latencyColumn(flows.A, "RTT A"+t.To+"B"),
		back,
		{rank: sparkRank, title: fmt.Sprintf("  RTT %d min", (spark-1)/minute), means: "round trips until now, a sign for each " + session.Bucket.String(), width: spark, text: func(p *peering, now time.Time) string {
			points := p.measured(now, spark-1)
			return " " + t.SparkRTT(session.RoundTrips(points), session.Lost(points))
		}},
		{rank: 6, title: "LOSS", means: "the share of pings without an answer", width: lossCells, right: true, text: lossText},
		{rank: 5, title: "RX/s   TX/s", means: "bytes that A receives and sends", width: trafficCells, right: true, sorts: true, by: byThroughput, text: trafficText},
		{rank: 7, title: "FLAPS", means: "outages seen in the last 24 hours", width: flapCells, right: true, text: func(p *peering, now time.Time) string { return fmt.Sprint(p.flapCount(now)) }},
		{rank: 2, title: "AGE", means: "how old its gateways are", width: ageCells, right: true, sorts: true, by: byAge, text: ageText},
		{rank: 8, title: "HANDSHAKE", means: "how long ago keys were exchanged last", width: handshakeCells, right: true, text: handshakeText},
		{rank: 9, title: "MTU", means: "bytes of the longest packet", width: mtuCells, right: true, text: mtuText},
		{rank: 10, title: " ENDPOINT", means: "the address that is dialled", width: endpointCells, text: func(p *peering, _ time.Time) string { return " " + t.Plain(p.endpoint()) }},
	}
}

func (c table) ranked(rank int) tableColumn {
	return c[slices.IndexFunc(c, func(column tableColumn) bool { return column.rank == rank })]
}

func latencyColumn(s flows.Side, title string) tableColumn {
	return tableColumn{
		title: title, means: "the latest round trip, by " + s.String() + "'s gateway", width: latencyCells, right: true, sorts: s == flows.A, by: ByLatency,
		text: func(p *peering, now time.Time) string { return draw.Latency(p.roundTrip(s, now)) },
	}
}

func nameColumn(t draw.Theme, s flows.Side, width int) tableColumn {
	return tableColumn{title: s.String(), means: [2]string{"the cluster that commands call local", "the one that they call remote"}[s], width: width, sorts: s == flows.A, by: byName, text: func(p *peering, _ time.Time) string {
		return t.Middle(t.Plain(string(p.ends[s].ID)), width-1)
	}}
}

// bothNames is where there is no room for two columns.
func bothNames(t draw.Theme, width int) tableColumn {
	return tableColumn{title: "PEERING", means: "its clusters, A and B", width: width, sorts: true, by: byName, text: func(p *peering, _ time.Time) string {
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
		return draw.PadLeft(draw.PerSecond(r.Received), trafficCells/2) + draw.PadLeft(draw.PerSecond(r.Sent), trafficCells/2)
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
		word += " " + draw.Minutes(now.Sub(since))
	}
	state := c[0].pad(t.Glyphs[draw.PairMarks[p.State]] + " " + t.Plain(word))
	var rest strings.Builder
	for _, column := range c[1:] {
		rest.WriteString(column.pad(column.text(p, now)))
	}
	switch {
	case selected:
		return t.Cursor.Render(t.Pointer + " " + state + ansi.Strip(rest.String()))
	case p.State == view.Stale || p.State == view.Unreachable:
		return "  " + t.Marks[draw.PairMarks[p.State]].Render(state) + t.Faint.Render(ansi.Strip(rest.String()))
	}
	return "  " + t.Marks[draw.PairMarks[p.State]].Render(state) + rest.String()
}
