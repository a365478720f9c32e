package board

import (
	"fmt"
	"slices"
	"strings"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/view"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/keys"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// stepMsg moves the cursor of the matrix to the next connection in its line, or to the nearest connection in
// another line.
type stepMsg struct{ right, down int }

func steps(k keys.Map) []keys.Command {
	return keys.In(
		keys.Move,
		keys.Command{Binding: k.Up, Msg: stepMsg{down: -1}, Quiet: true}, keys.Command{Binding: k.Down, Msg: stepMsg{down: +1}, Quiet: true},
		keys.Command{Binding: keys.Named(k.Left, "left"), Msg: stepMsg{right: -1}, Quiet: true}, keys.Command{Binding: keys.Named(k.Right, "right"), Msg: stepMsg{right: +1}, Quiet: true},
	)
}

// matrix shows the connections between all clusters as a table.
type matrix struct {
	lines, columns []wire.ClusterID // columns may have fewer clusters than lines, if there is no room
	names, cell    int              // widths
	cursor         [2]wire.ClusterID
	line, column   int // the position of the cursor; -1: the column has no room
}

// cellWidth is the width of a cell: the sign of a row, that of the state, a round trip, and spaces. With more room,
// cells grow to widestCell.
const (
	cellWidth  = 9
	widestCell = 20
)

func (s Screen) matrix(e session.Env) matrix {
	count := map[wire.ClusterID]int{}
	for id := range s.Board.Rows {
		count[id.low]++
		count[id.high]++
	}
	m := matrix{names: leastName, cell: cellWidth + draw.Cells(e.Theme.Glyphs[draw.OK])}
	for id := range count {
		m.lines = append(m.lines, id)
		m.names = max(m.names, draw.Cells(string(id)))
	}
	slices.SortFunc(m.lines, func(x, y wire.ClusterID) int { // clusters with most peers first, because columns may have no room
		if count[x] != count[y] {
			return count[y] - count[x]
		}
		return strings.Compare(string(x), string(y))
	})
	m.names = min(m.names, mostName, e.Width/3)
	room := s.theme(e).Inside(e.Width) - m.names
	m.columns = m.lines[:min(len(m.lines), max(1, room/m.cell))]
	if n := len(m.columns); n > 0 {
		m.cell = max(m.cell, min(room/n, widestCell))
	}
	if p := s.Subject(); p != nil {
		m.cursor = [2]wire.ClusterID{p.ends[flows.A].ID, p.ends[flows.B].ID}
		if out := !slices.Contains(m.columns, m.cursor[1]); out || s.from == m.cursor[1] && slices.Contains(m.columns, m.cursor[0]) {
			slices.Reverse(m.cursor[:])
		}
	}
	m.line, m.column = slices.Index(m.lines, m.cursor[0]), slices.Index(m.columns, m.cursor[1])
	return m
}

func (s Screen) step(e session.Env, by stepMsg) Screen {
	m := s.matrix(e)
	for line := m.line + by.down; line >= 0 && line < len(m.lines); line += by.down {
		best, least := -1, len(m.lines)+1
		for i, id := range m.columns {
			_, peered := s.Board.Rows[PairOf(m.lines[line], id)]
			far := max(i-m.column, m.column-i)
			if peered && far < least && (by.right == 0 || (i-m.column)*by.right > 0) {
				best, least = i, far
			}
		}
		if best >= 0 {
			s.from, s.list.held, s.list.selected = m.lines[line], true, PairOf(m.lines[line], m.columns[best])
			return s
		}
		if by.down == 0 {
			return s
		}
	}
	return s
}

// matrixText returns the table with the state of each connection, and the round trip that the gateway of the
// line's cluster measures now.
func (s Screen) matrixText(e session.Env) []string {
	b, m := s.Board, s.matrix(e)
	e.Theme = s.theme(e)
	t, inside := e.Theme, e.Theme.Inside(e.Width)
	if len(m.lines) == 0 {
		return t.Wrap(b.nothing(), e.Width, 0)
	}
	cells := make([]string, len(m.columns))
	for i, id := range m.columns {
		cells[i] = draw.Pad("  "+t.Middle(t.Plain(string(id)), m.cell-3), m.cell)
	}
	lines := []string{t.Faint.Render(strings.Repeat(" ", m.names) + strings.Join(cells, ""))}
	for _, from := range m.lines {
		for i, to := range m.columns {
			cells[i] = s.matrixCell(t, m, from, to)
		}
		lines = append(lines, draw.Pad(t.Middle(t.Plain(string(from)), m.names), m.names)+strings.Join(cells, ""))
	}
	lines = append(lines, "")
	if more := len(m.lines) - len(m.columns); more > 0 {
		lines = append(lines, t.Faint.Render(fmt.Sprintf("%d more columns have no room; their lines are here.", more)))
	}
	var legend []string
	for state, n := range slices.Backward(b.counts[:]) {
		if n > 0 {
			legend = append(legend, t.State(draw.PairMarks[state], view.PairState(state).String(), 0))
		}
	}
	lines = append(lines, t.PackApart(append(legend, "- not connected, or nobody here says so"), inside)...)
	lines = t.Panel(draw.Panel{Title: t.Title.Render("Matrix"), Right: t.Faint.Render("round trips as the row's gateway measures them"), Lines: lines}, e.Width, 0)
	room := e.Room() - len(lines)
	if p := s.Subject(); p != nil && room >= belowLines && !s.filtering && s.find.String() == "" {
		lines = append(lines, s.pane(e, p, room)...)
	}
	return lines
}

func (s Screen) matrixCell(t draw.Theme, m matrix, from, to wire.ClusterID) string {
	p, ok := s.Board.Rows[PairOf(from, to)]
	switch {
	case from == to:
		return strings.Repeat(" ", m.cell)
	case !ok:
		return draw.Pad("  -", m.cell)
	}
	side := flows.A
	if p.ends[flows.B].ID == from {
		side = flows.B
	}
	text := ""
	if d := p.roundTrip(side, s.Board.now); d > 0 {
		text = draw.RoundTrip(d)
	}
	if m.cursor == [2]wire.ClusterID{from, to} {
		return t.Chosen(t.State(draw.PairMarks[p.State], text, m.cell-draw.RowCells-1)) + " "
	}
	return "  " + t.State(draw.PairMarks[p.State], text, m.cell-draw.RowCells)
}
