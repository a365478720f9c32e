package draw

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// At returns the line with the index i; "" if there is none.
func At(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}

// TwoColumns is the smallest width for both sides of a connection beside each other.
const TwoColumns = 120

// BesideFrom is the smallest width for a detail beside its list. On narrower screens it is
// below the list.
const BesideFrom = 160

// Half returns the width of each of two blocks beside each other.
func Half(width int) int { return (width - 3) / 2 } //nolint:mnd // a gap, and two of them

// Beside puts two blocks of lines beside each other, each with half of the width.
func (t Theme) Beside(left, right []string, width int) []string {
	half := Half(width)
	lines := make([]string, max(len(left), len(right)))
	for i := range lines {
		lines[i] = strings.TrimRight(Pad(t.Fit(At(left, i), half), half)+"   "+t.Fit(At(right, i), half), " ")
	}
	return lines
}

// RowCells is the width of the sign before each row of a list, with a space.
const RowCells = 2

// Row returns a row of a list of width cells.
func (t Theme) Row(selected bool, row string, width int) string {
	row = t.Fit(row, width-RowCells)
	if selected {
		return t.Chosen(Pad(row, width-RowCells))
	}
	return strings.Repeat(" ", RowCells) + row
}

// Chosen returns the selected row of a list. It keeps its colours, on a background of its own. Terminals without
// such backgrounds reverse it.
func (t Theme) Chosen(row string) string {
	if t.tint.on == "" { // the cursor of a text is the only cell that is not reversed
		before, rest, _ := strings.Cut(row, t.Cursor.on)
		at, after, _ := strings.Cut(rest, t.Cursor.off)
		return t.Cursor.Render(t.Pointer+" "+ansi.Strip(before)) + ansi.Strip(at) + t.Cursor.Render(ansi.Strip(after))
	}
	row = t.Label.Render(t.here) + " " + row
	return t.tint.on + strings.ReplaceAll(row, t.tint.off, t.tint.off+t.tint.on) + t.tint.off
}

// Reversing returns the theme for a terminal with at most 16 colours: a background of the 256 has no colour there.
func (t Theme) Reversing() Theme {
	t.tint = Style{}
	return t
}

// RuleLine returns a line across the screen, with a heading in it.
func (t Theme) RuleLine(heading string, width int) string {
	if heading != "" {
		heading = strings.Repeat(t.Rule, 2) + " " + t.Plain(heading) + " "
	}
	heading = t.Fit(heading, width)
	return t.Faint.Render(heading + strings.Repeat(t.Rule, max(0, width-Cells(heading))))
}

// Window returns at most height rows, including the row at index.
func Window(rows []string, index, height int) []string {
	top := WindowTop(index, len(rows), height)
	return rows[top:min(top+height, len(rows))]
}

// WindowTop returns the index of the first visible row of n rows, so that the row at index is
// visible.
func WindowTop(index, n, height int) int {
	return max(0, min(index-height/2, n-height))
}
