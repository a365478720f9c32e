package draw

import (
	"strings"

	"github.com/liqo-tui/liqo-tui/flows"
)

// Connection is the picture of two clusters and the line between them. All screens about one connection begin
// with it.
type Connection struct {
	Names [2]string
	Lines [2][]string // what is known of each end, at most [Theme.EndWidth] cells wide
	Marks [2]Mark     // the state of each end
	Line  Mark        // the state of the tunnel
	// Listens is the end that is dialled. Known is false if that is not known.
	Listens flows.Side
	Known   bool
	Notes   []string // at the line: the first one stands above it. Without frames, it stands in the line
}

// The cells of the line between both ends.
const (
	leastLine = 24 // an address and a port have room
	mostLine  = 40
)

// besideEachOther is the smallest width without frames for both ends beside each other.
const besideEachOther = 76

func lineCells(width int) int {
	line := min(mostLine, max(leastLine, width/6))
	return line + (width-line)%2
}

// EndWidth returns the width of the lines about one end.
func (t Theme) EndWidth(width int) int {
	switch {
	case t.frames:
		return t.Inside((width - lineCells(width)) / 2)
	case width >= besideEachOther:
		return Half(width)
	}
	return width
}

// Connection draws the picture.
func (t Theme) Connection(c Connection, width int) []string {
	switch {
	case t.frames:
		return t.framedConnection(c, width)
	case width >= besideEachOther:
		half := Half(width)
		left, right := t.Middle(c.Names[flows.A], half/2), t.Middle(c.Names[flows.B], half)
		line := t.line(c, half-Cells(left), At(c.Notes, 0))
		head := t.end(flows.A, left) + " " + line + "  " + t.end(flows.B, right)
		return append([]string{head}, t.Beside(c.Lines[flows.A], c.Lines[flows.B], width)...)
	}
	left, right := t.Middle(c.Names[flows.A], width/3), t.Middle(c.Names[flows.B], width/3)
	line := t.line(c, width-Cells(left)-Cells(right)-2, At(c.Notes, 0))
	lines := []string{t.end(flows.A, left) + " " + line + " " + t.end(flows.B, right)}
	for s, of := range c.Lines {
		if len(of) > 0 {
			lines = append(append(lines, t.RuleLine(c.Names[s], width)), of...)
		}
	}
	return lines
}

// end returns the name of one end.
func (t Theme) end(s flows.Side, name string) string {
	return t.Title.Render(t.Sides[s].Render(t.Plain(name)))
}

func (t Theme) framedConnection(c Connection, width int) []string {
	gap := lineCells(width)
	box := (width - gap) / 2
	height := 1 + t.Edges()
	for _, lines := range c.Lines {
		height = max(height, len(lines)+t.Edges())
	}
	var ends [2][]string
	for s, lines := range c.Lines {
		name := t.end(flows.Side(s), t.Middle(c.Names[s], t.Inside(box)-4))
		ends[s] = t.Panel(Panel{Title: name, Lines: lines, Mark: c.Marks[s]}, box, height)
	}
	middle := make([]string, height)
	at := height / 2
	for i := range middle {
		note := ""
		switch {
		case i == at-1:
			note = At(c.Notes, 0)
		case i > at:
			note = At(c.Notes, i-at)
		}
		note = t.Fit(note, gap-2)
		left := (gap - Cells(note)) / 2
		middle[i] = Pad(strings.Repeat(" ", left)+note, gap)
	}
	middle[at] = " " + t.line(c, gap-2, "") + " "
	return Join(ends[flows.A], middle, ends[flows.B])
}

// line draws the tunnel as a line of width cells, with its state and a note in it, from the end that dials to
// the one that listens. Where nothing passes, the line ends.
func (t Theme) line(c Connection, width int, note string) string {
	look, glyph := t.Marks[c.Line], t.Glyphs[c.Line]
	if note != "" && Cells(note)+Cells(glyph)+8 <= width {
		glyph = note + " " + glyph
	}
	room := width - Cells(glyph) - 2
	if room < 4 {
		return Pad(t.Fit(look.Render(t.Glyphs[c.Line]), width), width)
	}
	rule, head, tail := t.Heavy, "", ""
	switch c.Line {
	case Pending, Running, Blank:
		rule = t.Rule
	case OK, Warn, Fail, Unknown:
	}
	if c.Known {
		head, tail = t.Heads[0], ""
		if c.Listens == flows.B {
			head, tail = "", t.Heads[1]
		}
		room--
	}
	first := room / 2
	before, after := strings.Repeat(rule, first), strings.Repeat(rule, room-first)
	if c.Line == Fail {
		switch {
		case c.Known && c.Listens == flows.B:
			after, tail = strings.Repeat(" ", room-first+1), ""
		case c.Known:
			before, head = strings.Repeat(" ", first+1), ""
		}
	}
	return look.Render(head+before) + " " + look.Render(glyph) + " " + look.Render(after+tail)
}
