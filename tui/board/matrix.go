package board

import (
	"fmt"
	"slices"
	"strings"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/view"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// cellWidth is that of a pair in the matrix: a sign, a round trip, a space.
const cellWidth = 10

// matrixText is every cluster with every other one: how the peering is, and the round trip
// that the gateway of the line's cluster measures now.
func (s Screen) matrixText(e session.Env) []string {
	t, b := e.Theme, s.Board
	count := map[render.ClusterID]int{}
	for id := range b.Rows {
		count[id.low]++
		count[id.high]++
	}
	if len(count) == 0 {
		return t.Wrap(b.nothing(), e.Width, 0)
	}
	var ids []render.ClusterID
	for id := range count {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(x, y render.ClusterID) int { // those with most peers first: columns may have no room
		if count[x] != count[y] {
			return count[y] - count[x]
		}
		return strings.Compare(string(x), string(y))
	})
	names := leastName
	for _, id := range ids {
		names = max(names, draw.Cells(string(id)))
	}
	names = min(names, mostName, e.Width/3) + 1
	columns := ids[:max(1, min(len(ids), (e.Width-names)/cellWidth))]
	cells := make([]string, len(columns))
	for i, id := range columns {
		cells[i] = draw.Pad(t.Middle(t.Plain(string(id)), cellWidth-1), cellWidth)
	}
	lines := []string{t.Faint.Render(strings.Repeat(" ", names) + strings.Join(cells, ""))}
	for _, from := range ids {
		for i, to := range columns {
			cells[i] = s.matrixCell(t, from, to)
		}
		lines = append(lines, draw.Pad(t.Middle(t.Plain(string(from)), names-1), names)+strings.Join(cells, ""))
	}
	lines = append(lines, "")
	if more := len(ids) - len(columns); more > 0 {
		lines = append(lines, t.Faint.Render(fmt.Sprintf("%d more columns have no room; their lines are here.", more)))
	}
	var legend []string
	for state, n := range slices.Backward(b.counts[:]) {
		if n > 0 {
			legend = append(legend, t.State(draw.PairMarks[state], view.State(state).String(), 0))
		}
	}
	legend = append(legend, "- not peered, or nobody here says so", "round trips are measured by the line's gateway")
	t.Dot = "   " // a dot is a state's sign, too
	return append(lines, t.Pack(legend, e.Width)...)
}

func (s Screen) matrixCell(t draw.Theme, from, to render.ClusterID) string {
	p, ok := s.Board.Rows[PairOf(from, to)]
	switch {
	case from == to:
		return strings.Repeat(" ", cellWidth)
	case !ok:
		return draw.Pad("-", cellWidth)
	}
	side := flows.A
	if p.ends[flows.B].ID == from {
		side = flows.B
	}
	text := ""
	if d := p.roundTrip(side, s.Board.now); d > 0 {
		text = draw.RoundTrip(d)
	}
	return t.State(draw.PairMarks[p.State], text, cellWidth)
}
