package draw

import (
	"slices"
	"strings"
)

// Panel is a part of a screen: lines below a title. On a large terminal it has a frame. Otherwise it has a
// rule with the title.
type Panel struct {
	Title string // one line, styled
	Right string // stands at the right end of the title's line; "" for nothing
	Lines []string
	// Mark colours the frame, if it is Warn or Fail. The title then begins with its glyph, because colour
	// is never the only signal.
	Mark Mark
	// Grows is set if the panel takes lines that the page has left.
	Grows bool
	// Open is set if the frame has blank sides, because somebody copies lines of the panel from the terminal.
	Open bool
}

// The smallest terminal on which panels have frames.
const (
	framesWidth  = 100
	framesHeight = 30
)

// Framed returns the theme for a terminal of this size, whose panels have frames only if there is room.
func (t Theme) Framed(width, height int) Theme {
	t.frames = width >= framesWidth && height >= framesHeight
	return t
}

// Frames reports whether panels have frames.
func (t Theme) Frames() bool { return t.frames }

// corners has the characters of a frame besides [Theme.Rule]: top left, top right, bottom left, bottom right,
// and the sides.
type corners [5]string

// FrameCells is the width of a frame's side: the line, and a space before the text.
const FrameCells = 2

// Inside returns the width of the text in a panel.
func (t Theme) Inside(width int) int {
	if t.frames {
		width -= 2 * FrameCells
	}
	return max(0, width)
}

// Edges returns the number of lines that a panel has besides its text.
func (t Theme) Edges() int {
	if t.frames {
		return 2
	}
	return 1
}

// Panel draws a panel. Each line has width cells: longer ones are cut with an ellipsis. There are height
// lines: empty ones are added, and lines without room are counted at the end. Height 0 is the height of the
// text.
func (t Theme) Panel(p Panel, width, height int) []string {
	if height <= 0 {
		height = len(p.Lines) + t.Edges()
	}
	width = max(0, width)
	lines := []string{t.upperEdge(p, width)}
	room := max(0, height-t.Edges())
	shown := slices.Clone(p.Lines[:min(room, len(p.Lines))])
	more := ""
	if hidden := len(p.Lines) - room; hidden > 0 {
		more = Counted(hidden, "more line")
		if !t.frames && room > 0 {
			shown[room-1], more = t.Faint.Render(Counted(hidden+1, "more line")), ""
		}
	}
	edge := t.edge(p.Mark)
	side := edge.Render(t.frame[4])
	if p.Open {
		side = " "
	}
	for i := range room {
		text := Pad(t.Fit(At(shown, i), t.Inside(width)), t.Inside(width))
		if t.frames {
			text = side + " " + text + " " + side
		}
		lines = append(lines, Pad(t.Fit(text, width), width))
	}
	switch {
	case t.frames && p.Open:
		lines = append(lines, t.Fit(PadLeft(t.Faint.Render(more), width), width))
	case t.frames:
		lines = append(lines, t.edgeLine(edge, t.frame[2], t.frame[3], "", t.Faint.Render(more), width))
	}
	return lines[:min(len(lines), height)]
}

// Stack draws rows of panels below each other. With frames, the panels of a row stand beside each other, and the rows
// with a growing panel share the lines that are left of height. Panels without lines are left out.
func (t Theme) Stack(width, height int, rows ...[]Panel) []string {
	total, growing := 0, 0
	for i, row := range rows {
		row = slices.DeleteFunc(slices.Clone(row), func(p Panel) bool { return len(p.Lines) == 0 })
		rows[i] = row
		total += t.rowHeight(row)
		if slices.ContainsFunc(row, func(p Panel) bool { return p.Grows }) {
			growing++
		}
	}
	spare := 0
	if t.frames {
		spare = max(0, height-total)
	}
	var lines []string
	for _, row := range rows {
		more := 0
		if slices.ContainsFunc(row, func(p Panel) bool { return p.Grows }) {
			more = spare / growing
			spare, growing = spare-more, growing-1
		}
		switch {
		case len(row) == 0:
		case t.frames:
			lines = append(lines, t.row(row, width, t.rowHeight(row)+more)...)
		default:
			for _, p := range row {
				lines = append(lines, t.Panel(p, width, 0)...)
			}
		}
	}
	return lines
}

// row draws panels beside each other.
func (t Theme) row(row []Panel, width, height int) []string {
	blocks := make([][]string, len(row))
	for i, p := range row {
		own := width / (len(row) - i)
		blocks[i] = t.Panel(p, own, height)
		width -= own
	}
	return Join(blocks...)
}

// rowHeight returns the height of a row of panels with frames.
func (t Theme) rowHeight(row []Panel) int {
	height := 0
	for _, p := range row {
		height = max(height, len(p.Lines)+t.Edges())
	}
	return height
}

// edge returns the style of a panel's frame.
func (t Theme) edge(m Mark) Style {
	switch m {
	case Warn, Fail:
		return t.edges[m]
	case Pending, Running, OK, Unknown, Blank:
	}
	return t.Faint
}

// upperEdge returns the line with the title.
func (t Theme) upperEdge(p Panel, width int) string {
	title := p.Title
	if title != "" && (p.Mark == Warn || p.Mark == Fail) {
		title = t.Marks[p.Mark].Render(t.Glyphs[p.Mark]) + " " + title
	}
	left, right := t.frame[0], t.frame[1]
	if !t.frames || p.Open {
		left, right = t.Rule, t.Rule
	}
	return t.edgeLine(t.edge(p.Mark), left, right, title, p.Right, width)
}

// edgeLine draws a line between two corners, with a text at each end. The right text is left out if there is
// no room for both. The left one is cut.
func (t Theme) edgeLine(edge Style, left, right, title, note string, width int) string {
	const beside = 2 // the cells of a corner and of the line beside it
	room := width - 2*beside
	if room <= beside { // not even for one character of a title
		return edge.Render(strings.Repeat(t.Rule, width))
	}
	if title != "" {
		title = " " + t.Fit(title, room-beside) + " "
	}
	if note != "" {
		note = " " + note + " "
	}
	if Cells(title)+Cells(note) > room {
		note = ""
	}
	between := room - Cells(title) - Cells(note)
	return edge.Render(left+t.Rule) + title + edge.Render(strings.Repeat(t.Rule, between)) + note + edge.Render(t.Rule+right)
}

// Join puts blocks beside each other. The lines of a block have the same width.
func Join(blocks ...[]string) []string {
	height := 0
	for _, b := range blocks {
		height = max(height, len(b))
	}
	lines := make([]string, height)
	for _, b := range blocks {
		blank := ""
		if len(b) > 0 {
			blank = strings.Repeat(" ", Cells(b[0]))
		}
		for i := range lines {
			if i < len(b) {
				lines[i] += b[i]
			} else {
				lines[i] += blank
			}
		}
	}
	return lines
}

// Fact is a row of a table: what it is about, and what is known of it.
type Fact struct{ Label, Value string }

// LabelCells is the width of a table's labels. It is the same in all tables, so that facts stand below each
// other on all screens.
const LabelCells = 12

// Table draws facts in two columns. Each fact is one line, also if nothing is known of it: then a dash stands
// for the value, and the facts below stay where they are.
func (t Theme) Table(facts []Fact, width int) []string {
	return t.Facts(facts, LabelCells, width)
}

// Facts is [Theme.Table] for labels of another width.
func (t Theme) Facts(facts []Fact, side, width int) []string {
	side = min(side, width/2)
	lines := make([]string, len(facts))
	for i, f := range facts {
		label := f.Label
		if Cells(label) >= side {
			label = t.Fit(label, max(0, side-1))
		}
		value := f.Value
		if value == "" {
			value = t.Faint.Render("-")
		}
		lines[i] = t.Fit(t.Faint.Render(Pad(label, side))+value, width)
	}
	return lines
}
